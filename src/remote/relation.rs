//! What a session knows of the relations on its shard: column types, and whether rows may get lost there.
//!
//! A shard announces no change. So what is kept here decides over nothing that could go wrong without a word:
//! - a batch has the shard check the types that its values were encoded for, and an error drops what is kept;
//! - the number of rows stored is compared with that of those sent;
//! - what decides over the order of rows counts for the remote transaction in which it was asked.

use crate::model::array::ArrayBuilder;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::insert::CheckedType;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::model::text;
use crate::pg::{catalog, invalidation};
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
      SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p))),
  CASE t.typtype WHEN 'd' THEN t.typarray END,
  c.relkind = 'r' AND NOT c.relhassubclass
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
    /// Of a domain, the OID of its array type.
    pub array_of_domain: Option<u32>,
    /// Schema and name of the type that text is cast to: of a domain, that of its base type.
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    /// Does a cast from text do something else than the type's input function?
    pub has_own_text_cast: bool,
}

impl RemoteType {
    /// What a statement names to have the shard check that the column still has the type.
    pub fn checked(&self) -> CheckedType {
        match self.array_of_domain {
            Some(array) => CheckedType::Element(array),
            None => CheckedType::Itself(self.oid),
        }
    }
}

/// A relation on the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRelation {
    /// By the shard's name of the column. Of one that is not here nothing is known.
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
    /// Is it one table, so that a ctid finds one row at most?
    pub has_locators: bool,
}

impl RemoteRelation {
    /// One that the question did not find: there is none, or it is newer than the snapshot of the remote transaction.
    fn unknown() -> RemoteRelation {
        RemoteRelation {
            columns: HashMap::new(),
            may_drop_rows: true,
            is_partitioned: false,
            is_foreign: false,
            can_be_locked: false,
            order: Order::Strict,
            has_locators: false,
        }
    }

    /// Has the answer all columns of the foreign table? One that it lacks may be newer than the snapshot.
    fn is_complete(&self, table: &RemoteTable) -> bool {
        let mut columns = table.columns.iter();
        columns.all(|column| self.columns.contains_key(&column.name))
    }
}

/// A foreign table that the shard is asked about.
pub struct Asked {
    pub relid: Oid,
    /// [`invalidation::table_generation`] of before it was looked up.
    pub generation: u64,
    pub table: RemoteTable,
}

/// What the shard has said of a foreign table.
struct Answer<T> {
    /// That of the question: what has changed while it was under way makes the answer void.
    generation: u64,
    /// Number of the remote transaction, or part of one, in which it was given.
    given_in: u64,
    /// Does it count beyond that?
    lasts: bool,
    value: Rc<T>,
}

/// Kept answers, by local relation.
pub struct Known<T>(HashMap<Oid, Answer<T>>);

/// So many are kept, or as many as one question has brought.
const MOST_KNOWN: usize = 10_000;

impl<T> Default for Known<T> {
    fn default() -> Known<T> {
        Known(HashMap::new())
    }
}

impl<T> Known<T> {
    /// The answer for a foreign table, if it counts in this part of a remote transaction, and whether it was given there.
    pub(super) fn get(&self, relid: Oid, part: u64) -> Option<(Rc<T>, bool)> {
        let answer = self.0.get(&relid)?;
        let is_own = answer.given_in == part;
        let counts = answer.generation == invalidation::table_generation(relid);
        (counts && (answer.lasts || is_own)).then(|| (answer.value.clone(), is_own))
    }

    /// Before the answers of one question are put in.
    pub(super) fn make_room(&mut self, count: usize) {
        if self.0.len() + count > MOST_KNOWN {
            self.0.clear();
        }
    }

