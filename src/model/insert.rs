//! Text of multi-row INSERT statements.

use crate::model::sql::Sql;

/// How a column's values travel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// As a binary array of this built-in type, which is also that of the remote column.
    Binary {
        element_oid: u32,
        type_name: &'static str,
    },
    /// As an array of text, each element cast to the remote column's type (schema, name).
    Cast { schema: Vec<u8>, name: Vec<u8> },
    /// As a parameter of its own for each row, whose type the shard infers: for types to which text cannot be cast
    /// with the meaning of their input function.
    Inferred,
}

/// A remote column that gets values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub name: Vec<u8>,
    pub form: Form,
    /// The type that the remote column has to have still, where the shard would otherwise make other values of those sent
    /// without a word.
    pub checked_type: Option<CheckedType>,
}

/// A type of the shard, named by a parameter that is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckedType {
    /// With this OID.
    Itself(u32),
    /// A domain, which may refuse NULL, by its array type with this OID.
    Element(u32),
}

/// OID of type `text`.
const TEXT: u32 = 25;

impl Target {
    /// Type OID of the elements of the array in which values travel.
    pub fn element_oid(&self) -> u32 {
        match &self.form {
            Form::Binary { element_oid, .. } => *element_oid,
            Form::Cast { .. } | Form::Inferred => TEXT,
        }
    }

    /// `pg_catalog.unnest($n::type[])`: its values.
    pub(super) fn push_unnest(&self, sql: &mut Sql, number: usize) {
        let element = self.element();
        sql.push(&format!(
            "pg_catalog.unnest(${number}::pg_catalog.{element}[])"
        ));
    }

    /// Name of the type in which values travel.
    fn element(&self) -> &'static str {
        match &self.form {
            Form::Binary { type_name, .. } => type_name,
            Form::Cast { .. } | Form::Inferred => "text",
        }
    }

    /// What makes the column's type of a value.
    pub(super) fn push_cast(&self, sql: &mut Sql) {
        if let Form::Cast { schema, name } = &self.form {
            sql.push("::").push_qualified(schema, name);
        }
    }
}

/// What an INSERT says about rows that are there already. Columns go by their remote names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Conflict {
    /// They are errors.
    #[default]
    Fail,
    /// ON CONFLICT DO NOTHING, by whatever constraint.
    Ignore,
    /// The same by this key.
    Keep { key: Vec<Vec<u8>> },
    /// ON CONFLICT DO UPDATE by this key: these other columns get the new row's values.
    Update {
        key: Vec<Vec<u8>>,
        columns: Vec<Vec<u8>>,
    },
}

/// A name for the target of an INSERT: its own could be `excluded`.
const ALIAS: &str = "r";

impl Conflict {
    /// What follows the table's name.
    fn push_alias(&self, sql: &mut Sql) {
        if matches!(self, Conflict::Update { .. }) {
            sql.push(" AS ").push(ALIAS);
        }
    }

    /// What follows the rows. Where no column is to be changed, the row that is there is written anew as it is: that
    /// counts it, locks it and fires its triggers, as an UPDATE of other columns would.
    fn push(&self, sql: &mut Sql) {
        match self {
            Conflict::Fail => {}
            Conflict::Ignore => {
                sql.push(" ON CONFLICT DO NOTHING");
            }
            Conflict::Keep { key } => {
                push_key(sql, key);
                sql.push(" DO NOTHING");
            }
            Conflict::Update { key, columns } => {
                push_key(sql, key);
                sql.push(" DO UPDATE SET ");
                let set = |sql: &mut Sql, name: &Vec<u8>, from: &str| {
                    sql.push_ident(name).push(" = ").push(from).push(".");
                    sql.push_ident(name);
                };
                match columns.as_slice() {
                    [] => sql.push_list(", ", key.iter().take(1), |sql, name| {
                        set(sql, name, ALIAS);
                    }),
                    _ => sql.push_list(", ", columns, |sql, name| set(sql, name, "EXCLUDED")),
                };
            }
        }
    }
}

fn push_key(sql: &mut Sql, key: &[Vec<u8>]) {
    sql.push(" ON CONFLICT (")
        .push_list(", ", key, |sql, name| {
            sql.push_ident(name);
        })
        .push(")");
}

/// What an INSERT says besides its rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Clauses {
    /// Values for identity columns are taken as they are.
    pub overriding: bool,
    pub conflict: Conflict,
}

impl Clauses {
    /// What stands between the table's name and its columns.
    pub(super) fn push_after_table(&self, sql: &mut Sql) {
        self.conflict.push_alias(sql);
    }

    /// What stands after the rows.
    pub(super) fn push_after_rows(&self, sql: &mut Sql) {
        self.conflict.push(sql);
    }
}

