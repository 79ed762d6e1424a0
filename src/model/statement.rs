//! Statement text for one row, or for whole tables. Parameters are numbered from `$1`.

use crate::model::adjust::{Assigned, Places};
use crate::model::insert::Clauses;
use crate::model::sql::Sql;
use crate::model::table::{RemoteTable, CTID, TABLEOID, XMIN};

/// How strong a row lock is, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

/// What to do about a row that somebody else has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    Block,
    Skip,
    Error,
}

/// The lock that a SELECT takes on its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowLock {
    pub strength: LockStrength,
    pub wait: LockWait,
}

impl RowLock {
    /// `FOR … [SKIP LOCKED|NOWAIT]`.
    fn push(self, sql: &mut Sql) {
        sql.push(match self.strength {
            LockStrength::KeyShare => " FOR KEY SHARE",
            LockStrength::Share => " FOR SHARE",
            LockStrength::NoKeyUpdate => " FOR NO KEY UPDATE",
            LockStrength::Update => " FOR UPDATE",
        });
        sql.push(match self.wait {
            LockWait::Block => "",
            LockWait::Skip => " SKIP LOCKED",
            LockWait::Error => " NOWAIT",
        });
    }
}

/// One key of an ORDER BY that uses the default operators of the key's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey<T> {
    pub expr: T,
    pub descending: bool,
    pub nulls_first: bool,
}

/// `TABLESAMPLE method (args) [REPEATABLE (seed)]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample<T> {
    pub schema: Vec<u8>,
    pub method: Vec<u8>,
    pub args: Vec<T>,
    pub seed: Option<T>,
}

impl Sample<Sql> {
    fn push(&self, sql: &mut Sql) {
        sql.push(" TABLESAMPLE ")
            .push_qualified(&self.schema, &self.method)
            .push(" (")
            .push_list(", ", &self.args, |sql, arg| {
                sql.push_bytes(arg.as_bytes());
            })
            .push(")");
        if let Some(seed) = &self.seed {
            sql.push(" REPEATABLE (")
                .push_bytes(seed.as_bytes())
                .push(")");
        }
    }
}

/// Adds a column's name; `ctid` for [`CTID`], `xmin` for [`XMIN`], `tableoid` for [`TABLEOID`]. A number that is no column (dropped since) becomes NULL.
pub fn push_column(sql: &mut Sql, table: &RemoteTable, attnum: i16) {
    match table.column(attnum) {
        Some(column) => sql.push_ident(&column.name),
        None if attnum == CTID => sql.push("ctid"),
        None if attnum == XMIN => sql.push("xmin"),
        None if attnum == TABLEOID => sql.push("tableoid"),
        None => sql.push("NULL"),
    };
}

/// Adds a select list; a list of nothing is `NULL`, because a row must still be counted.
fn push_columns(sql: &mut Sql, table: &RemoteTable, columns: &[i16]) {
    if columns.is_empty() {
        sql.push("NULL");
    }
    sql.push_list(", ", columns, |sql, &attnum| {
        push_column(sql, table, attnum);
    });
}

/// `SELECT columns FROM table [TABLESAMPLE …] [WHERE (…) AND (…)] [ORDER BY …] [FOR …]`.
pub fn select(
    table: &RemoteTable,
    columns: &[i16],
    sample: Option<&Sample<Sql>>,
    conditions: &[Sql],
    order: &[SortKey<Sql>],
    lock: Option<RowLock>,
) -> Sql {
    let mut sql = select_from(table, columns);
    if let Some(sample) = sample {
        sample.push(&mut sql);
    }
    push_conditions(&mut sql, conditions);
    if !order.is_empty() {
        sql.push(" ORDER BY ").push_list(", ", order, |sql, key| {
            sql.push_bytes(key.expr.as_bytes())
                .push(if key.descending { " DESC" } else { " ASC" })
                .push(match key.nulls_first {
                    true => " NULLS FIRST",
                    false => " NULLS LAST",
                });
        });
    }
    if let Some(lock) = lock {
        lock.push(&mut sql);
    }
    sql
}

/// `SELECT columns FROM table WHERE ctid = $1 AND tableoid = $2 FOR …`.
pub fn lock_row(table: &RemoteTable, columns: &[i16], lock: RowLock) -> Sql {
    let mut sql = select_from(table, columns);
    sql.push(" WHERE ctid = $1 AND tableoid = $2");
    lock.push(&mut sql);
    sql
}

fn select_from(table: &RemoteTable, columns: &[i16]) -> Sql {
    let mut sql = Sql::from("SELECT ");
    push_columns(&mut sql, table, columns);
    sql.push(" FROM ")
        .push_qualified(&table.schema, &table.name);
    sql
}

