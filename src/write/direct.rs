//! UPDATE and DELETE that a shard does whole.

use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::list::{Item, Items};
use crate::pg::memory::MemoryContext;
use crate::pg::param::Params;
use crate::pg::tuple::{Decoder, TextRows, Tuple};
use crate::pq::PgResult;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use crate::remote::usage::Usage;
use pgrx::pg_sys::Oid;
use std::ffi::CStr;
use std::rc::Rc;

/// Returned rows that are made into tuples at a time.
const CHUNK: usize = 1000;

/// An UPDATE or DELETE of one foreign table as the plan holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectPlan {
    pub sql: Sql,
    /// Numbers of the columns that the shard returns, None if it returns no rows.
    pub returning: Option<Vec<i16>>,
    /// Its rows count for the command tag.
    pub can_set_tag: bool,
}

impl DirectPlan {
    pub fn to_items(&self) -> Vec<Item> {
        let returning = self.returning.as_deref().unwrap_or_default();
        vec![
            Item::Text(self.sql.as_bytes().to_vec()),
            Item::Int(i32::from(self.returning.is_some())),
            Item::Ints(returning.iter().copied().map(i32::from).collect()),
            Item::Int(i32::from(self.can_set_tag)),
        ]
    }

    pub fn from_items(items: Vec<Item>) -> Result<DirectPlan> {
        let mut items = Items::new(items);
        let sql = items.text()?.into();
        let has_returning = items.int()? != 0;
        let returning = items.columns()?;
        let can_set_tag = items.int()? != 0;
        items.finish()?;
        Ok(DirectPlan {
            sql,
            returning: has_returning.then_some(returning),
            can_set_tag,
        })
    }
}

/// Who writes, where, and as what.
pub struct Access {
    pub server: Oid,
    /// Its user mapping is used.
    pub user: Oid,
    /// Name of the foreign table.
    pub table: Vec<u8>,
    /// That of the statement.
    pub command_id: u32,
}

/// A running UPDATE or DELETE. Nothing is sent before [`Direct::run`].
pub struct Direct {
    sql: Rc<Sql>,
    params: Params,
    usage: Usage,
    subject: Subject,
    command_id: u32,
    stats: WriteStats,
    has_run: bool,
    returned: Option<Returned>,
}

/// The rows that RETURNING has brought.
struct Returned {
    decoder: Decoder,
    /// Holds the tuples of the present chunk.
    context: MemoryContext,
    answer: Option<PgResult>,
    /// Rows of the answer that have been made into tuples.
    decoded: usize,
    chunk: std::vec::IntoIter<Tuple>,
}

impl Direct {
    /// `returning`: how returned rows are read, and where to.
    pub fn new(
        plan: DirectPlan,
        access: Access,
        params: Params,
        returning: Option<(Decoder, MemoryContext)>,
    ) -> Direct {
        Direct {
            sql: Rc::new(plan.sql),
            params,
            usage: Usage::new(access.server, access.user),
            subject: Subject::table(&access.table),
            command_id: access.command_id,
            stats: WriteStats::default(),
            has_run: false,
            returned: returning.map(|(decoder, context)| Returned {
                decoder,
                context,
                answer: None,
                decoded: 0,
                chunk: Vec::new().into_iter(),
            }),
        }
    }

    /// Runs the statement, after everything that waits for the shard. Returns how many rows it changed; None if it has
    /// been run before.
    pub fn run(&mut self) -> Result<Option<u64>> {
        if self.has_run {
            return Ok(None);
        }
        self.has_run = true;
        let values = self.params.evaluate()?;
        let statement = Statement {
            sql: self.sql.clone(),
            params: values.into_iter().map(Param::text).collect(),
            written_by: Some(self.command_id),
            subject: self.subject.clone(),
        };
        let session = self.usage.session()?;
        let answer = session.execute(&statement)?;
        let rows = answer.affected_rows().unwrap_or(0);
        let bytes = statement.len() as u64;
        self.stats.count_whole(rows, bytes);
        session.counters().count_whole(rows, bytes);
        if let Some(returned) = &mut self.returned {
            returned.answer = Some(answer);
        }
        Ok(Some(rows))
    }

    /// The next returned row, None at the end and without RETURNING. It is valid until the next call.
    pub fn next(&mut self) -> Result<Option<Tuple>> {
        match &mut self.returned {
            Some(returned) => returned.next(),
            None => Ok(None),
        }
    }

    /// Has the statement been sent?
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// Counters of this statement.
    pub fn stats(&self) -> WriteStats {
        self.stats
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }
}

impl Returned {
    fn next(&mut self) -> Result<Option<Tuple>> {
        if let Some(tuple) = self.chunk.next() {
            return Ok(Some(tuple));
        }
        let Some(answer) = &self.answer else {
            return Ok(None);
        };
        let rows = Slice {
            rows: answer,
            from: self.decoded,
            count: CHUNK.min(answer.row_count() - self.decoded),
        };
        self.context.reset();
        self.decoded += rows.count;
        self.chunk = self.decoder.decode(&rows, self.context)?.into_iter();
        Ok(self.chunk.next())
    }
}

/// Some rows of many.
struct Slice<'a> {
    rows: &'a dyn TextRows,
    from: usize,
    count: usize,
}

impl TextRows for Slice<'_> {
    fn row_count(&self) -> usize {
        self.count
    }

    fn column_count(&self) -> usize {
        self.rows.column_count()
    }

    fn text(&self, row: usize, column: usize) -> Option<&CStr> {
        self.rows.text(self.from + row, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_list() {
        let mut plan = DirectPlan {
            sql: "DELETE".into(),
            returning: Some(vec![]),
            can_set_tag: true,
        };
        assert_eq!(DirectPlan::from_items(plan.to_items()).unwrap(), plan);
        plan.returning = None;
        plan.can_set_tag = false;
        assert_eq!(DirectPlan::from_items(plan.to_items()).unwrap(), plan);
        let mut short = plan.to_items();
        short.pop();
        assert!(DirectPlan::from_items(short).is_err());
    }
}
