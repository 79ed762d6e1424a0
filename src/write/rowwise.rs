//! UPDATE and DELETE one row at a time, each row found by its ctid.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::pg::list::{Item, Items};
use crate::pg::memory::MemoryContext;
use crate::pg::tuple::{Decoder, Tuple};
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use crate::remote::usage::Usage;
use pgrx::pg_sys::Oid;
use std::ffi::CString;
use std::rc::Rc;

/// An UPDATE or DELETE of one foreign table as the plan holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowPlan {
    /// The table: in some releases of PostgreSQL 18 core hands over the list of another one.
    pub relid: Oid,
    pub sql: Sql,
    /// Numbers of the columns whose values follow the ctid as parameters.
    pub columns: Vec<i16>,
    /// Numbers of the columns that the shard returns, None if it returns no rows.
    pub returning: Option<Vec<i16>>,
}

impl RowPlan {
    pub fn to_items(&self) -> Vec<Item> {
        let numbers =
            |columns: &[i16]| Item::Ints(columns.iter().copied().map(i32::from).collect());
        vec![
            Item::Int(self.relid.to_u32() as i32),
            Item::Text(self.sql.as_bytes().to_vec()),
            numbers(&self.columns),
            Item::Int(i32::from(self.returning.is_some())),
            numbers(self.returning.as_deref().unwrap_or_default()),
        ]
    }

    pub fn from_items(items: Vec<Item>) -> Result<RowPlan> {
        let mut items = Items::new(items);
        let relid = Oid::from_u32(items.int()? as u32);
        let sql = items.text()?.into();
        let columns = items.columns()?;
        let has_returning = items.int()? != 0;
        let returning = items.columns()?;
        items.finish()?;
        Ok(RowPlan {
            relid,
            sql,
            columns,
            returning: has_returning.then_some(returning),
        })
    }
}

/// What became of a row.
pub enum Outcome {
    /// No such row any more, or a trigger of the shard refused it.
    Nothing,
    Done,
    /// The row as the shard has it. Valid until the next row.
    Returned(Tuple),
}

/// A running UPDATE or DELETE of one foreign table.
pub struct RowWriter {
    columns: Vec<i16>,
    sql: Rc<Sql>,
    subject: Subject,
    usage: Usage,
    /// Command id of the statement.
    command_id: u32,
    stats: WriteStats,
    /// Reads what is returned, into the context.
    returning: Option<(Decoder, MemoryContext)>,
}

impl RowWriter {
    /// `user`: whose mapping is used. `table`: name of the foreign table.
    pub fn new(
        plan: RowPlan,
        table: &[u8],
        server: Oid,
        user: Oid,
        command_id: u32,
        returning: Option<(Decoder, MemoryContext)>,
    ) -> RowWriter {
        RowWriter {
            columns: plan.columns,
            sql: Rc::new(plan.sql),
            subject: Subject::table(table),
            usage: Usage::new(server, user),
            command_id,
            stats: WriteStats::default(),
            returning,
        }
    }

    /// Numbers of the columns whose values [`RowWriter::write`] takes.
    pub fn columns(&self) -> &[i16] {
        &self.columns
    }

    /// Counters of this statement.
    pub fn stats(&self) -> WriteStats {
        self.stats
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Runs the statement for the row at `ctid`.
    pub fn write(&mut self, ctid: CString, values: Vec<Option<CString>>) -> Result<Outcome> {
        let session = self.usage.session()?;
        let params = std::iter::once(Some(ctid)).chain(values);
        let statement = Statement {
            sql: self.sql.clone(),
            params: params.map(Param::text).collect(),
            written_by: Some(self.command_id),
            subject: self.subject.clone(),
        };
        let bytes = statement.len() as u64;
        self.stats.count_single(bytes);
        session.counters().count_single(bytes);
        let answer = session.execute(&statement)?;
        let Some((decoder, context)) = &mut self.returning else {
            return match answer.affected_rows().unwrap_or(0) {
                0 => Ok(Outcome::Nothing),
                1 => Ok(Outcome::Done),
                _ => Err(ambiguous()),
            };
        };
        context.reset();
        match *decoder.decode(&answer, *context)? {
            [] => Ok(Outcome::Nothing),
            [tuple] => Ok(Outcome::Returned(tuple)),
            _ => Err(ambiguous()),
        }
    }
}

fn ambiguous() -> FdwError {
    FdwError::local(
        SqlState::CARDINALITY_VIOLATION,
        "more than one remote row has the same ctid",
    )
    .with_detail("The remote table is partitioned, or has child tables.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_list() {
        let mut plan = RowPlan {
            relid: Oid::from_u32(u32::MAX),
            sql: "UPDATE".into(),
            columns: vec![3, 1],
            returning: Some(vec![]),
        };
        assert_eq!(RowPlan::from_items(plan.to_items()).unwrap(), plan);
        plan.returning = None;
        assert_eq!(RowPlan::from_items(plan.to_items()).unwrap(), plan);
        let mut long = plan.to_items();
        long.push(Item::Int(1));
        assert!(RowPlan::from_items(long).is_err());
    }
}
