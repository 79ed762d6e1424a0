//! What a session knows of the relations on its shard: column types, and whether rows may get lost there.
//!
//! A shard announces no change. So what is kept here decides over encodings only, which every statement spells out
//! in casts: a change on the shard shows as an error, and an error drops what is kept.

use crate::model::array::ArrayBuilder;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::pg::invalidation;
use crate::pq::PgResult;
use crate::remote::pending::Order;
use crate::remote::session::Session;
use crate::remote::statement::{Param, Statement, Subject};
use pgrx::pg_sys::Oid;
use std::collections::HashMap;
use std::rc::Rc;

/// OID of type `text`.
const TEXT: u32 = 25;

/// One row for each column of each table asked for. A text cast means something else than the type's input function
/// where somebody has made a cast function for it; regclass is the one such built-in type. A domain goes by its base
/// type, whose name the cast has to use: a cast to `varchar(3)` or a domain over it cuts what an assignment refuses.
const QUESTION: &str = "\
SELECT q.ord, a.attname, t.oid, bn.nspname, b.typname,
  b.oid = 'pg_catalog.regclass'::pg_catalog.regtype
  OR EXISTS (SELECT FROM pg_catalog.pg_cast k
    WHERE k.castsource = 'pg_catalog.text'::pg_catalog.regtype AND k.casttarget = b.oid
      AND k.castmethod = 'f' AND k.castfunc >= 16384),
  c.relkind NOT IN ('r', 'p')
  OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r
    WHERE r.ev_class = c.oid AND r.ev_type = '3' AND r.ev_enabled <> 'D')
  OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
    WHERE g.tgrelid = c.oid AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7)
  OR c.relkind = 'p' AND EXISTS (
    SELECT FROM pg_catalog.pg_partition_tree(c.oid) p
      JOIN pg_catalog.pg_class pc ON pc.oid = p.relid
    WHERE pc.relkind = 'f' OR EXISTS (SELECT FROM pg_catalog.pg_trigger g
      WHERE g.tgrelid = p.relid AND g.tgenabled <> 'D' AND g.tgtype & 7 = 7)),
  c.relkind = 'p',
  pg_catalog.has_table_privilege(c.oid, 'INSERT'),
  c.relkind = 'f' OR c.relhassubclass AND EXISTS (
    WITH RECURSIVE d AS (
      SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE i.inhparent = c.oid
      UNION ALL SELECT n.inhrelid FROM d JOIN pg_catalog.pg_inherits n ON n.inhparent = d.inhrelid)
    SELECT FROM d JOIN pg_catalog.pg_class k ON k.oid = d.inhrelid WHERE k.relkind = 'f'),
  (SELECT pg_catalog.max(CASE WHEN g.tgisinternal THEN 1 ELSE 2 END) FROM pg_catalog.pg_trigger g
    WHERE g.tgenabled <> 'D' AND g.tgtype & 4 = 4 AND (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (
      SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p)))
FROM unnest($1::pg_catalog.text[], $2::pg_catalog.text[]) WITH ORDINALITY q(nsp, rel, ord)
  JOIN pg_catalog.pg_namespace cn ON cn.nspname = q.nsp::pg_catalog.name
  JOIN pg_catalog.pg_class c ON c.relnamespace = cn.oid AND c.relname = q.rel::pg_catalog.name
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_catalog.pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN (
    WITH RECURSIVE d AS (
      SELECT t.typbasetype AS oid
      UNION ALL SELECT n.typbasetype FROM d JOIN pg_catalog.pg_type n ON n.oid = d.oid AND n.typtype = 'd')
    SELECT d.oid FROM d JOIN pg_catalog.pg_type n ON n.oid = d.oid AND n.typtype <> 'd') ELSE t.oid END
  LEFT JOIN pg_catalog.pg_namespace bn ON bn.oid = b.typnamespace";

/// Type of a remote column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteType {
    pub oid: u32,
    /// Schema and name of the type that text is cast to: of a domain, that of its base type.
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    /// Does a cast from text do something else than the type's input function?
    pub has_own_text_cast: bool,
}

/// A relation on the shard. One that does not exist has no columns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteRelation {
    /// By the shard's name of the column.
    pub columns: HashMap<Vec<u8>, RemoteType>,
    /// Can an INSERT store fewer rows than it was given (view, foreign table, rule, BEFORE ROW trigger)?
    pub may_drop_rows: bool,
    pub is_partitioned: bool,
    /// Is it a foreign table itself, or has it one as partition or child?
    pub is_foreign: bool,
    /// Has the remote user the privilege to INSERT into all columns, which LOCK TABLE asks for?
    pub can_be_locked: bool,
    /// What the order of rows inserted there and elsewhere may matter to.
    pub order: Order,
}

/// Kept answers, by local relation.
pub struct Known<T>(HashMap<Oid, (u64, Rc<T>)>);

/// So many are kept, or as many as one question has brought.
const MOST_KNOWN: usize = 10_000;