fn push_conditions(sql: &mut Sql, conditions: &[Sql]) {
    if !conditions.is_empty() {
        sql.push(" WHERE ")
            .push_list(" AND ", conditions, |sql, condition| {
                sql.push("(").push_bytes(condition.as_bytes()).push(")");
            });
    }
}

/// `INSERT INTO table (columns) VALUES ($1, …) [ON CONFLICT …] [RETURNING returning]`.
pub fn insert_row(
    table: &RemoteTable,
    columns: &[i16],
    clauses: &Clauses,
    returning: Option<&[i16]>,
) -> Sql {
    let mut sql = Sql::from("INSERT INTO ");
    sql.push_qualified(&table.schema, &table.name);
    clauses.push_after_table(&mut sql);
    if columns.is_empty() {
        sql.push(" DEFAULT VALUES");
    } else {
        sql.push(" (");
        push_columns(&mut sql, table, columns);
        sql.push(")");
        if clauses.overriding {
            sql.push(" OVERRIDING SYSTEM VALUE");
        }
        sql.push(" VALUES (")
            .push_list(", ", 1..=columns.len(), |sql, number| {
                sql.push(&format!("${number}"));
            })
            .push(")");
    }
    clauses.push_after_rows(&mut sql);
    push_returning(&mut sql, table, returning);
    sql
}

/// `UPDATE table SET column = value, … [WHERE (…) AND (…)] [RETURNING returning]`, for all rows that the conditions
/// hold for, and where it can be adjusted. `assignments` must not be empty; each says whether its value is to be found again.
pub fn update(
    table: &RemoteTable,
    assignments: &[(i16, Sql, bool)],
    conditions: &[Sql],
    returning: Option<&[i16]>,
) -> (Sql, Places) {
    let mut places = Places::default();
    let mut sql = Sql::from("UPDATE ");
    sql.push_qualified(&table.schema, &table.name)
        .push(" SET ")
        .push_list(", ", assignments, |sql, (attnum, value, is_found)| {
            push_column(sql, table, *attnum);
            let start = sql.push(" = ").len();
            let end = sql.push_bytes(value.as_bytes()).len();
            if *is_found {
                places.assigned.push(Assigned {
                    attnum: *attnum,
                    start,
                    end,
                });
            }
        });
    push_conditions(&mut sql, conditions);
    places.conditions = sql.len();
    places.has_conditions = !conditions.is_empty();
    push_returning(&mut sql, table, returning);
    (sql, places)
}

/// `DELETE FROM table [WHERE (…) AND (…)] [RETURNING returning]`, for all rows that the conditions hold for.
pub fn delete(table: &RemoteTable, conditions: &[Sql], returning: Option<&[i16]>) -> Sql {
    let mut sql = Sql::from("DELETE FROM ");
    sql.push_qualified(&table.schema, &table.name);
    push_conditions(&mut sql, conditions);
    push_returning(&mut sql, table, returning);
    sql
}

/// Adds `RETURNING columns`, where rows are wanted.
pub(super) fn push_returning(sql: &mut Sql, table: &RemoteTable, returning: Option<&[i16]>) {
    if let Some(columns) = returning {
        sql.push(" RETURNING ");
        push_columns(sql, table, columns);
    }
}

