//! Rows that go to the shard one at a time, because somebody looks at each of them.

use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::target::Target;
use crate::pg::typio::{Dependence, Transmission};
use crate::pg::value::{Encoder, Row};
use crate::pq::PgResult;
use crate::remote::session::SessionRef;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use crate::write::columns::Sent;
use std::rc::Rc;

/// A statement for one row. All values travel as text, and the shard infers their types.
pub struct SingleRow {
    session: SessionRef,
    sql: Rc<Sql>,
    table: Rc<[u8]>,
    encoders: Vec<Encoder>,
    dependence: Dependence,
    command_id: u32,
    rows: u64,
    stats: WriteStats,
}

impl SingleRow {
    /// `sql`: the statement, with a parameter for each column of `sent`.
    pub fn insert(
        session: SessionRef,
        target: &Target,
        sent: &Sent,
        sql: Sql,
        command_id: u32,
    ) -> SingleRow {
        let encoders: Vec<Encoder> = sent
            .attnums
            .iter()
            .filter_map(|attnum| target.relation.column(*attnum))
            .map(Encoder::text)
            .collect();
        SingleRow {
            session,
            sql: Rc::new(sql),
            table: target.relation.name.as_slice().into(),
            dependence: Dependence::of_all(encoders.iter().map(Encoder::dependence)),
            encoders,
            command_id,
            rows: 0,
            stats: WriteStats::default(),
        }
    }

    pub fn sql(&self) -> &Sql {
        &self.sql
    }

    pub fn stats(&self) -> WriteStats {
        self.stats
    }

    /// Sends the row, after everything that waits, and returns the shard's answer.
    pub fn execute(&mut self, row: &Row) -> Result<PgResult> {
        let params = {
            let _pinned = Transmission::begin_for(self.dependence);
            self.encoders
                .iter()
                .map(|encoder| encoder.text_value(row).map(Param::text))
                .collect::<Result<Vec<_>>>()?
        };
        self.rows += 1;
        let statement = Statement {
            sql: self.sql.clone(),
            params,
            written_by: Some(self.command_id),
            subject: Subject {
                table: Some(self.table.clone()),
                rows: Some((self.rows, self.rows)),
                ..Subject::default()
            },
        };
        let bytes = statement.len() as u64;
        self.stats.count_single(bytes);
        self.session.counters().count_single(bytes);
        self.session.execute(&statement)
    }
}