/// `INSERT INTO table (…) SELECT unnest($1), …`: the same text whatever the number of rows. Without columns the one
/// parameter `$1` is the number of rows (int8). In a select list the arrays yield their rows one by one, which `unnest` in
/// FROM would store first.
pub fn from_arrays(schema: &[u8], table: &[u8], columns: &[Target], clauses: &Clauses) -> Sql {
    let mut sql = head(schema, table, columns, clauses);
    sql.push(" SELECT ");
    if columns.is_empty() {
        sql.push("FROM pg_catalog.generate_series(1, $1::pg_catalog.int8)");
    } else {
        let numbered = columns.iter().zip(1..);
        sql.push_list(", ", numbered, |sql, (column, number)| {
            column.push_unnest(sql, number);
            column.push_cast(sql);
        });
    }
    push_type_check(&mut sql, " WHERE ", schema, table, columns, columns.len());
    clauses.push_after_rows(&mut sql);
    sql
}

/// `INSERT INTO table (…) VALUES ($1::type, $2, …)` for one row; there must be columns. Values whose type would have to be
/// checked travel as text, of which the shard makes what the column is: its type is then what it is, and the shard plans
/// this faster than arrays.
pub fn from_row(schema: &[u8], table: &[u8], columns: &[Target], clauses: &Clauses) -> Sql {
    let mut sql = head(schema, table, columns, clauses);
    let numbered = columns.iter().zip(1..);
    sql.push(" VALUES (")
        .push_list(", ", numbered, |sql, (column, number)| {
            sql.push(&format!("${number}"));
            if column.checked_type.is_none() {
                sql.push(&format!("::pg_catalog.{}", column.element()));
                column.push_cast(sql);
            }
        })
        .push(")");
    clauses.push_after_rows(&mut sql);
    sql
}

/// Type OIDs of the parameters for [`push_type_check`], all of which are NULL.
pub fn checked_types(columns: &[Target]) -> impl Iterator<Item = u32> + '_ {
    let checked = columns.iter().filter_map(|column| column.checked_type);
    checked.map(|checked| match checked {
        CheckedType::Itself(oid) | CheckedType::Element(oid) => oid,
    })
}

/// Adds a condition that always holds, but fails (42804) if a column's type is another one than that of its parameter.
/// `parameters`: the number of those that are there already.
///
/// The shard's parser says which types the columns have, after it has locked the table, so that no snapshot matters. A
/// comparison of records by their images refuses columns of different types; what it finds does not matter.
pub fn push_type_check<'a>(
    sql: &mut Sql,
    before: &str,
    schema: &[u8],
    table: &[u8],
    columns: impl IntoIterator<Item = &'a Target>,
    parameters: usize,
) {
    let checked = |column: &&Target| column.checked_type.is_some();
    let columns: Vec<&Target> = columns.into_iter().filter(checked).collect();
    if columns.is_empty() {
        return;
    }
    let numbers = parameters + 1..=parameters + columns.len();
    sql.push(before)
        .push("pg_catalog.record_image_eq(ROW(")
        .push_list(", ", numbers, |sql, number| {
            sql.push(&format!("${number}"));
        })
        .push("), ROW(")
        .push_list(", ", columns, |sql, column| {
            let (before, after) = match column.checked_type {
                Some(CheckedType::Element(_)) => ("ARRAY[", "]"),
                _ => ("", ""),
            };
            sql.push(before)
                .push("(NULL::")
                .push_qualified(schema, table)
                .push(").")
                .push_ident(&column.name)
                .push(after);
        })
        .push(")) IS NOT NULL");
}

/// `INSERT INTO table (…) VALUES ($1, …), …` for a number of rows; there must be columns.
pub fn from_values(
    schema: &[u8],
    table: &[u8],
    columns: &[Target],
    clauses: &Clauses,
    rows: usize,
) -> Sql {
    let mut sql = head(schema, table, columns, clauses);
    let width = columns.len();
    sql.push(" VALUES ").push_list(", ", 0..rows, |sql, row| {
        sql.push("(")
            .push_list(", ", 1..=width, |sql, column| {
                sql.push(&format!("${}", row * width + column));
            })
            .push(")");
    });
    clauses.push_after_rows(&mut sql);
    sql
}

fn head(schema: &[u8], table: &[u8], columns: &[Target], clauses: &Clauses) -> Sql {
    let mut sql = Sql::from("INSERT INTO ");
    sql.push_qualified(schema, table);
    clauses.push_after_table(&mut sql);
    push_columns(&mut sql, columns);
    if clauses.overriding && !columns.is_empty() {
        sql.push(" OVERRIDING SYSTEM VALUE");
    }
    sql
}

/// `"schema"."table" ("column", …)`, without parentheses where there are no columns.
pub(super) fn push_target(sql: &mut Sql, schema: &[u8], table: &[u8], columns: &[Target]) {
    sql.push_qualified(schema, table);
    push_columns(sql, columns);
}

