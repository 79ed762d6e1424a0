//! Whether COPY into a remote table means the same as INSERT.
//!
//! A shard announces no change. So this is asked in the remote transaction that will COPY, after a lock of it that keeps
//! the answer true: what an INSERT has taken on a plain table, or LOCK TABLE on a partitioned one and its partitions.

use crate::model::array::ArrayBuilder;
use crate::model::sql::Sql;
use crate::model::table::RemoteTable;
use crate::pq::PgResult;
use crate::remote::statement::{Param, Statement, Subject};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Why COPY cannot be used, or that it can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Yes {
        /// Type OIDs of the columns asked for, in their order.
        types: Rc<[u32]>,
        /// May a COPY stay open until rows come? Not where the shard limits the time of a statement.
        may_stay_open: bool,
    },
    /// The reason, as a clause that follows "because".
    No(&'static str),
}

/// The question for one relation within one remote transaction, and its answer.
#[derive(Debug, Default)]
pub struct CopyQuestion {
    verdict: RefCell<Option<Verdict>>,
    /// Depth of the remote transaction that the lock belongs to; 0: not asked.
    depth: Cell<i32>,
}

impl CopyQuestion {
    pub fn is_asked(&self) -> bool {
        self.depth.get() > 0
    }

    /// The question is on its way, at this depth of the remote transaction.
    pub fn asked(&self, depth: i32) {
        self.depth.set(depth);
    }

    pub fn verdict(&self) -> Option<Verdict> {
        self.verdict.borrow().clone()
    }

    /// The savepoint of `depth` has been released.
    pub fn leave_level(&self, depth: i32) {
        self.depth.set(self.depth.get().min(depth - 1));
    }

    /// The savepoint of `depth` has been undone, and with it the lock.
    pub fn undo_level(&self, depth: i32) {
        if self.depth.get() >= depth {
            self.forget();
        }
    }

    /// The remote transaction is over.
    pub fn forget(&self) {
        self.depth.set(0);
        self.verdict.take();
    }

    /// Takes the shard's answer.
    pub fn answer(&self, answer: &PgResult) {
        if self.is_asked() {
            self.verdict.replace(Some(read(answer)));
        }
    }
}

/// `LOCK TABLE`, as strong as what INSERT takes, on a table and its partitions.
pub fn lock(table: &RemoteTable) -> Statement {
    let mut sql = Sql::from("LOCK TABLE ");
    sql.push_qualified(&table.schema, &table.name)
        .push(" IN ROW EXCLUSIVE MODE");
    Statement::plain(sql)
}

/// The question for a table and the columns that get values. `overriding`: values for identity columns are taken as they
/// are, which is what COPY always does.
///
/// Column types come from the parser, and row security from a cache: both see the table as it is. The rest comes from a
/// snapshot, that of the whole transaction in REPEATABLE READ. What COPY would pass by of changes made between it and the
/// lock, a first rule or an identity, shows in the catalog's rows for table and columns: somebody has replaced the
/// versions of them that the snapshot sees. (Triggers made since then are obeyed by COPY as well.)
pub fn question(table: &RemoteTable, columns: &[&[u8]], overriding: bool) -> Statement {
    let mut names = ArrayBuilder::new(TEXT);
    for column in columns {
        names.push(column);
    }
    let mut sql = Sql::from(QUESTION_HEAD);
    sql.push(match overriding {
        true => "a.attgenerated <> '')",
        false => "(a.attidentity = 'a' OR a.attgenerated <> ''))",
    });
    sql.push(", ARRAY[")
        .push_list(", ", columns, |sql, column| {
            sql.push("pg_catalog.pg_typeof((NULL::")
                .push_qualified(&table.schema, &table.name)
                .push(").")
                .push_ident(column)
                .push(")::pg_catalog.oid");
        });
    sql.push(QUESTION_TAIL);
    Statement {
        sql: Rc::new(sql),
        params: vec![
            Param::binary(TEXT, table.schema.clone()),
            Param::binary(TEXT, table.name.clone()),
            Param::binary(TEXT_ARRAY, names.finish()),
        ],
        written_by: None,
        subject: Subject::default(),
    }
}

/// OIDs of types `text` and `text[]`.
const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;

/// The types come last, as a text array; the other columns are reasons against COPY, in the order of [`REASONS`].
/// `tgtype & 7 = 7`: BEFORE, for each row, on INSERT (`catalog/pg_trigger.h`).
const QUESTION_HEAD: &str = "\
SELECT c.relkind NOT IN ('r', 'p'),
  c.relhasrules,
  EXISTS (SELECT FROM pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS s (xmin)
    WHERE pg_catalog.age(c.xmax) <= pg_catalog.age(s.xmin::pg_catalog.xid)
      OR EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND pg_catalog.age(a.xmax) <= pg_catalog.age(s.xmin::pg_catalog.xid))),
  pg_catalog.row_security_active(c.oid),
  EXISTS (SELECT FROM pg_catalog.pg_trigger g
    WHERE g.tgenabled <> 'D' AND g.tgtype & 7 = 7 AND (g.tgrelid = c.oid OR c.relkind = 'p' AND g.tgrelid IN (
      SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p))),
  c.relkind = 'p' AND EXISTS (SELECT FROM pg_catalog.pg_partition_tree(c.oid) p
    JOIN pg_catalog.pg_class l ON l.oid = p.relid WHERE l.relkind = 'f'),
  EXISTS (SELECT FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attname = ANY ($3::pg_catalog.text[]) AND ";
const QUESTION_TAIL: &str = "]::pg_catalog.oid[], pg_catalog.current_setting('statement_timeout') = '0'
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::pg_catalog.text::pg_catalog.name AND c.relname = $2::pg_catalog.text::pg_catalog.name";

/// The reason of a table that is not what the transaction's snapshot says.
pub const CHANGED: &str = "it has been changed since the transaction began";

const REASONS: [&str; 7] = [
    "it is not a table",
    "it has a rule, or had one",
    CHANGED,
    "its row security applies",
    "it has a BEFORE ROW trigger",
    "it has a foreign table as partition",
    "an identity or generated column gets values",
];

fn read(answer: &PgResult) -> Verdict {
    if answer.ntuples() != 1 {
        return Verdict::No("it does not exist");
    }
    let reason = REASONS
        .iter()
        .zip(0..)
        .find(|(_, column)| answer.value(0, *column) != Some(b"f"));
    if let Some((reason, _)) = reason {
        return Verdict::No(reason);
    }
    let types = answer
        .value(0, REASONS.len())
        .and_then(|types| std::str::from_utf8(types).ok());
    let types: Option<Vec<u32>> = types.and_then(|types| {
        let types = types.trim_start_matches('{').trim_end_matches('}');
        types
            .split(',')
            .filter(|oid| !oid.is_empty())
            .map(|oid| oid.parse().ok())
            .collect()
    });
    match types {
        Some(types) => Verdict::Yes {
            types: types.into(),
            may_stay_open: answer.value(0, REASONS.len() + 1) == Some(b"t"),
        },
        None => Verdict::No("its column types are unknown"),
    }
}
