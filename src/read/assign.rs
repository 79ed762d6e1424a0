//! Values of columns as SQL text for a shard.

use crate::model::expr::{Expr, Kind};
use crate::model::sql::Sql;
use crate::read::deparse::{untyped, Printer};

/// Does the shard compute the value for a column? If not, it reads one that is sent.
pub fn is_computed(expr: &Expr) -> bool {
    !matches!(
        expr.kind,
        Kind::Literal(_) | Kind::ObjectLiteral { .. } | Kind::Param { .. }
    )
}

impl Printer<'_> {
    /// The text of a value for a column, whose type here is that of the expression.
    ///
    /// A bare constant or parameter is read by the input function of the shard's column, as the values of single rows are:
    /// what that does not take is an error, never a value that a cast has changed. Anything else has its own type, with
    /// the cast that the parser here put around it.
    pub fn assigned(&mut self, expr: &Expr) -> Sql {
        let mut sql = Sql::new();
        match &expr.kind {
            Kind::Literal(value) => untyped(&mut sql, value.as_deref(), &expr.result),
            Kind::ObjectLiteral { text, .. } => untyped(&mut sql, Some(text), &expr.result),
            Kind::Param { index, .. } => self.parameter(&mut sql, *index, true),
            _ => self.print(&mut sql, expr),
        }
        sql
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::expr::Given;
    use crate::model::expr::Oid;
    use crate::model::table::{RemoteColumn, RemoteTable};
    use crate::read::sample::*;

    fn table() -> RemoteTable {
        let column = |attnum, name: &str| RemoteColumn {
            attnum,
            name: name.into(),
            generated: false,
        };
        RemoteTable {
            schema: b"s".to_vec(),
            name: b"t".to_vec(),
            columns: vec![column(1, "a"), column(2, "b")],
        }
    }

    fn null(oid: Oid) -> Expr {
        Expr {
            kind: Kind::Literal(None),
            result: type_of(oid),
            collation: 0,
        }
    }

    #[test]
    fn values_for_columns() {
        let table = table();
        let mut printer = Printer::new(&table);
        let mut assigned = |expr: Expr| printer.assigned(&expr).to_string();
        assert_eq!(assigned(literal(TEXT, "x")), "'x'");
        assert_eq!(assigned(literal(INT8, "5")), "'5'");
        assert_eq!(assigned(literal(VARBIT, "101")), "'101'");
        assert_eq!(assigned(literal(BOOL, "t")), "'t'");
        assert_eq!(assigned(null(TEXT)), "NULL");
        let sum = operator("+", column(1, INT4), literal(INT4, "1"));
        assert_eq!(assigned(sum.clone()), r#"("a" + 1)"#);
        // What the column's type here makes of the value is made there, too.
        let cast = implicit(call("int8", vec![sum], INT8));
        assert_eq!(assigned(cast.clone()), r#"("a" + 1)::bigint"#);
        let length = implicit(call("numeric", vec![cast, literal(INT4, "9")], NUMERIC));
        assert_eq!(
            assigned(length),
            r#""pg_catalog"."numeric"(("a" + 1)::bigint, 9)"#
        );
        // The type of a parameter comes from one place only.
        assert_eq!(assigned(param(4, TEXT)), "$1");
        assert_eq!(assigned(param(4, TEXT)), "$2");
        let same = operator("=", column(2, TEXT), param(4, TEXT));
        assert_eq!(printer.condition(&same).to_string(), r#"("b" = $3::text)"#);
        assert_eq!(printer.condition(&same).to_string(), r#"("b" = $3::text)"#);
        assert_eq!(printer.into_params(), [4, 4, 4].map(Given::Converted));
    }
}
