//! Conditions as SQL text for a shard. Anything more complex than a column, constant, call or cast stands in
//! parentheses of its own, so no precedence has to be known.

use crate::model::expr::{BoolOp, CallForm, Expr, Kind, Oid, Routine, Test, TypeRef};
use crate::model::sql::Sql;
use crate::model::statement::push_column;
use crate::model::table::RemoteTable;
use crate::read::ship::compared_value;

const BOOL: Oid = 16;
const INT4: Oid = 23;
const NUMERIC: Oid = 1700;
/// int2, int4, int8, oid, float4, float8, numeric: written without quotes where their text is a number.
const NUMBERS: [Oid; 7] = [21, 23, 20, 26, 700, 701, 1700];
/// bit, varbit.
const BITS: [Oid; 2] = [1560, 1562];
/// `unknown`.
const UNKNOWN: Oid = 705;

/// Prints the conditions of one statement.
pub struct Printer<'a> {
    table: &'a RemoteTable,
    /// Parameters in the order of their numbers in the text.
    params: Vec<Parameter>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Parameter {
    /// Its place in the conversion.
    index: usize,
    /// The column that it is assigned to says its type. Where it is cast too, it needs another number: a parameter has
    /// one type.
    assigned: bool,
}

/// May the cast of a constant be left out where only the cast would say its type?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    WhereNeeded,
    /// The other side of the operator says it. The shard then takes the type of its own column, which may be another
    /// than here (an enum that is text here).
    Omitted,
}

