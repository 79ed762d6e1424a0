//! Statement text of UPDATE and DELETE of rows that have been read before. Parameters are numbered from `$1`: first what
//! identifies a row, then its new values.

use crate::model::insert::{push_type_check, Form, Target as Column};
use crate::model::sql::Sql;
use crate::model::statement::{push_column, push_returning};
use crate::model::table::{RemoteTable, CTID, TABLEOID};

/// What identifies a row on the shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Its place: a table and a ctid. The table is always part of it, because a ctid alone is ambiguous where the remote
    /// relation is partitioned or has children, and no shard announces that it has got some.
    Place,
    /// The values of these columns, by number.
    Key(Vec<i16>),
}

/// What to do where the shard has no ctid, or one that says nothing.
pub const NEEDS_KEY: &str =
    "Set the option \"key\" of the columns that together identify a row of the remote relation.";

impl Identity {
    /// Numbers of the columns that are compared.
    pub fn columns(&self) -> &[i16] {
        match self {
            Identity::Place => &[CTID, TABLEOID],
            Identity::Key(columns) => columns,
        }
    }
}

/// `UPDATE table SET column = $n, … WHERE ctid = $1 AND … [RETURNING returning]`; `columns` must not be empty. Generated
/// columns are set to DEFAULT and take no parameter.
pub fn update_row(
    table: &RemoteTable,
    identity: &Identity,
    columns: &[i16],
    returning: Option<&[i16]>,
) -> Sql {
    let mut sql = Sql::from("UPDATE ");
    let mut number = identity.columns().len();
    sql.push_qualified(&table.schema, &table.name)
        .push(" SET ")
        .push_list(", ", columns, |sql, &attnum| {
            push_column(sql, table, attnum);
            if table.is_generated(attnum) {
                sql.push(" = DEFAULT");
            } else {
                number += 1;
                sql.push(&format!(" = ${number}"));
            }
        });
    push_row(&mut sql, table, identity);
    push_returning(&mut sql, table, returning);
    sql
}

/// `DELETE FROM table WHERE ctid = $1 AND … [RETURNING returning]`.
pub fn delete_row(table: &RemoteTable, identity: &Identity, returning: Option<&[i16]>) -> Sql {
    let mut sql = Sql::from("DELETE FROM ");
    sql.push_qualified(&table.schema, &table.name);
    push_row(&mut sql, table, identity);
    push_returning(&mut sql, table, returning);
    sql
}

fn push_row(sql: &mut Sql, table: &RemoteTable, identity: &Identity) {
    sql.push(" WHERE ").push_list(
        " AND ",
        identity.columns().iter().zip(1..),
        |sql, (&attnum, number)| {
            push_column(sql, table, attnum);
            sql.push(&format!(" = ${number}"));
        },
    );
}

/// The columns of an identity by place as they travel in arrays.
pub fn place_columns() -> Vec<Column> {
    [("ctid", 27, "tid"), ("tableoid", 26, "oid")]
        .map(|(name, element_oid, type_name)| Column {
            name: name.into(),
            form: Form::Binary {
                element_oid,
                type_name,
            },
            checked_type: None,
        })
        .into()
}

/// `UPDATE table AS t SET column = v.cN, … FROM (SELECT unnest($1) AS c1, …) AS v WHERE …`: the same text whatever the number of rows.
/// `identity`: its columns, in order; `generated`: numbers of the columns that are set to DEFAULT. The parameters for the
/// check of types follow on those for the columns.
pub fn update_from_arrays(
    table: &RemoteTable,
    identity: &[Column],
    columns: &[Column],
    generated: &[i16],
) -> Sql {
    let mut sql = Sql::from("UPDATE ");
    sql.push_qualified(&table.schema, &table.name)
        .push(" AS t SET ");
    let mut separator = "";
    for (column, number) in columns.iter().zip(identity.len() + 1..) {
        sql.push(separator).push_ident(&column.name).push(" = ");
        push_value(&mut sql, column, number);
        separator = ", ";
    }
    for &attnum in generated {
        sql.push(separator);
        push_column(&mut sql, table, attnum);
        sql.push(" = DEFAULT");
        separator = ", ";
    }
    sql.push(" FROM ");
    push_rows(&mut sql, table, identity, columns);
    sql
}