    /// `generation`: that of before the foreign table was looked up. `part`: that of the remote transaction. `lasts`: does the
    /// answer count beyond it?
    pub(super) fn put(
        &mut self,
        relid: Oid,
        generation: u64,
        part: u64,
        lasts: bool,
        value: Rc<T>,
    ) {
        self.0.insert(
            relid,
            Answer {
                generation,
                given_in: part,
                lasts,
                value,
            },
        );
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Session {
    /// What is known of the shard's side of a foreign table, None if it has not been asked for.
    pub fn known_relation(&self, relid: Oid) -> Option<Rc<RemoteRelation>> {
        if self.is_doubtful.get() {
            return Some(Rc::new(RemoteRelation::unknown()));
        }
        let known = self.relations.borrow().get(relid, self.part.get());
        known.map(|(relation, _)| relation)
    }

    /// The same, if it was asked for in this part of the remote transaction.
    pub fn freshly_known_relation(&self, relid: Oid) -> Option<Rc<RemoteRelation>> {
        if self.is_doubtful.get() {
            return None;
        }
        let known = self.relations.borrow().get(relid, self.part.get());
        known.and_then(|(relation, is_fresh)| is_fresh.then_some(relation))
    }

    /// Asks the shard about tables, in one query, keeps the answers, and returns them. The query counts as a use of the remote
    /// transaction, but needs no barrier: it looks at no data.
    ///
    /// It sees what the remote transaction's snapshot sees. A relation or column that it does not see may be there all the same,
    /// so such an answer does not outlive the transaction.
    pub fn ask_relations(&self, tables: &[Asked]) -> Result<Vec<Rc<RemoteRelation>>> {
        let mut schemas = ArrayBuilder::new(TEXT);
        let mut names = ArrayBuilder::new(TEXT);
        for asked in tables {
            schemas.push(&asked.table.schema);
            names.push(&asked.table.name);
        }
        let question = Statement {
            sql: Rc::new(Sql::from(QUESTION)),
            params: vec![
                Param::binary(TEXT_ARRAY, schemas.finish()),
                Param::binary(TEXT_ARRAY, names.finish()),
            ],
            written_by: None,
            subject: question_for(tables.first().map(|asked| asked.relid)),
        };
        self.enter()?;
        let answer = self.ask(&question)?;
        let mut found: Vec<RemoteRelation> = vec![RemoteRelation::unknown(); tables.len()];
        for row in 0..answer.ntuples() {
            read_row(&answer, row, &mut found)?;
        }
        let mut known = self.relations.borrow_mut();
        known.make_room(tables.len());
        let answers = tables.iter().zip(found).map(|(asked, relation)| {
            let lasts = relation.is_complete(&asked.table);
            let relation = Rc::new(relation);
            let (relid, generation) = (asked.relid, asked.generation);
            known.put(relid, generation, self.part.get(), lasts, relation.clone());
            relation
        });
        Ok(answers.collect())
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

/// What a question is about that a statement asks for its target, which comes first, and others.
pub(super) fn question_for(target: Option<Oid>) -> Subject {
    Subject::question(target.and_then(catalog::relation_name))
}

/// Can an error come from a shard whose relations are not any more what they were? See also [`is_violation`].
pub fn may_mean_change(sqlstate: SqlState) -> bool {
    const CLASSES: [&[u8]; 6] = [b"0A", b"21", b"22", b"42", b"55", b"XX"];
    CLASSES.contains(&sqlstate.class())
}

/// Has a constraint been violated? It may be a new one. But a loop may expect such errors, so only the first of a remote
/// transaction drops what is kept.
pub fn is_violation(sqlstate: SqlState) -> bool {
    sqlstate.class() == b"23"
}

/// The function that refuses records whose columns have different types; batches have it compare those of their columns.
const COMPARING_FUNCTION: &[u8] = b"record_image_eq";

/// The error of a batch that the shard has refused because columns have other types than its values were encoded for; else
/// the error is the shard's own. What functions and triggers do there has a context.
pub fn changed_types(server: &[u8], result: &PgResult, table: Option<&[u8]>) -> Option<FdwError> {
    if result.source_function() != Some(COMPARING_FUNCTION) {
        return None;
    }
    let diag = result.diag();
    if diag.sqlstate != Some(SqlState::DATATYPE_MISMATCH) || diag.context.is_some() {
        return None;
    }
    Some(
        FdwError::local(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "column types of the remote table of foreign table \"{}\" have changed",
                text::from_bytes(table.unwrap_or_default())
            ),
        )
        .with_detail(format!(
            "Server \"{}\" says: {}.",
            text::from_bytes(server),
            text::from_bytes(&diag.message)
        ))
        .with_hint("What was known of them has been forgotten. Try again."),
    )
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
    relation.has_locators = is_true(answer.value(row, 12));
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
            array_of_domain: answer.value(row, 11).and_then(parse),
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