impl<'a> Printer<'a> {
    pub fn new(table: &'a RemoteTable) -> Printer<'a> {
        Printer {
            table,
            params: Vec::new(),
        }
    }

    /// Conversion indexes of the parameters: the first is `$1`.
    pub fn into_params(self) -> Vec<usize> {
        self.params.iter().map(|param| param.index).collect()
    }

    /// The text of an expression that may be sent.
    pub fn condition(&mut self, expr: &Expr) -> Sql {
        let mut sql = Sql::new();
        self.print(&mut sql, expr);
        sql
    }

    /// The number of a parameter. `assigned`: without a cast, as the value of a column.
    pub(super) fn parameter(&mut self, sql: &mut Sql, index: usize, assigned: bool) {
        let param = Parameter { index, assigned };
        let known = self.params.iter().position(|known| *known == param);
        let number = known.filter(|_| !assigned).unwrap_or_else(|| {
            self.params.push(param);
            self.params.len() - 1
        });
        sql.push(&format!("${}", number + 1));
    }

    pub(super) fn print(&mut self, sql: &mut Sql, expr: &Expr) {
        match &expr.kind {
            Kind::Column(attnum) => push_column(sql, self.table, *attnum),
            Kind::Literal(value) => {
                constant(sql, value.as_deref(), &expr.result, Label::WhereNeeded)
            }
            Kind::ObjectLiteral { text, .. } => {
                constant(sql, Some(text), &expr.result, Label::WhereNeeded);
            }
            Kind::Param { index, .. } => {
                self.parameter(sql, *index, false);
                cast(sql, &expr.result);
            }
            Kind::Call {
                function,
                args,
                form,
                variadic,
                ..
            } => match (form, args.first()) {
                (CallForm::ImplicitCast, Some(arg)) => self.print(sql, arg),
                (CallForm::ExplicitCast, Some(arg)) => {
                    self.print(sql, arg);
                    cast(sql, &expr.result);
                }
                _ => {
                    sql.push_qualified(&function.schema, &function.name)
                        .push("(");
                    let last = args.len().saturating_sub(1);
                    sql.push_list(", ", args.iter().enumerate(), |sql, (position, arg)| {
                        if *variadic && position == last {
                            sql.push("VARIADIC ");
                        }
                        self.print(sql, arg);
                    });
                    sql.push(")");
                }
            },
            Kind::Operator { operator, args, .. } => match args.as_slice() {
                [left, right] => {
                    sql.push("(");
                    self.operand(sql, left, right);
                    sql.push(" ");
                    operator_name(sql, operator);
                    sql.push(" ");
                    self.operand(sql, right, left);
                    sql.push(")");
                }
                _ => {
                    sql.push("(");
                    operator_name(sql, operator);
                    sql.push(" ");
                    self.list(sql, " ", args);
                    sql.push(")");
                }
            },
            Kind::Distinct { args, .. } => {
                sql.push("(");
                self.list(sql, " IS DISTINCT FROM ", args);
                sql.push(")");
            }
            Kind::ArrayOperator {
                operator,
                any,
                args,
                ..
            } => {
                sql.push("(");
                for (position, arg) in args.iter().enumerate() {
                    if position > 0 {
                        sql.push(" ");
                        operator_name(sql, operator);
                        sql.push(if *any { " ANY (" } else { " ALL (" });
                    }
                    self.print(sql, arg);
                }
                sql.push("))");
            }
            Kind::Bool { op, args } => {
                sql.push(if *op == BoolOp::Not { "(NOT " } else { "(" });
                let separator = if *op == BoolOp::Or { " OR " } else { " AND " };
                self.list(sql, separator, args);
                sql.push(")");
            }
            Kind::NullTest {
                arg,
                is_null,
                whole,
            } => self.test(
                sql,
                arg,
                match (whole, is_null) {
                    (false, true) => "IS NULL",
                    (false, false) => "IS NOT NULL",
                    (true, true) => "IS NOT DISTINCT FROM NULL",
                    (true, false) => "IS DISTINCT FROM NULL",
                },
            ),
            Kind::BooleanTest { arg, test } => self.test(
                sql,
                arg,
                match test {
                    Test::True => "IS TRUE",
                    Test::NotTrue => "IS NOT TRUE",
                    Test::False => "IS FALSE",
                    Test::NotFalse => "IS NOT FALSE",
                    Test::Unknown => "IS UNKNOWN",
                    Test::NotUnknown => "IS NOT UNKNOWN",
                },
            ),
            Kind::Relabel { arg, explicit } => {
                self.print(sql, arg);
                if *explicit {
                    cast(sql, &expr.result);
                }
            }
            Kind::Array(elements) => {
                sql.push("ARRAY[");
                self.list(sql, ", ", elements);
                sql.push("]");
                if elements.is_empty() {
                    cast(sql, &expr.result);
                }
            }
            Kind::Case {
                arg,
                whens,
                default,
            } => self.case(sql, arg.as_deref(), whens, default.as_deref()),
            // Printed with the CASE that it belongs to.
            Kind::CaseTest => {}
            Kind::Subscript {
                container,
                upper,
                lower,
            } => self.subscript(sql, container, upper, lower),
        }
    }

    fn list(&mut self, sql: &mut Sql, separator: &str, exprs: &[Expr]) {
        sql.push_list(separator, exprs, |sql, expr| self.print(sql, expr));
    }

    fn test(&mut self, sql: &mut Sql, arg: &Expr, test: &str) {
        sql.push("(");
        self.print(sql, arg);
        sql.push(" ").push(test).push(")");
    }

    /// One side of a binary operator.
    fn operand(&mut self, sql: &mut Sql, expr: &Expr, other: &Expr) {
        let beside_column = expr.result.oid == other.result.oid
            && matches!(other.without_implicit_casts().kind, Kind::Column(_));
        match &expr.kind {
            Kind::Literal(value) if beside_column => {
                constant(sql, value.as_deref(), &expr.result, Label::Omitted);
            }
            _ => self.print(sql, expr),
        }
    }

    fn case(
        &mut self,
        sql: &mut Sql,
        arg: Option<&Expr>,
        whens: &[(Expr, Expr)],
        default: Option<&Expr>,
    ) {
        sql.push("(CASE");
        if let Some(arg) = arg {
            sql.push(" ");
            self.print(sql, arg);
        }
        for (condition, value) in whens {
            sql.push(" WHEN ");
            let compared = arg.and_then(|_| compared_value(condition));
            self.print(sql, compared.unwrap_or(condition));
            sql.push(" THEN ");
            self.print(sql, value);
        }
        if let Some(default) = default {
            sql.push(" ELSE ");
            self.print(sql, default);
        }
        sql.push(" END)");
    }

    fn subscript(
        &mut self,
        sql: &mut Sql,
        container: &Expr,
        upper: &[Option<Expr>],
        lower: &[Option<Expr>],
    ) {
        let bare = matches!(container.kind, Kind::Column(_));
        sql.push(if bare { "(" } else { "((" });
        self.print(sql, container);
        if !bare {
            sql.push(")");
        }
        for (position, bound) in upper.iter().enumerate() {
            sql.push("[");
            if let Some(first) = lower.get(position) {
                if let Some(first) = first {
                    self.print(sql, first);
                }
                sql.push(":");
            }
            if let Some(last) = bound {
                self.print(sql, last);
            }
            sql.push("]");
        }
        sql.push(")");
    }
}

/// Operators of other schemas need `OPERATOR()`; pg_catalog is always searched.
fn operator_name(sql: &mut Sql, operator: &Routine) {
    if operator.schema == b"pg_catalog" {
        sql.push_bytes(&operator.name);
    } else {
        sql.push("OPERATOR(")
            .push_ident(&operator.schema)
            .push(".")
            .push_bytes(&operator.name)
            .push(")");
    }
}

fn cast(sql: &mut Sql, to: &TypeRef) {
    sql.push("::").push_bytes(&to.name);
}

/// A constant, cast unless the parser would take it for its type anyway (`make_const` of the backend's parser).
pub(super) fn constant(sql: &mut Sql, value: Option<&[u8]>, of: &TypeRef, label: Label) {
    let Some(text) = value else {
        sql.push("NULL");
        if label == Label::WhereNeeded {
            cast(sql, of);
        }
        return;
    };
    let is_number =
        NUMBERS.contains(&of.oid) && text.iter().all(|byte| b"0123456789+-eE.".contains(byte));
    let needs_cast = match of.oid {
        BOOL => {
            sql.push(if text == b"t" { "true" } else { "false" });
            false
        }
        _ if is_number => {
            let signed = matches!(text.first(), Some(b'+' | b'-'));
            sql.push(if signed { "(" } else { "" });
            sql.push_bytes(text).push(if signed { ")" } else { "" });
            match of.oid {
                INT4 => false,
                NUMERIC => of.typmod >= 0 || !text.iter().any(|byte| b"eE.".contains(byte)),
                _ => true,
            }
        }
        oid if BITS.contains(&oid) => {
            sql.push("B").push_literal(text);
            true
        }
        oid => {
            sql.push_literal(text);
            label == Label::WhereNeeded && oid != UNKNOWN
        }
    };
    if needs_cast {
        cast(sql, of);
    }
}

#[cfg(test)]
mod tests {
    use super::Printer;
    use crate::model::expr::{BoolOp, CallForm, Expr, Kind, Oid, Source};
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