/// `DELETE FROM table AS t USING (SELECT unnest($1) AS c1, …) AS v WHERE …`, as [`update_from_arrays`].
pub fn delete_from_arrays(table: &RemoteTable, identity: &[Column]) -> Sql {
    let mut sql = Sql::from("DELETE FROM ");
    sql.push_qualified(&table.schema, &table.name)
        .push(" AS t USING ");
    push_rows(&mut sql, table, identity, &[]);
    sql
}

/// `DELETE FROM table AS t WHERE …` for places that are all in the table `$2` (an OID): no join is needed to tell them apart.
pub fn delete_places(table: &RemoteTable, ctid: &Column) -> Sql {
    let mut sql = Sql::from("DELETE FROM ");
    sql.push_qualified(&table.schema, &table.name)
        .push(" AS t WHERE ");
    push_places(&mut sql, ctid);
    sql.push(" AND t.tableoid = $2::pg_catalog.oid");
    sql
}

/// The value of a column in a row of `v`.
fn push_value(sql: &mut Sql, column: &Column, number: usize) {
    sql.push(&format!("v.c{number}"));
    column.push_cast(sql);
}

/// The rows as `v`, and the condition that joins them with `t`. A select list with several unnests yields its rows one by
/// one, which `unnest` in FROM would store first.
fn push_rows(sql: &mut Sql, table: &RemoteTable, identity: &[Column], columns: &[Column]) {
    let all = identity.iter().chain(columns).zip(1_usize..);
    sql.push("(SELECT ")
        .push_list(", ", all, |sql, (column, number)| {
            column.push_unnest(sql, number);
            sql.push(&format!(" AS c{number}"));
        })
        .push(") AS v WHERE ");
    if let [column, ..] = identity {
        if column.name == b"ctid" {
            push_places(sql, column);
            sql.push(" AND ");
        }
    }
    sql.push_list(
        " AND ",
        identity.iter().zip(1_usize..),
        |sql, (column, number)| {
            sql.push("t.").push_ident(&column.name).push(" = ");
            push_value(sql, column, number);
        },
    );
    let RemoteTable { schema, name, .. } = table;
    let all = identity.iter().chain(columns);
    let parameters = identity.len() + columns.len();
    push_type_check(sql, " AND ", schema, name, all, parameters);
}