fn push_columns(sql: &mut Sql, columns: &[Target]) {
    if !columns.is_empty() {
        sql.push(" (")
            .push_list(", ", columns, |sql, column| {
                sql.push_ident(&column.name);
            })
            .push(")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(name: &str) -> Target {
        Target {
            name: name.into(),
            form: Form::Binary {
                element_oid: 20,
                type_name: "int8",
            },
            checked_type: None,
        }
    }

    fn cast(name: &str) -> Target {
        Target {
            name: name.into(),
            form: Form::Cast {
                schema: b"r".to_vec(),
                name: b"mood".to_vec(),
            },
            checked_type: Some(CheckedType::Itself(16400)),
        }
    }

    fn text(sql: Sql) -> String {
        sql.to_string()
    }

    #[test]
    fn arrays_become_columns() {
        let sql = from_arrays(b"r", b"t", &[binary("a"), cast("b")], &Clauses::default());
        assert_eq!(
            text(sql),
            "INSERT INTO \"r\".\"t\" (\"a\", \"b\") SELECT pg_catalog.unnest($1::pg_catalog.int8[]), \
             pg_catalog.unnest($2::pg_catalog.text[])::\"r\".\"mood\" \
             WHERE pg_catalog.record_image_eq(ROW($3), ROW((NULL::\"r\".\"t\").\"b\")) IS NOT NULL"
        );
        let mut columns = [cast("a"), binary("b"), cast("c")];
        columns[2].checked_type = Some(CheckedType::Element(16500));
        assert_eq!(checked_types(&columns).collect::<Vec<_>>(), [16400, 16500]);
        let sql = text(from_arrays(b"r", b"t", &columns, &Clauses::default()));
        let check =
            "(ROW($4, $5), ROW((NULL::\"r\".\"t\").\"a\", ARRAY[(NULL::\"r\".\"t\").\"c\"])) IS NOT NULL";
        assert!(sql.ends_with(check));
    }

    #[test]
    fn clauses_stand_around_the_rows() {
        let clauses = Clauses {
            overriding: true,
            conflict: Conflict::Ignore,
        };
        assert_eq!(
            text(from_arrays(b"r", b"t", &[binary("a")], &clauses)),
            "INSERT INTO \"r\".\"t\" (\"a\") OVERRIDING SYSTEM VALUE \
             SELECT pg_catalog.unnest($1::pg_catalog.int8[]) ON CONFLICT DO NOTHING"
        );
    }

    #[test]
    fn a_single_row_needs_no_arrays() {
        let sql = from_row(b"r", b"t", &[binary("a"), cast("b")], &Clauses::default());
        assert_eq!(
            text(sql),
            "INSERT INTO \"r\".\"t\" (\"a\", \"b\") \
             VALUES ($1::pg_catalog.int8, $2)"
        );
    }

    #[test]
    fn no_columns_count_rows() {
        assert_eq!(
            text(from_arrays(b"r", b"t", &[], &Clauses::default())),
            "INSERT INTO \"r\".\"t\" SELECT FROM pg_catalog.generate_series(1, $1::pg_catalog.int8)"
        );
    }

    #[test]
    fn conflicts_by_key() {
        let names = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
        let sql = |conflict| {
            let clauses = Clauses {
                overriding: true,
                conflict,
            };
            text(from_values(b"r", b"excluded", &[cast("k")], &clauses, 1))
        };
        let key = || names(&["k", "K 2"]);
        assert_eq!(
            sql(Conflict::Keep { key: key() }),
            "INSERT INTO \"r\".\"excluded\" (\"k\") OVERRIDING SYSTEM VALUE VALUES ($1) ON CONFLICT (\"k\", \"K 2\") DO NOTHING"
        );
        let update = |columns| {
            sql(Conflict::Update {
                key: key(),
                columns: names(columns),
            })
        };
        let head =
            "INSERT INTO \"r\".\"excluded\" AS r (\"k\") OVERRIDING SYSTEM VALUE VALUES ($1) \
             ON CONFLICT (\"k\", \"K 2\") DO UPDATE SET ";
        assert_eq!(
            update(&["v", "w"]),
            format!("{head}\"v\" = EXCLUDED.\"v\", \"w\" = EXCLUDED.\"w\"")
        );
        assert_eq!(update(&[]), format!("{head}\"k\" = r.\"k\""));
    }

    #[test]
    fn values_number_their_parameters_through() {
        let columns = [binary("a"), cast("b")];
        assert_eq!(
            text(from_values(b"r", b"t", &columns, &Clauses::default(), 2)),
            "INSERT INTO \"r\".\"t\" (\"a\", \"b\") VALUES ($1, $2), ($3, $4)"
        );
    }
}
