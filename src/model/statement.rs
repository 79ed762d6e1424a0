//! Statement text for one row, or for whole tables. Parameters are numbered from `$1`.

use crate::model::adjust::{Assigned, Places};
use crate::model::insert::Clauses;
use crate::model::sql::Sql;
use crate::model::table::{RemoteTable, CTID, TABLEOID};

/// Row lock of a SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockStrength {
    Share,
    Update,
}

/// What to do about a row that somebody else has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    Block,
    Skip,
    Error,
}

/// Adds a column's name; `ctid` for [`CTID`], `tableoid` for [`TABLEOID`]. A number that is no column (dropped since) becomes NULL.
pub fn push_column(sql: &mut Sql, table: &RemoteTable, attnum: i16) {
    match table.column(attnum) {
        Some(column) => sql.push_ident(&column.name),
        None if attnum == CTID => sql.push("ctid"),
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

/// `SELECT columns FROM table [WHERE (…) AND (…)] [FOR …]`.
pub fn select(
    table: &RemoteTable,
    columns: &[i16],
    conditions: &[Sql],
    lock: Option<(LockStrength, LockWait)>,
) -> Sql {
    let mut sql = Sql::from("SELECT ");
    push_columns(&mut sql, table, columns);
    sql.push(" FROM ")
        .push_qualified(&table.schema, &table.name);
    push_conditions(&mut sql, conditions);
    if let Some((strength, wait)) = lock {
        sql.push(match strength {
            LockStrength::Share => " FOR SHARE",
            LockStrength::Update => " FOR UPDATE",
        });
        sql.push(match wait {
            LockWait::Block => "",
            LockWait::Skip => " SKIP LOCKED",
            LockWait::Error => " NOWAIT",
        });
    }
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
            text(select(&table(), &[1, 3, CTID, TABLEOID], &[], None)),
            r#"SELECT "a", "B c", ctid, tableoid FROM "s"."t""x""#
        );
        assert_eq!(
            text(select(
                &table(),
                &[],
                &["x".into(), "y".into()],
                Some((LockStrength::Update, LockWait::Block))
            )),
            r#"SELECT NULL FROM "s"."t""x" WHERE (x) AND (y) FOR UPDATE"#
        );
        assert_eq!(
            text(select(
                &table(),
                &[2],
                &[],
                Some((LockStrength::Share, LockWait::Skip))
            )),
            r#"SELECT NULL FROM "s"."t""x" FOR SHARE SKIP LOCKED"#
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
