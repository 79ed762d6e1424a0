//! Conditions as SQL text for a shard.
//!
//! The shard's parser has to find the operators and functions that were found here. So every constant and parameter says
//! its type, and every cast of the parser is written: arguments then have the very types that the operator or function is
//! declared with, and an exact match wins (`binary_oper_exact`, `func_get_detail`). The one exception is a constant beside a
//! column, see [`Printer::operand`].
//!
//! Anything more complex than a column, constant, call or cast stands in parentheses of its own, so no precedence has to be
//! known.

use crate::model::expr::{BoolOp, CallForm, Expr, Given, Kind, Oid, Routine, Test, TypeRef};
use crate::model::sql::Sql;
use crate::model::statement::push_column;
use crate::model::table::RemoteTable;

const BOOL: Oid = 16;
const CHAR: Oid = 18;
const INT4: Oid = 23;
const TEXT: Oid = 25;
const UNKNOWN: Oid = 705;
const VARCHAR: Oid = 1043;
const NUMERIC: Oid = 1700;
/// int2, int4, int8, oid, numeric: written without quotes where their text is a number. Not so float4 and float8, whose
/// negative zero a number would lose.
const NUMBERS: [Oid; 5] = [21, 23, 20, 26, 1700];
/// float4, float8.
const FLOATS: [Oid; 2] = [700, 701];
/// bit, varbit.
const BITS: [Oid; 2] = [1560, 1562];

/// Prints the conditions of one statement.
pub struct Printer<'a> {
    table: &'a RemoteTable,
    /// Constants become parameters, so that statements that differ in nothing else have one text.
    parameterizes: bool,
    /// Parameters in the order of their numbers in the text.
    params: Vec<Parameter>,
}

#[derive(Clone, PartialEq, Eq)]
struct Parameter {
    value: Given,
    /// What stands beside it, or the column that it is assigned to, says its type. Where it is cast too, it needs another
    /// number: a parameter has one type.
    untyped: bool,
}