/// Lets the shard look at the places in `$1` and no others, however small the table is. In a subquery, because the planner
/// would estimate for each element of a constant array how often it occurs.
fn push_places(sql: &mut Sql, ctid: &Column) {
    sql.push("t.ctid = ANY (ARRAY(SELECT ");
    ctid.push_unnest(sql, 1);
    sql.push("))");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::insert::CheckedType;
    use crate::model::table::RemoteColumn;

    fn table() -> RemoteTable {
        let column = |attnum, name: &str, generated| RemoteColumn {
            attnum,
            name: name.into(),
            generated,
        };
        RemoteTable {
            schema: b"s".to_vec(),
            name: b"t\"x".to_vec(),
            columns: vec![
                column(1, "a", false),
                column(3, "B c", false),
                column(4, "g", true),
            ],
        }
    }

    fn binary(name: &str) -> Column {
        Column {
            name: name.into(),
            form: Form::Binary {
                element_oid: 23,
                type_name: "int4",
            },
            checked_type: None,
        }
    }

    fn cast(name: &str) -> Column {
        Column {
            name: name.into(),
            form: Form::Cast {
                schema: b"r".to_vec(),
                name: b"mood".to_vec(),
            },
            checked_type: Some(CheckedType::Itself(16400)),
        }
    }

    #[test]
    fn single_rows_by_place_and_by_key() {
        assert_eq!(
            update_row(&table(), &Identity::Place, &[3, 4, 1], None).to_string(),
            r#"UPDATE "s"."t""x" SET "B c" = $3, "g" = DEFAULT, "a" = $4 WHERE ctid = $1 AND tableoid = $2"#
        );
        let key = Identity::Key(vec![3, 1]);
        assert_eq!(
            update_row(&table(), &key, &[1], Some(&[3])).to_string(),
            r#"UPDATE "s"."t""x" SET "a" = $3 WHERE "B c" = $1 AND "a" = $2 RETURNING "B c""#
        );
        assert_eq!(
            delete_row(&table(), &Identity::Place, Some(&[1])).to_string(),
            r#"DELETE FROM "s"."t""x" WHERE ctid = $1 AND tableoid = $2 RETURNING "a""#
        );
    }

    #[test]
    fn batches_by_place() {
        assert_eq!(
            update_from_arrays(&table(), &place_columns(), &[binary("a"), cast("B c")], &[4])
                .to_string(),
            "UPDATE \"s\".\"t\"\"x\" AS t SET \"a\" = v.c3, \"B c\" = v.c4::\"r\".\"mood\", \"g\" = DEFAULT \
             FROM (SELECT pg_catalog.unnest($1::pg_catalog.tid[]) AS c1, pg_catalog.unnest($2::pg_catalog.oid[]) AS c2, \
             pg_catalog.unnest($3::pg_catalog.int4[]) AS c3, pg_catalog.unnest($4::pg_catalog.text[]) AS c4) AS v \
             WHERE t.ctid = ANY (ARRAY(SELECT pg_catalog.unnest($1::pg_catalog.tid[]))) \
             AND t.\"ctid\" = v.c1 AND t.\"tableoid\" = v.c2 \
             AND pg_catalog.record_image_eq(ROW($5), ROW((NULL::\"s\".\"t\"\"x\").\"B c\")) IS NOT NULL"
        );
        assert_eq!(
            delete_from_arrays(&table(), &place_columns()).to_string(),
            "DELETE FROM \"s\".\"t\"\"x\" AS t \
             USING (SELECT pg_catalog.unnest($1::pg_catalog.tid[]) AS c1, pg_catalog.unnest($2::pg_catalog.oid[]) AS c2) AS v \
             WHERE t.ctid = ANY (ARRAY(SELECT pg_catalog.unnest($1::pg_catalog.tid[]))) \
             AND t.\"ctid\" = v.c1 AND t.\"tableoid\" = v.c2"
        );
        assert_eq!(
            delete_places(&table(), &place_columns()[0]).to_string(),
            "DELETE FROM \"s\".\"t\"\"x\" AS t \
             WHERE t.ctid = ANY (ARRAY(SELECT pg_catalog.unnest($1::pg_catalog.tid[]))) \
             AND t.tableoid = $2::pg_catalog.oid"
        );
    }

    #[test]
    fn batches_by_key() {
        assert_eq!(
            update_from_arrays(&table(), &[cast("B c")], &[], &[4]).to_string(),
            "UPDATE \"s\".\"t\"\"x\" AS t SET \"g\" = DEFAULT \
             FROM (SELECT pg_catalog.unnest($1::pg_catalog.text[]) AS c1) AS v \
             WHERE t.\"B c\" = v.c1::\"r\".\"mood\" \
             AND pg_catalog.record_image_eq(ROW($2), ROW((NULL::\"s\".\"t\"\"x\").\"B c\")) IS NOT NULL"
        );
        assert_eq!(
            delete_from_arrays(&table(), &[binary("a"), binary("B c")]).to_string(),
            "DELETE FROM \"s\".\"t\"\"x\" AS t \
             USING (SELECT pg_catalog.unnest($1::pg_catalog.int4[]) AS c1, pg_catalog.unnest($2::pg_catalog.int4[]) AS c2) AS v \
             WHERE t.\"a\" = v.c1 AND t.\"B c\" = v.c2"
        );
    }
}