    fn text(expr: &Expr) -> String {
        Printer::new(&table()).condition(expr).to_string()
    }

    fn with(kind: Kind, oid: Oid) -> Expr {
        Expr {
            kind,
            result: type_of(oid),
            collation: 0,
        }
    }

    #[test]
    fn constants_are_cast_where_the_parser_would_take_another_type() {
        let bare = |expr: Expr| text(&call("f", vec![expr], INT4));
        let cases = [
            (literal(INT4, "5"), "5"),
            (literal(INT4, "-5"), "(-5)"),
            (literal(INT8, "5"), "5::bigint"),
            (literal(NUMERIC, "5"), "5::numeric"),
            (literal(NUMERIC, "5.0"), "5.0"),
            (literal(NUMERIC, "NaN"), "'NaN'::numeric"),
            (literal(FLOAT8, "-1e-300"), "(-1e-300)::double precision"),
            (literal(BOOL, "t"), "true"),
            (literal(VARBIT, "101"), "B'101'::bit varying"),
            (literal(TEXT, "it's \\"), "E'it''s \\\\'::text"),
            (with(Kind::Literal(None), TEXT), "NULL::text"),
        ];
        for (expr, expected) in cases {
            assert_eq!(bare(expr), format!(r#""pg_catalog"."f"({expected})"#));
        }
    }

    #[test]
    fn a_column_says_the_type_of_the_constant_beside_it() {
        assert_eq!(
            text(&operator("=", column(1, TEXT), literal(TEXT, "x"))),
            r#"("a" = 'x')"#
        );
        assert_eq!(
            text(&operator("=", literal(INT8, "1"), column(2, INT8))),
            r#"(1::bigint = "b")"#
        );
        let other = call("upper", vec![column(1, TEXT)], TEXT);
        assert_eq!(
            text(&operator("=", other, literal(TEXT, "x"))),
            r#"("pg_catalog"."upper"("a") = 'x'::text)"#
        );
    }

    #[test]
    fn parameters_are_numbered_by_first_use() {
        let table = table();
        let mut printer = Printer::new(&table);
        let one = operator("=", column(1, INT4), param(4, INT4));
        let two = operator("<", param(2, INT8), param(4, INT4));
        assert_eq!(
            printer.condition(&one).to_string(),
            r#"("a" = $1::integer)"#
        );
        assert_eq!(
            printer.condition(&two).to_string(),
            "($2::bigint < $1::integer)"
        );
        assert_eq!(printer.into_params(), vec![4, 2]);
    }

    #[test]
    fn operators_of_other_schemas_are_qualified() {
        let mut expr = operator("=", column(1, INT4), column(2, INT4));
        *routine_of(&mut expr) = routine("My", "<<@");
        assert_eq!(text(&expr), r#"("a" OPERATOR("My".<<@) "b")"#);
    }

    #[test]
    fn casts() {
        let form = |form| {
            let mut expr = call("f", vec![column(1, INT4)], TEXT);
            if let Kind::Call { form: of, .. } = &mut expr.kind {
                *of = form;
            }
            text(&expr)
        };
        assert_eq!(form(CallForm::ImplicitCast), r#""a""#);
        assert_eq!(form(CallForm::ExplicitCast), r#""a"::text"#);
        let relabel = |explicit| {
            let arg = Box::new(column(1, INT4));
            text(&with(Kind::Relabel { arg, explicit }, TEXT))
        };
        assert_eq!(relabel(false), r#""a""#);
        assert_eq!(relabel(true), r#""a"::text"#);
    }

    #[test]
    fn boolean_forms() {
        let a = || operator("=", column(1, INT4), literal(INT4, "1"));
        let bool_expr = |op, args| text(&with(Kind::Bool { op, args }, BOOL));
        assert_eq!(
            bool_expr(BoolOp::Or, vec![a(), a()]),
            r#"(("a" = 1) OR ("a" = 1))"#
        );
        assert_eq!(bool_expr(BoolOp::Not, vec![a()]), r#"(NOT ("a" = 1))"#);
        let null_test = |is_null, whole| {
            let arg = Box::new(column(1, INT4));
            text(&with(
                Kind::NullTest {
                    arg,
                    is_null,
                    whole,
                },
                BOOL,
            ))
        };
        assert_eq!(null_test(true, false), r#"("a" IS NULL)"#);
        assert_eq!(null_test(false, true), r#"("a" IS DISTINCT FROM NULL)"#);
        let any = with(
            Kind::ArrayOperator {
                operator: routine("pg_catalog", "="),
                any: true,
                args: vec![column(1, INT4), literal(1007, "{1,2}")],
                input_collation: 0,
            },
            BOOL,
        );
        assert_eq!(text(&any), r#"("a" = ANY ('{1,2}'::other))"#);
    }

    #[test]
    fn case_and_subscripts() {
        let tested = with(Kind::CaseTest, INT4);
        let case = with(
            Kind::Case {
                arg: Some(Box::new(column(1, INT4))),
                whens: vec![(
                    operator("=", tested, literal(INT4, "1")),
                    literal(BOOL, "t"),
                )],
                default: Some(Box::new(literal(BOOL, "f"))),
            },
            BOOL,
        );
        assert_eq!(text(&case), r#"(CASE "a" WHEN 1 THEN true ELSE false END)"#);
        let subscript = |container: Expr, lower| {
            text(&with(
                Kind::Subscript {
                    container: Box::new(container),
                    upper: vec![Some(literal(INT4, "2"))],
                    lower,
                },
                INT4,
            ))
        };
        assert_eq!(subscript(column(1, INT4), vec![]), r#"("a"[2])"#);
        assert_eq!(subscript(column(1, INT4), vec![None]), r#"("a"[:2])"#);
        let param = with(
            Kind::Param {
                index: 0,
                source: Source::Exec,
            },
            TEXT,
        );
        assert_eq!(subscript(param, vec![]), "(($1::text)[2])");
    }
}
