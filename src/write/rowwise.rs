//! UPDATE and DELETE one row at a time, because somebody looks at each of them.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::tuple::TextRows;
use crate::pg::typio::{Dependence, Transmission};
use crate::pg::value::{Encoder, Row};
use crate::pq::PgResult;
use crate::remote::session::SessionRef;
use crate::remote::statement::{add_context, Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use std::rc::Rc;

/// What became of a row.
pub enum Outcome {
    /// It waits in a buffer.
    Buffered,
    /// No such row any more, or a trigger of the shard refused it, or it has been changed before.
    Nothing,
    Done,
    /// The answer holds the row as the shard has it, and no other.
    Returned(PgResult),
}

/// A statement for one row. All values travel as text, and the shard infers their types.
pub struct RowWriter {
    session: SessionRef,
    sql: Rc<Sql>,
    table: Rc<[u8]>,
    /// What identifies a row, from the rows of the plan below.
    identity: Vec<Encoder>,
    /// New values, from the row as it is to be.
    values: Vec<Encoder>,
    dependence: Dependence,
    /// The statement returns the row.
    returns_row: bool,
    /// Command id of the statement.
    command_id: u32,
    rows: u64,
    stats: WriteStats,
}

impl RowWriter {
    /// `table`: name of the foreign table. The encoders make text. `returns_row`: the statement returns the row as it is then.
    pub fn new(
        session: SessionRef,
        table: &[u8],
        sql: Sql,
        identity: Vec<Encoder>,
        values: Vec<Encoder>,
        returns_row: bool,
        command_id: u32,
    ) -> RowWriter {
        let encoders = identity.iter().chain(&values);
        RowWriter {
            session,
            sql: Rc::new(sql),
            table: table.into(),
            dependence: Dependence::of_all(encoders.map(Encoder::dependence)),
            identity,
            values,
            returns_row,
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

    pub fn identity(&self) -> &[Encoder] {
        &self.identity
    }

    /// What the statement for the last row is about.
    pub fn subject(&self) -> Subject {
        Subject {
            table: Some(self.table.clone()),
            rows: Some((self.rows, self.rows)),
            ..Subject::default()
        }
    }

    /// Runs the statement for one row, after everything that waits. `old` is the row of the plan below, `new` the row as it
    /// is to be.
    pub fn write(&mut self, old: &Row, new: &Row) -> Result<Outcome> {
        let params = {
            let _pinned = Transmission::begin_for(self.dependence);
            let identity = self.identity.iter().map(|encoder| (encoder, old));
            let values = self.values.iter().map(|encoder| (encoder, new));
            identity
                .chain(values)
                .map(|(encoder, row)| encoder.text_value(row).map(Param::text))
                .collect::<Result<Vec<_>>>()?
        };
        self.rows += 1;
        let statement = Statement {
            sql: self.sql.clone(),
            params,
            written_by: Some(self.command_id),
            subject: self.subject(),
        };
        let bytes = statement.len() as u64;
        self.stats.count_single(bytes);
        self.session.counters().count_single(bytes);
        let answer = self.session.execute(&statement)?;
        let changed = match self.returns_row {
            true => answer.row_count() as u64,
            false => answer.affected_rows().unwrap_or(0),
        };
        match changed {
            0 => Ok(Outcome::Nothing),
            1 if self.returns_row => Ok(Outcome::Returned(answer)),
            1 => Ok(Outcome::Done),
            _ => Err(add_context(
                excess(&text::from_bytes(&self.table), changed, 1),
                &self.session.server().name,
                &self.sql,
                &statement.subject,
            )),
        }
    }
}

/// What identifies a row, as bytes that are the same for the same row.
pub fn identity_bytes(encoders: &[Encoder], old: &Row) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16);
    for encoder in encoders {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        encoder.append(old, &mut bytes)?;
        let length = (bytes.len() - start - 4) as u32;
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(bytes)
}

/// The error for rows hit that were not meant.
pub fn excess(table: &str, changed: u64, sent: u64) -> FdwError {
    FdwError::local(
        SqlState::CARDINALITY_VIOLATION,
        format!(
            "a statement for {} of foreign table \"{table}\" has hit {} of the shard",
            text::rows(sent),
            text::rows(changed)
        ),
    )
    .with_detail(
        "The columns with the option \"key\" do not identify a row of the remote table, or a rule of the shard changes more.",
    )
}