/// `TRUNCATE tables [RESTART IDENTITY] [CASCADE]`; each table as schema and name.
pub fn truncate<'a>(
    tables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    restart_identity: bool,
    cascade: bool,
) -> Sql {
    let mut sql = Sql::from("TRUNCATE ");
    sql.push_list(", ", tables, |sql, (schema, name)| {
        sql.push_qualified(schema, name);
    });
    sql.push(if restart_identity {
        " RESTART IDENTITY"
    } else {
        " CONTINUE IDENTITY"
    });
    sql.push(if cascade { " CASCADE" } else { " RESTRICT" });
    sql
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::table::RemoteColumn;

    fn table() -> RemoteTable {
        let column = |attnum, name: &str| RemoteColumn {
            attnum,
            name: name.into(),
            generated: false,
        };
        RemoteTable {
            schema: b"s".to_vec(),
            name: b"t\"x".to_vec(),
            columns: vec![column(1, "a"), column(3, "B c")],
        }
    }

    fn text(sql: Sql) -> String {
        sql.to_string()
    }

    #[test]
    fn select_names_what_it_needs() {
        assert_eq!(
            text(select(
                &table(),
                &[1, 3, CTID, XMIN, TABLEOID],
                None,
                &[],
                &[],
                None
            )),
            r#"SELECT "a", "B c", ctid, xmin, tableoid FROM "s"."t""x""#
        );
        assert_eq!(
            text(select(
                &table(),
                &[],
                None,
                &["x".into(), "y".into()],
                &[],
                lock(LockStrength::Update, LockWait::Block)
            )),
            r#"SELECT NULL FROM "s"."t""x" WHERE (x) AND (y) FOR UPDATE"#
        );
        assert_eq!(
            text(select(
                &table(),
                &[2],
                None,
                &[],
                &[],
                lock(LockStrength::Share, LockWait::Skip)
            )),
            r#"SELECT NULL FROM "s"."t""x" FOR SHARE SKIP LOCKED"#
        );
    }

    fn lock(strength: LockStrength, wait: LockWait) -> Option<RowLock> {
        Some(RowLock { strength, wait })
    }

    #[test]
    fn select_orders_before_it_locks() {
        let key = |expr: &str, descending, nulls_first| SortKey {
            expr: Sql::from(expr),
            descending,
            nulls_first,
        };
        assert_eq!(
            text(select(
                &table(),
                &[1],
                None,
                &["x".into()],
                &[key("\"a\"", false, false), key("(b)", true, true)],
                lock(LockStrength::NoKeyUpdate, LockWait::Error)
            )),
            r#"SELECT "a" FROM "s"."t""x" WHERE (x) ORDER BY "a" ASC NULLS LAST, (b) DESC NULLS FIRST FOR NO KEY UPDATE NOWAIT"#
        );
    }

    #[test]
    fn select_samples_before_it_looks_at_conditions() {
        let mut sample = Sample {
            schema: b"pg_catalog".to_vec(),
            method: b"bernoulli".to_vec(),
            args: vec![Sql::from("'10'::real")],
            seed: None,
        };
        let mut sampled = |seed: Option<&str>| {
            sample.seed = seed.map(Sql::from);
            text(select(
                &table(),
                &[1],
                Some(&sample),
                &["x".into()],
                &[],
                None,
            ))
        };
        assert_eq!(
            sampled(None),
            r#"SELECT "a" FROM "s"."t""x" TABLESAMPLE "pg_catalog"."bernoulli" ('10'::real) WHERE (x)"#
        );
        assert_eq!(
            sampled(Some("$1")),
            r#"SELECT "a" FROM "s"."t""x" TABLESAMPLE "pg_catalog"."bernoulli" ('10'::real) REPEATABLE ($1) WHERE (x)"#
        );
    }

    #[test]
    fn one_row_is_locked_by_its_place() {
        let lock = RowLock {
            strength: LockStrength::KeyShare,
            wait: LockWait::Block,
        };
        assert_eq!(
            text(lock_row(&table(), &[3, CTID], lock)),
            r#"SELECT "B c", ctid FROM "s"."t""x" WHERE ctid = $1 AND tableoid = $2 FOR KEY SHARE"#
        );
    }

    #[test]
    fn single_rows() {
        let overriding = Clauses {
            overriding: true,
            ..Clauses::default()
        };
        assert_eq!(
            text(insert_row(
                &table(),
                &[1, 3],
                &Clauses::default(),
                Some(&[3])
            )),
            r#"INSERT INTO "s"."t""x" ("a", "B c") VALUES ($1, $2) RETURNING "B c""#
        );
        assert_eq!(
            text(insert_row(&table(), &[1], &overriding, None)),
            r#"INSERT INTO "s"."t""x" ("a") OVERRIDING SYSTEM VALUE VALUES ($1)"#
        );
        assert_eq!(
            text(insert_row(&table(), &[], &overriding, Some(&[]))),
            r#"INSERT INTO "s"."t""x" DEFAULT VALUES RETURNING NULL"#
        );
    }

    #[test]
    fn whole_statements() {
        assert_eq!(
            text(
                update(
                    &table(),
                    &[(3, "$1".into(), false), (1, "(x + 1)".into(), true)],
                    &["x".into(), "y".into()],
                    Some(&[1])
                )
                .0
            ),
            r#"UPDATE "s"."t""x" SET "B c" = $1, "a" = (x + 1) WHERE (x) AND (y) RETURNING "a""#
        );
        assert_eq!(
            text(delete(&table(), &[], None)),
            r#"DELETE FROM "s"."t""x""#
        );
        assert_eq!(
            text(delete(&table(), &["x".into()], Some(&[]))),
            r#"DELETE FROM "s"."t""x" WHERE (x) RETURNING NULL"#
        );
    }

    #[test]
    fn truncate_lists_tables() {
        assert_eq!(
            text(truncate(
                [(&b"s"[..], &b"a"[..]), (&b"s"[..], &b"b"[..])],
                false,
                true
            )),
            r#"TRUNCATE "s"."a", "s"."b" CONTINUE IDENTITY CASCADE"#
        );
        assert_eq!(
            text(truncate([(&b"s"[..], &b"a"[..])], true, false)),
            r#"TRUNCATE "s"."a" RESTART IDENTITY RESTRICT"#
        );
    }
}