/// A number that differs from an earlier one if the remote name of a foreign table, or anything else of it, may have changed in
/// between: the name of its schema may be part of it.
fn generation(relid: Oid) -> u64 {
    invalidation::relation_generation(relid) + invalidation::surroundings_generation()
}

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known(HashMap::new())
    }
}

impl<T> Known<T> {
    pub(super) fn get(&self, relid: Oid) -> Option<Rc<T>> {
        let (known_at, relation) = self.0.get(&relid)?;
        (*known_at == generation(relid)).then(|| relation.clone())
    }

    /// The answers of one question.
    pub(super) fn put(&mut self, answers: impl ExactSizeIterator<Item = (Oid, Rc<T>)>) {
        if self.0.len() + answers.len() > MOST_KNOWN {
            self.0.clear();
        }
        let answers = answers.map(|(relid, relation)| (relid, (generation(relid), relation)));
        self.0.extend(answers);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Session {
    /// What is known of the shard's side of a foreign table, None if it has not been asked for.
    pub fn known_relation(&self, relid: Oid) -> Option<Rc<RemoteRelation>> {
        self.relations.borrow().get(relid)
    }

    /// Asks the shard about tables, in one query, and keeps the answers. The query counts as a use of the remote
    /// transaction, but needs no barrier: it looks at no data.
    pub fn ask_relations(&self, tables: &[(Oid, RemoteTable)]) -> Result<()> {
        let mut schemas = ArrayBuilder::new(TEXT);
        let mut names = ArrayBuilder::new(TEXT);
        for (_, table) in tables {
            schemas.push(&table.schema);
            names.push(&table.name);
        }
        let question = Statement {
            sql: Rc::new(Sql::from(QUESTION)),
            params: vec![
                Param::binary(TEXT_ARRAY, schemas.finish()),
                Param::binary(TEXT_ARRAY, names.finish()),
            ],
            written_by: None,
            subject: Subject::default(),
        };
        self.enter()?;
        let answer = self.ask(&question)?;
        let mut found: Vec<RemoteRelation> = vec![RemoteRelation::default(); tables.len()];
        for row in 0..answer.ntuples() {
            read_row(&answer, row, &mut found)?;
        }
        let relids = tables.iter().map(|(relid, _)| *relid);
        let answers = relids.zip(found.into_iter().map(Rc::new));
        self.relations.borrow_mut().put(answers);
        Ok(())
    }

    /// Has this command asked about the relations below `root` already? If not, it is taken to do so now.
    pub fn asked_by(&self, command_id: u32, root: Oid) -> bool {
        self.in_transaction() && self.asked_by.replace((command_id, root)) == (command_id, root)
    }

    /// Drops what is kept: an error may mean that the shard has changed.
    pub fn forget_relations(&self) {
        if let Ok(mut relations) = self.relations.try_borrow_mut() {
            relations.clear();
        }
        if let Ok(mut keys) = self.keys.try_borrow_mut() {
            keys.clear();
        }
    }
}

/// Can an error come from a shard whose relations are not any more what they were? Constraint violations and the like
/// cannot, so that a loop that expects them does not ask again and again.
pub fn may_mean_change(sqlstate: SqlState) -> bool {
    const CLASSES: [&[u8]; 5] = [b"0A", b"21", b"22", b"42", b"XX"];
    CLASSES.contains(&sqlstate.class())
}

/// OID of type `text[]`.
const TEXT_ARRAY: u32 = 1009;

fn read_row(answer: &PgResult, row: usize, found: &mut [RemoteRelation]) -> Result<()> {
    let number: Option<usize> = answer.value(row, 0).and_then(parse);
    let relation = number
        .and_then(|number| found.get_mut(number.checked_sub(1)?))
        .ok_or_else(unexpected)?;
    relation.may_drop_rows = is_true(answer.value(row, 6));
    relation.is_partitioned = is_true(answer.value(row, 7));
    relation.can_be_locked = is_true(answer.value(row, 8));
    relation.is_foreign = is_true(answer.value(row, 9));
    relation.order = match answer.value(row, 10) {
        None => Order::Free,
        Some(b"1") => Order::AfterOthers,
        Some(_) => Order::Strict,
    };
    let Some(name) = answer.value(row, 1) else {
        return Ok(());
    };
    relation.columns.insert(
        name.to_vec(),
        RemoteType {
            oid: answer
                .value(row, 2)
                .and_then(parse)
                .ok_or_else(unexpected)?,
            schema: answer.value(row, 3).ok_or_else(unexpected)?.to_vec(),
            name: answer.value(row, 4).ok_or_else(unexpected)?.to_vec(),
            has_own_text_cast: is_true(answer.value(row, 5)),
        },
    );
    Ok(())
}

fn parse<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn is_true(text: Option<&[u8]>) -> bool {
    text == Some(b"t")
}

fn unexpected() -> FdwError {
    FdwError::Protocol {
        message: "unexpected answer to the question for column types".into(),
        detail: None,
    }
}
