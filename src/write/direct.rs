//! UPDATE and DELETE that a shard does whole.

use crate::model::adjust::{Assigned, Places};
use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::batch::TupleBatch;
use crate::pg::list::{Item, Items};
use crate::pg::param::Params;
use crate::pg::tuple::TextRows;
use crate::pq::PgResult;
use crate::remote::statement::{Param, Statement, Subject};
use crate::remote::stats::WriteStats;
use crate::remote::usage::{Usage, Writing};
use crate::write::assigned;
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// Returned rows that are made into tuples at a time.
const CHUNK: usize = 1000;

/// An UPDATE or DELETE of one foreign table as the plan holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectPlan {
    pub sql: Sql,
    /// Where it is adjusted to the types that columns have on the shard.
    pub places: Places,
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
        let assigned = self.places.assigned.iter();
        let assigned = assigned.flat_map(|assigned| {
            let Assigned { attnum, start, end } = *assigned;
            [i32::from(attnum), start as i32, end as i32]
        });
        vec![
            Item::Text(self.sql.as_bytes().to_vec()),
            Item::Int(i32::from(self.returning.is_some())),
            Item::Ints(returning.iter().copied().map(i32::from).collect()),
            Item::Int(i32::from(self.can_set_tag)),
            Item::Text(self.locale.clone()),
            Item::Ints(assigned.collect()),
            Item::Int(self.places.conditions as i32),
            Item::Int(i32::from(self.places.has_conditions)),
        ]
    }

    pub fn from_items(items: Vec<Item>) -> Result<DirectPlan> {
        let mut items = Items::new(items);
        let sql = items.text()?.into();
        let has_returning = items.int()? != 0;
        let returning = items.columns()?;
        let can_set_tag = items.int()? != 0;
        let locale = items.text()?;
        let assigned = items.ints()?;
        let places = Places {
            assigned: assigned
                .chunks_exact(3)
                .map(|assigned| Assigned {
                    attnum: assigned[0] as i16,
                    start: assigned[1] as usize,
                    end: assigned[2] as usize,
                })
                .collect(),
            conditions: items.int()? as usize,
            has_conditions: items.int()? != 0,
        };
        items.finish()?;
        Ok(DirectPlan {
            sql,
            places,
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
    /// The foreign table.
    pub relid: Oid,
    /// The relation that the statement names.
    pub root: Oid,
    /// Name of the foreign table.
    pub table: Vec<u8>,
    /// That of the statement.
    pub command_id: u32,
}

/// A running UPDATE or DELETE. Nothing is sent before [`Direct::run`].
pub struct Direct {
    sql: Rc<Sql>,
    places: Places,
    /// The foreign table, and the relation that the statement names.
    relids: (Oid, Oid),
    locale: Vec<u8>,
    params: Params,
    usage: Usage,
    _writing: Writing,
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
            places: plan.places,
            relids: (access.relid, access.root),
            locale: plan.locale,
            params,
            usage: Usage::new(access.server, access.user),
            _writing: Writing::new(),
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
        let session = self.usage.session()?;
        if !self.locale.is_empty() {
            session.rely_on(&self.locale)?;
        }
        let mut params: Vec<Param> = values.into_iter().map(Param::text).collect();
        let sql = match self.places.assigned.is_empty() {
            true => self.sql.clone(),
            false => {
                let (relid, root) = self.relids;
                let count = params.len();
                let (sql, checks) =
                    assigned::fit(&session, &self.sql, &self.places, relid, root, count)?;
                params.extend(checks);
                Rc::new(sql)
            }
        };
        let statement = Statement {
            sql,
            params,
            written_by: Some(self.command_id),
            subject: self.subject.clone(),
        };
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
            places: Places {
                assigned: vec![Assigned {
                    attnum: 2,
                    start: 30,
                    end: 40_000,
                }],
                conditions: 50_000,
                has_conditions: true,
            },
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
