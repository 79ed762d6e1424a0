//! UPDATE and DELETE that a shard does whole.

use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::batch::TupleBatch;
use crate::pg::list::{Item, Items};
use crate::pg::param::Params;
use crate::pg::tuple::TextRows;
use crate::pq::PgResult;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use crate::remote::usage::Usage;
use pgrx::pg_sys::Oid;
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
    /// The shard's locale that the text relies on; empty if it does not.
    pub locale: Vec<u8>,
}

impl DirectPlan {
    pub fn to_items(&self) -> Vec<Item> {
        let returning = self.returning.as_deref().unwrap_or_default();
        vec![
            Item::Text(self.sql.as_bytes().to_vec()),
            Item::Int(i32::from(self.returning.is_some())),
            Item::Ints(returning.iter().copied().map(i32::from).collect()),
            Item::Int(i32::from(self.can_set_tag)),
            Item::Text(self.locale.clone()),
        ]
    }

    pub fn from_items(items: Vec<Item>) -> Result<DirectPlan> {
        let mut items = Items::new(items);
        let sql = items.text()?.into();
        let has_returning = items.int()? != 0;
        let returning = items.columns()?;
        let can_set_tag = items.int()? != 0;
        let locale = items.text()?;
        items.finish()?;
        Ok(DirectPlan {
            sql,
            returning: has_returning.then_some(returning),
            can_set_tag,
            locale,
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
    locale: Vec<u8>,
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
    /// Those of the present chunk.
    chunk: TupleBatch,
    answer: Option<PgResult>,
    /// Where the chunk begins in the answer.
    start: usize,
    /// Index in `chunk` of the next row.
    next: usize,
}

impl Direct {
    /// `returning`: where returned rows are shown.
    pub fn new(
        plan: DirectPlan,
        access: Access,
        params: Params,
        returning: Option<TupleBatch>,
    ) -> Direct {
        Direct {
            sql: Rc::new(plan.sql),
            locale: plan.locale,
            params,
            usage: Usage::new(access.server, access.user),
            subject: Subject::table(&access.table),
            command_id: access.command_id,
            stats: WriteStats::default(),
            has_run: false,
            returned: returning.map(|chunk| Returned {
                chunk,
                answer: None,
                start: 0,
                next: 0,
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
        if !self.locale.is_empty() {
            session.rely_on(&self.locale)?;
        }
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

    /// Shows the next returned row; false at the end and without RETURNING.
    pub fn next(&mut self) -> Result<bool> {
        match &mut self.returned {
            Some(returned) => returned.next(),
            None => Ok(false),
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
    fn next(&mut self) -> Result<bool> {
        let Some(answer) = &self.answer else {
            return Ok(false);
        };
        if self.next >= self.chunk.len() {
            self.start += self.chunk.len();
            let end = answer.row_count().min(self.start + CHUNK);
            self.chunk.fill(answer, self.start..end)?;
            self.next = 0;
        }
        let is_row = self.next < self.chunk.len();
        self.chunk.show(self.next);
        self.next += 1;
        Ok(is_row)
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
            locale: b"UTF8 c".to_vec(),
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
