//! An UPDATE that a shard does whole, made to fit the types that its columns have there.
//!
//! Where a column has another type on the shard than here, the value of an expression would get that type by an assignment cast:
//! numeric 1.5 would become the integer 2. Rows that travel in batches go by way of text, and so does this.

use crate::model::insert::{push_type_check, Target as Column};
use crate::model::sql::Sql;

/// An expression that is assigned to a column: where it stands in the text of the statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    pub attnum: i16,
    pub start: usize,
    pub end: usize,
}

/// Where a statement can be adjusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// In the order of the text.
    pub assigned: Vec<Assigned>,
    /// The end of the conditions.
    pub conditions: usize,
    /// Is there a WHERE already?
    pub has_conditions: bool,
}

/// A way by text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByText {
    /// Schema and name of the output function of the expression's type.
    pub output: (Vec<u8>, Vec<u8>),
    /// Schema and name of the type that the text is cast to.
    pub result: (Vec<u8>, Vec<u8>),
}

/// The remote table, with the columns whose types the shard is to check.
pub struct Check<'a> {
    pub schema: &'a [u8],
    pub table: &'a [u8],
    pub columns: &'a [Column],
    /// Number of parameters of the statement. Those of the check follow, see [`push_type_check`].
    pub parameters: usize,
}

/// The statement `sql` with the values of expressions sent by text where `ways` has one, and with the check. `ways` is as
/// long as the list of places.
pub fn adjusted(sql: &Sql, places: &Places, ways: &[Option<ByText>], check: &Check) -> Sql {
    let text = sql.as_bytes();
    let mut adjusted = Sql::new();
    let mut done = 0;
    for (assigned, way) in places.assigned.iter().zip(ways) {
        adjusted.push_bytes(&text[done..assigned.start]);
        let value = &text[assigned.start..assigned.end];
        match way {
            None => adjusted.push_bytes(value),
            Some(ByText { output, result }) => adjusted
                .push("pg_catalog.textin(")
                .push_qualified(&output.0, &output.1)
                .push("(")
                .push_bytes(value)
                .push("))::")
                .push_qualified(&result.0, &result.1),
        };
        done = assigned.end;
    }
    adjusted.push_bytes(&text[done..places.conditions]);
    push_type_check(
        &mut adjusted,
        match places.has_conditions {
            true => " AND ",
            false => " WHERE ",
        },
        check.schema,
        check.table,
        check.columns,
        check.parameters,
    );
    adjusted.push_bytes(&text[places.conditions..]);
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::insert::{CheckedType, Form};
    use crate::model::statement;
    use crate::model::table::{RemoteColumn, RemoteTable};

    fn adjust(conditions: &[Sql], way: Option<ByText>, checked: Option<CheckedType>) -> String {
        let table = RemoteTable {
            schema: b"s".to_vec(),
            name: b"t".to_vec(),
            columns: ["a", "b"]
                .iter()
                .zip(1..)
                .map(|(name, attnum)| RemoteColumn {
                    attnum,
                    name: name.as_bytes().to_vec(),
                    generated: false,
                })
                .collect(),
        };
        let values = [(1, "$1".into(), false), (2, "(a + 1)".into(), true)];
        let (sql, places) = statement::update(&table, &values, conditions, Some(&[1]));
        let columns = [Column {
            name: b"b".to_vec(),
            form: Form::Inferred,
            checked_type: checked,
        }];
        let check = Check {
            schema: &table.schema,
            table: &table.name,
            columns: &columns,
            parameters: 1,
        };
        adjusted(&sql, &places, &[way], &check).to_string()
    }

    #[test]
    fn what_fits_stays() {
        assert_eq!(
            adjust(&["c".into()], None, None),
            r#"UPDATE "s"."t" SET "a" = $1, "b" = (a + 1) WHERE (c) RETURNING "a""#
        );
    }

    #[test]
    fn another_type_gets_text() {
        let way = ByText {
            output: ("pg_catalog".into(), "numeric_out".into()),
            result: ("pg_catalog".into(), "int4".into()),
        };
        assert_eq!(
            adjust(&[], Some(way), Some(CheckedType::Itself(23))),
            "UPDATE \"s\".\"t\" SET \"a\" = $1, \"b\" = \
             pg_catalog.textin(\"pg_catalog\".\"numeric_out\"((a + 1)))::\"pg_catalog\".\"int4\" \
             WHERE pg_catalog.record_image_eq(ROW($2), ROW((NULL::\"s\".\"t\").\"b\")) IS NOT NULL RETURNING \"a\""
        );
    }

    #[test]
    fn a_check_follows_on_conditions() {
        let adjusted = adjust(&["c".into()], None, Some(CheckedType::Element(1231)));
        assert!(adjusted.contains("WHERE (c) AND pg_catalog.record_image_eq(ROW($2), ROW(ARRAY["));
    }
}