impl<'a> Printer<'a> {
    pub fn new(table: &'a RemoteTable) -> Printer<'a> {
        Printer {
            table,
            parameterizes: false,
            params: Vec::new(),
        }
    }

    /// One that makes parameters of constants.
    pub fn parameterizing(table: &'a RemoteTable) -> Printer<'a> {
        Printer {
            parameterizes: true,
            ..Printer::new(table)
        }
    }

    /// The values of the parameters: the first is that of `$1`.
    pub fn into_params(self) -> Vec<Given> {
        self.params.into_iter().map(|param| param.value).collect()
    }

    /// The text of an expression that may be sent.
    pub fn condition(&mut self, expr: &Expr) -> Sql {
        let mut sql = Sql::new();
        self.print(&mut sql, expr);
        sql
    }

    /// A parameter that follows those of the conversion, for a value that no expression gives. Nothing can be printed after it.
    pub fn added(&self, type_name: &[u8]) -> Sql {
        let mut sql = Sql::from(&*format!("${}::", self.params.len() + 1));
        sql.push_bytes(type_name);
        sql
    }

    /// The number of a parameter. `untyped`: it will stand without a cast.
    pub(super) fn parameter(&mut self, sql: &mut Sql, index: usize, untyped: bool) {
        let param = Parameter {
            value: Given::Converted(index),
            untyped,
        };
        let known = self.params.iter().position(|known| *known == param);
        match known.filter(|_| !untyped) {
            Some(number) => {
                sql.push(&format!("${}", number + 1));
            }
            None => self.add(sql, param),
        }
    }

    fn add(&mut self, sql: &mut Sql, param: Parameter) {
        self.params.push(param);
        sql.push(&format!("${}", self.params.len()));
    }

    /// A constant, or a parameter in its place. `untyped`: without its type. Two constants never share a parameter: else the text
    /// would tell whether they are equal.
    fn constant(&mut self, sql: &mut Sql, value: Option<&[u8]>, of: &TypeRef, untyped: bool) {
        match value {
            Some(text) if self.parameterizes && can_be_parameter(of.oid) => {
                let param = Parameter {
                    value: Given::Constant(text.to_vec()),
                    untyped,
                };
                self.add(sql, param);
                if !untyped {
                    cast(sql, of);
                }
            }
            _ if untyped => self::untyped(sql, value, of),
            _ => constant(sql, value, of),
        }
    }

    pub(super) fn print(&mut self, sql: &mut Sql, expr: &Expr) {
        match &expr.kind {
            Kind::Column(attnum) => push_column(sql, self.table, *attnum),
            Kind::Literal(value) => self.constant(sql, value.as_deref(), &expr.result, false),
            Kind::ObjectLiteral { text, .. } => constant(sql, Some(text), &expr.result),
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
            } => match (form, args.as_slice()) {
                // With more arguments it has been told a length, and to refuse what is longer: a written cast would cut it.
                (CallForm::ImplicitCast, [arg]) | (CallForm::ExplicitCast, [arg, ..]) => {
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
            Kind::Operator {
                operator,
                operands,
                args,
                ..
            } => match args.as_slice() {
                [left, right] => {
                    sql.push("(");
                    self.operand(sql, left, right, *operands);
                    sql.push(" ");
                    operator_name(sql, operator);
                    sql.push(" ");
                    self.operand(sql, right, left, *operands);
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
            Kind::Relabel { arg, .. } => {
                self.print(sql, arg);
                // Of the same type, it only has another modifier or collation, which nobody asks for: see `Shipping`.
                if arg.result.oid != expr.result.oid {
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
            Kind::Case { whens, default } => self.case(sql, whens, default.as_deref()),
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

    /// One side of a binary operator. A constant beside a column of the very same type goes without its own, and then has
    /// that of the shard's column, which may be another than here (an enum that is text here): the parser first takes an
    /// untyped constant for what the other side is (section "Operators" of the manual's chapter on type conversion).
    fn operand(&mut self, sql: &mut Sql, expr: &Expr, other: &Expr, operands: [Oid; 2]) {
        match (&expr.kind, plain_column(expr)) {
            (Kind::Literal(value), _) if goes_untyped(expr, other, operands) => {
                self.constant(sql, value.as_deref(), &expr.result, true);
            }
            (_, Some(attnum)) if goes_untyped(other, expr, operands) => {
                push_column(sql, self.table, attnum);
            }
            _ => self.print(sql, expr),
        }
    }

    fn case(&mut self, sql: &mut Sql, whens: &[(Expr, Expr)], default: Option<&Expr>) {
        sql.push("(CASE");
        let compared = compared_values(whens);
        if let Some((tested, _)) = &compared {
            sql.push(" ");
            self.print(sql, tested);
        }
        for (position, (condition, value)) in whens.iter().enumerate() {
            sql.push(" WHEN ");
            let compared = compared.as_ref().map(|(_, values)| values[position]);
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

/// If conditions compare one expression with several values by the `=` that the parser would take: the expression and the
/// values. Then it need not be repeated.
fn compared_values(conditions: &[(Expr, Expr)]) -> Option<(&Expr, Vec<&Expr>)> {
    let mut sides = conditions
        .iter()
        .map(|(condition, _)| match &condition.kind {
            Kind::Operator { operator, args, .. }
                if operator.schema == b"pg_catalog" && operator.name == b"=" =>
            {
                match args.as_slice() {
                    [tested, value] => Some((tested, value)),
                    _ => None,
                }
            }
            _ => None,
        });
    let (tested, first) = sides.next()??;
    let rest: Vec<&Expr> = sides
        .map(|side| side.and_then(|(other, value)| (other == tested).then_some(value)))
        .collect::<Option<_>>()?;
    (!rest.is_empty()).then(|| (tested, std::iter::once(first).chain(rest).collect()))
}

/// May the constant `expr` go without its type beside `other`?
fn goes_untyped(expr: &Expr, other: &Expr, operands: [Oid; 2]) -> bool {
    let oid = expr.result.oid;
    matches!(expr.kind, Kind::Literal(_))
        && !is_typed_anyway(oid)
        && operands == [oid; 2]
        && other.result.oid == oid
        && plain_column(other).is_some()
}

/// The number of a column. Also of a varchar that is compared as text: the shard's parser relabels it as the one here has
/// done.
fn plain_column(expr: &Expr) -> Option<i16> {
    match &expr.kind {
        Kind::Column(attnum) => Some(*attnum),
        Kind::Relabel {
            arg,
            explicit: false,
        } if expr.result.oid == TEXT && arg.result.oid == VARCHAR => match arg.kind {
            Kind::Column(attnum) => Some(attnum),
            _ => None,
        },
        _ => None,
    }
}

/// May a parameter stand for a constant of the type? Booleans are two only, of `unknown` no parameter is, and a cast to bit or "char"
/// may cut or change what a constant of the type keeps.
fn can_be_parameter(oid: Oid) -> bool {
    oid != BOOL && oid != UNKNOWN && oid != CHAR && !BITS.contains(&oid)
}

/// Are constants of the type always written with it?
fn is_typed_anyway(oid: Oid) -> bool {
    oid == BOOL || NUMBERS.contains(&oid) || FLOATS.contains(&oid) || BITS.contains(&oid)
}

/// A constant, cast unless the parser would take it for its type anyway (`make_const` of the backend's parser).
fn constant(sql: &mut Sql, value: Option<&[u8]>, of: &TypeRef) {
    let Some(text) = value else {
        sql.push("NULL");
        cast(sql, of);
        return;
    };
    let is_number =
        NUMBERS.contains(&of.oid) && text.iter().all(|byte| b"0123456789+-eE.".contains(byte));
    let needs_cast = match of.oid {
        BOOL => {
            sql.push(if text == b"t" { "true" } else { "false" });
            false
        }
        oid if is_number => {
            let signed = matches!(text.first(), Some(b'+' | b'-'));
            sql.push(if signed { "(" } else { "" });
            sql.push_bytes(text).push(if signed { ")" } else { "" });
            let is_decimal = text.iter().any(|byte| b"eE.".contains(byte));
            !(oid == INT4 || oid == NUMERIC && is_decimal)
        }
        oid => {
            if BITS.contains(&oid) {
                sql.push("B");
            }
            untyped(sql, value, of);
            oid != UNKNOWN && high_byte(text, oid).is_none()
        }
    };
    if needs_cast {
        cast(sql, of);
    }
}

/// A constant that takes its type from where it stands.
pub(super) fn untyped(sql: &mut Sql, value: Option<&[u8]>, of: &TypeRef) {
    let Some(text) = value else {
        sql.push("NULL");
        return;
    };
    match high_byte(text, of.oid) {
        // No text would do: PostgreSQL 15 writes the bare byte, later versions read and write an escape.
        Some(byte) => {
            sql.push(&format!("({})", i8::from_ne_bytes([byte])));
            cast(sql, of);
        }
        None => {
            sql.push_literal(text);
        }
    }
}

/// The value of a "char" that is not ASCII, by its text form.
fn high_byte(text: &[u8], oid: Oid) -> Option<u8> {
    match text {
        _ if oid != CHAR => None,
        [byte] if !byte.is_ascii() => Some(*byte),
        [b'\\', digits @ ..] if digits.len() == 3 => {
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Printer;
    use crate::model::expr::{BoolOp, CallForm, Expr, Given, Kind, Oid, Source};
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
    fn constants_become_parameters_for_the_shard() {
        let table = table();
        let mut printer = Printer::parameterizing(&table);
        let mut print = |expr: Expr| printer.condition(&expr).to_string();
        let is_five = || operator("=", column(1, INT4), literal(INT4, "5"));
        assert_eq!(print(is_five()), r#"("a" = $1::integer)"#);
        assert_eq!(print(is_five()), r#"("a" = $2::integer)"#);
        // The shard's column may have another type.
        let is_x = operator("=", column(2, TEXT), literal(TEXT, "x"));
        assert_eq!(print(is_x), r#"("b" = $3)"#);
        let given = operator("=", column(1, INT4), param(7, INT4));
        assert_eq!(print(given.clone()), r#"("a" = $4::integer)"#);
        assert_eq!(print(given), r#"("a" = $4::integer)"#);
        assert_eq!(print(literal(BOOL, "t")), "true");
        assert_eq!(print(literal(VARBIT, "101")), "B'101'::bit varying");
        assert_eq!(print(with(Kind::Literal(None), TEXT)), "NULL::text");
        let constant = |text: &str| Given::Constant(text.into());
        assert_eq!(
            printer.into_params(),
            [
                constant("5"),
                constant("5"),
                constant("x"),
                Given::Converted(7)
            ]
        );
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
            (literal(NUMERIC, "Infinity"), "'Infinity'::numeric"),
            (
                literal(INT8, "-9223372036854775808"),
                "(-9223372036854775808)::bigint",
            ),
            (literal(FLOAT8, "-1e-300"), "'-1e-300'::double precision"),
            // As a number it would lose its sign.
            (literal(FLOAT8, "-0"), "'-0'::double precision"),
            (literal(CHAR, "a"), "'a'::\"char\""),
            (literal(CHAR, "\\"), "E'\\\\'::\"char\""),
            (literal(CHAR, r"\310"), "(-56)::\"char\""),
            (
                with(Kind::Literal(Some(vec![0xFF])), CHAR),
                "(-1)::\"char\"",
            ),
            (literal(UNKNOWN, "5"), "'5'"),
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
        // An enum in the shard's table may be a varchar here, too.
        let relabelled = |explicit| {
            let arg = Box::new(column(1, VARCHAR));
            with(Kind::Relabel { arg, explicit }, TEXT)
        };
        assert_eq!(
            text(&operator("=", relabelled(false), literal(TEXT, "x"))),
            r#"("a" = 'x')"#
        );
        assert_eq!(
            text(&operator("=", relabelled(true), literal(TEXT, "x"))),
            r#"("a"::text = 'x'::text)"#
        );
    }

    #[test]
    fn a_column_that_is_cast_says_nothing_about_the_constant() {
        let cast = |from, to| implicit(call("f", vec![column(1, from)], to));
        assert_eq!(
            text(&operator("=", cast(BPCHAR, TEXT), literal(TEXT, "AB  "))),
            r#"("a"::text = 'AB  '::text)"#
        );
        assert_eq!(
            text(&operator(
                "<",
                cast(INT4, NUMERIC),
                literal(NUMERIC, "Infinity")
            )),
            r#"("a"::numeric < 'Infinity'::numeric)"#
        );
        let relabel = with(
            Kind::Relabel {
                arg: Box::new(column(1, VARCHAR)),
                explicit: false,
            },
            BPCHAR,
        );
        assert_eq!(
            text(&operator("=", relabel, literal(BPCHAR, "x "))),
            r#"("a"::bpchar = 'x '::bpchar)"#
        );
        // Nor where the operator is for something else: here for any array.
        let mut polymorphic = operator("@>", column(1, 1007), literal(1007, "{1}"));
        if let Kind::Operator { operands, .. } = &mut polymorphic.kind {
            *operands = [2277, 2277];
        }
        assert_eq!(text(&polymorphic), r#"("a" @> '{1}'::other)"#);
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
        assert_eq!(printer.into_params(), [4, 2].map(Given::Converted));
    }

    #[test]
    fn operators_of_other_schemas_are_qualified() {
        let mut expr = operator("=", column(1, INT4), column(2, INT4));
        *routine_of(&mut expr) = routine("My", "<<@");
        assert_eq!(text(&expr), r#"("a" OPERATOR("My".<<@) "b")"#);
    }

    #[test]
    fn casts() {
        let form = |form, args| {
            let mut expr = call("f", args, TEXT);
            if let Kind::Call { form: of, .. } = &mut expr.kind {
                *of = form;
            }
            text(&expr)
        };
        let value = || vec![column(1, INT4)];
        assert_eq!(form(CallForm::ImplicitCast, value()), r#""a"::text"#);
        assert_eq!(form(CallForm::ExplicitCast, value()), r#""a"::text"#);
        let and_length = || vec![column(1, INT4), literal(INT4, "9"), literal(BOOL, "f")];
        assert_eq!(
            form(CallForm::ImplicitCast, and_length()),
            r#""pg_catalog"."f"("a", 9, false)"#
        );
        assert_eq!(form(CallForm::ExplicitCast, and_length()), r#""a"::text"#);
        let relabel = |explicit, from| {
            let arg = Box::new(column(1, from));
            text(&with(Kind::Relabel { arg, explicit }, TEXT))
        };
        assert_eq!(relabel(false, VARCHAR), r#""a"::text"#);
        assert_eq!(relabel(true, VARCHAR), r#""a"::text"#);
        assert_eq!(relabel(false, TEXT), r#""a""#);
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
        let case = |conditions: Vec<Expr>| {
            let values = conditions
                .into_iter()
                .map(|when| (when, literal(BOOL, "t")));
            let kind = Kind::Case {
                whens: values.collect(),
                default: Some(Box::new(literal(BOOL, "f"))),
            };
            text(&with(kind, BOOL))
        };
        let is = |tested: Expr, value| operator("=", tested, literal(INT8, value));
        let cast = || implicit(call("int8", vec![column(1, INT4)], INT8));
        assert_eq!(
            case(vec![is(cast(), "1")]),
            r#"(CASE WHEN ("a"::bigint = 1::bigint) THEN true ELSE false END)"#
        );
        assert_eq!(
            case(vec![is(cast(), "1"), is(cast(), "2")]),
            r#"(CASE "a"::bigint WHEN 1::bigint THEN true WHEN 2::bigint THEN true ELSE false END)"#
        );
        assert_eq!(
            case(vec![is(cast(), "1"), is(column(1, INT4), "2")]),
            r#"(CASE WHEN ("a"::bigint = 1::bigint) THEN true WHEN ("a" = 2::bigint) THEN true ELSE false END)"#
        );
        let mut other = is(cast(), "2");
        routine_of(&mut other).schema = b"public".to_vec();
        assert_eq!(
            case(vec![is(cast(), "1"), other]),
            r#"(CASE WHEN ("a"::bigint = 1::bigint) THEN true WHEN ("a"::bigint OPERATOR("public".=) 2::bigint) THEN true ELSE false END)"#
        );
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
