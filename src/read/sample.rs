//! Expressions for the unit tests of this room.

use crate::model::expr::{CallForm, Expr, Kind, Oid, Routine, Source, TypeRef, DEFAULT_COLLATION};

pub const BOOL: Oid = 16;
pub const INT8: Oid = 20;
pub const INT4: Oid = 23;
pub const TEXT: Oid = 25;
pub const BPCHAR: Oid = 1042;
pub const VARCHAR: Oid = 1043;
pub const CHAR: Oid = 18;
pub const UNKNOWN: Oid = 705;
pub const FLOAT8: Oid = 701;
pub const NUMERIC: Oid = 1700;
pub const VARBIT: Oid = 1562;

pub fn type_of(oid: Oid) -> TypeRef {
    let name = match oid {
        BOOL => "boolean",
        INT8 => "bigint",
        INT4 => "integer",
        TEXT => "text",
        BPCHAR => "bpchar",
        VARCHAR => "character varying",
        CHAR => "\"char\"",
        FLOAT8 => "double precision",
        NUMERIC => "numeric",
        VARBIT => "bit varying",
        _ => "other",
    };
    TypeRef {
        oid,
        name: name.into(),
        extension: 0,
    }
}

pub fn collation_of(oid: Oid) -> Oid {
    match oid {
        TEXT | BPCHAR | VARCHAR => DEFAULT_COLLATION,
        _ => 0,
    }
}

fn expr(kind: Kind, oid: Oid) -> Expr {
    Expr {
        kind,
        result: type_of(oid),
        collation: collation_of(oid),
    }
}

pub fn column(attnum: i16, oid: Oid) -> Expr {
    expr(Kind::Column(attnum), oid)
}

pub fn literal(oid: Oid, text: &str) -> Expr {
    expr(Kind::Literal(Some(text.into())), oid)
}

pub fn param(index: usize, oid: Oid) -> Expr {
    expr(
        Kind::Param {
            index,
            source: Source::Extern,
        },
        oid,
    )
}

pub fn routine(schema: &str, name: &str) -> Routine {
    Routine {
        oid: 100,
        schema: schema.into(),
        name: name.into(),
        immutable: true,
        extension: 0,
    }
}

/// A comparison by the collation of the left side's type.
pub fn operator(name: &str, left: Expr, right: Expr) -> Expr {
    let input_collation = collation_of(left.result.oid);
    expr(
        Kind::Operator {
            operator: routine("pg_catalog", name),
            operands: [left.result.oid, right.result.oid],
            args: vec![left, right],
            input_collation,
        },
        BOOL,
    )
}

pub fn call(name: &str, args: Vec<Expr>, oid: Oid) -> Expr {
    let input_collation = args.first().map_or(0, |arg| collation_of(arg.result.oid));
    expr(
        Kind::Call {
            function: routine("pg_catalog", name),
            args,
            input_collation,
            form: CallForm::Call,
            variadic: false,
        },
        oid,
    )
}

/// A call as the parser's cast.
pub fn implicit(mut call: Expr) -> Expr {
    match &mut call.kind {
        Kind::Call { form, .. } => *form = CallForm::ImplicitCast,
        _ => panic!("not a call"),
    }
    call
}

pub fn relabel(arg: Expr, collation: Oid) -> Expr {
    let result = arg.result.clone();
    Expr {
        kind: Kind::Relabel {
            arg: Box::new(arg),
            explicit: false,
        },
        result,
        collation,
    }
}

pub fn args_of(expr: &mut Expr) -> &mut Vec<Expr> {
    match &mut expr.kind {
        Kind::Operator { args, .. } => args,
        _ => panic!("not an operator"),
    }
}

pub fn routine_of(expr: &mut Expr) -> &mut Routine {
    match &mut expr.kind {
        Kind::Operator { operator, .. } => operator,
        _ => panic!("not an operator"),
    }
}

pub fn set_input_collation(expr: &mut Expr, collation: Oid) {
    match &mut expr.kind {
        Kind::Operator {
            input_collation, ..
        } => *input_collation = collation,
        _ => panic!("not an operator"),
    }
}
