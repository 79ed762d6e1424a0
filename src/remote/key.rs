//! What a session knows of key columns on its shard: whether rows that differ here are sure to differ there.
//!
//! A shard announces no change. If one goes unnoticed, a batch can hold a key twice, which the shard refuses (21000); and
//! an error drops what is kept.

use crate::model::array::ArrayBuilder;
use crate::model::error::{FdwError, Result};
use crate::model::sql::Sql;
use crate::pq::PgResult;
use crate::remote::relation::question_for;
use crate::remote::session::Session;
use crate::remote::statement::{Param, Statement};
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// OIDs of types `text` and `text[]`.
const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;

/// One row for each key column that exists: its number, type, whether a unique index compares it in an unusual way, and
/// whether the shard may make another row of what it is given. `tgtype`: BEFORE (2), for each row (1), on INSERT (4) or
/// UPDATE (16), as `catalog/pg_trigger.h` has it.
const QUESTION: &str = "\
SELECT q.ord, a.atttypid, a.atttypmod,
  EXISTS (SELECT FROM pg_catalog.pg_index i,
      unnest(i.indkey::pg_catalog.int2[], i.indcollation::pg_catalog.oid[], i.indclass::pg_catalog.oid[]) AS k(attnum, coll, class)
    WHERE i.indrelid = c.oid AND i.indisunique AND k.attnum = a.attnum AND (
      EXISTS (SELECT FROM pg_catalog.pg_collation l WHERE l.oid = k.coll AND NOT l.collisdeterministic)
      OR EXISTS (SELECT FROM pg_catalog.pg_opclass o WHERE o.oid = k.class AND NOT o.opcdefault))),
  c.relkind NOT IN ('r', 'p')
  OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_enabled <> 'D')
  OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
    WHERE g.tgenabled <> 'D' AND g.tgtype & 3 = 3 AND g.tgtype & 20 <> 0
      AND (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (
        SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p)))
FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[], $3::pg_catalog.text[]) WITH ORDINALITY q(nsp, rel, col, ord)
  JOIN pg_catalog.pg_namespace n ON n.nspname = q.nsp::pg_catalog.name
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = q.rel::pg_catalog.name
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = q.col::pg_catalog.name
    AND a.attnum > 0 AND NOT a.attisdropped";

/// A column of a key, as the shard has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyColumn {
    pub type_oid: u32,
    pub typmod: i32,
    /// Does a unique index compare it by a nondeterministic collation or an operator class of its own?
    pub is_odd: bool,
    /// Can a trigger or rule make another row of one that is given?
    pub may_be_changed: bool,
}

/// A foreign table whose key is asked about, by remote names.
pub struct KeyOf {
    pub relid: Oid,
    /// `table_generation` of before it was looked up.
    pub generation: u64,
    pub schema: Vec<u8>,
    pub table: Vec<u8>,
    pub columns: Vec<Vec<u8>>,
}

/// The columns of a key in the order asked for; None for one that does not exist.
pub type RemoteKey = Vec<Option<KeyColumn>>;

impl Session {
    /// What is known of a foreign table's key, None if it has not been asked for.
    pub fn known_key(&self, relid: Oid) -> Option<Rc<RemoteKey>> {
        let known = self.keys.borrow().get(relid, self.part.get());
        known.map(|(key, _)| key)
    }

    /// Asks the shard about keys, in one query, keeps the answers, and returns them. The query counts as a use of the remote transaction,
    /// but needs no barrier: it looks at no data.
    ///
    /// A column that the remote transaction's snapshot does not show may be there all the same, so such an answer does not
    /// outlive the transaction.
    pub fn ask_keys(&self, keys: &[KeyOf]) -> Result<Vec<Rc<RemoteKey>>> {
        let mut arrays = [(); 3].map(|()| ArrayBuilder::new(TEXT));
        for key in keys {
            for column in &key.columns {
                for (array, name) in arrays.iter_mut().zip([&key.schema, &key.table, column]) {
                    array.push(name);
                }
            }
        }
        let question = Statement {
            sql: Rc::new(Sql::from(QUESTION)),
            params: arrays
                .into_iter()
                .map(|array| Param::binary(TEXT_ARRAY, array.finish()))
                .collect(),
            written_by: None,
            subject: question_for(keys.first().map(|key| key.relid)),
        };
        self.enter()?;
        let answer = self.ask(&question)?;
        let total = keys.iter().map(|key| key.columns.len()).sum();
        let mut found: RemoteKey = vec![None; total];
        for row in 0..answer.ntuples() {
            let (place, column) = read_row(&answer, row).ok_or_else(unexpected)?;
            *found.get_mut(place).ok_or_else(unexpected)? = Some(column);
        }
        let mut rest = found.into_iter();
        let mut known = self.keys.borrow_mut();
        known.make_room(keys.len());
        let answers = keys.iter().map(|key| {
            let columns: RemoteKey = rest.by_ref().take(key.columns.len()).collect();
            let lasts = columns.iter().all(Option::is_some);
            let columns = Rc::new(columns);
            let part = self.part.get();
            known.put(key.relid, key.generation, part, lasts, columns.clone());
            columns
        });
        Ok(answers.collect())
    }
}

fn read_row(answer: &PgResult, row: usize) -> Option<(usize, KeyColumn)> {
    let text = |column| std::str::from_utf8(answer.value(row, column)?).ok();
    let number: usize = text(0)?.parse().ok()?;
    Some((
        number.checked_sub(1)?,
        KeyColumn {
            type_oid: text(1)?.parse().ok()?,
            typmod: text(2)?.parse().ok()?,
            is_odd: text(3)? == "t",
            may_be_changed: text(4)? == "t",
        },
    ))
}

fn unexpected() -> FdwError {
    FdwError::Protocol {
        message: "unexpected answer to the question for keys".into(),
        detail: None,
    }
}
