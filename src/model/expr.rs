//! Expressions of a scan's conditions, copied out of PostgreSQL's node trees with every name and catalog fact that
//! judging and printing them takes.

/// An object's OID in the local database.
pub type Oid = u32;

/// Objects below this OID are built in and have the same meaning on every server (`FirstGenbkiObjectId`).
pub const FIRST_GENBKI_OBJECT_ID: Oid = 10_000;
/// `DEFAULT_COLLATION_OID`.
pub const DEFAULT_COLLATION: Oid = 100;
/// Column number of `ctid`.
pub const CTID: i16 = -1;
/// Column number of `xmin`, the transaction that has stored a row.
pub const XMIN: i16 = -2;

/// A type as it is written in a cast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeRef {
    pub oid: Oid,
    /// With schema (unless built in), quoted; with the modifier that a cast enforces. Empty where nobody writes it.
    pub name: Vec<u8>,
    /// Extension that the type belongs to, 0 if none or not asked for.
    pub extension: Oid,
}

/// A function, or what stands behind an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routine {
    pub oid: Oid,
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    /// Is it immutable (an operator: its function)?
    pub immutable: bool,
    /// Extension that it belongs to, 0 if none or not asked for.
    pub extension: Oid,
}

/// Where the value of a parameter comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The client or the calling function: known when execution starts.
    Extern,
    /// Another part of the running plan: may change between rescans.
    Exec,
    /// A column of another relation of the query: an `Exec` parameter in the finished plan.
    Outer,
}

/// The value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// That of a Param or Var, by its number in the conversion.
    Converted(usize),
    /// A constant in the text form of its type.
    Constant(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoolOp {
    And,
    Or,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

/// How a function call was written. A cast that somebody has made is a call: another server may have none, or another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    Call,
    ExplicitCast,
    ImplicitCast,
}

/// An expression with the type and collation of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expr {
    pub kind: Kind,
    pub result: TypeRef,
    /// 0 if the type has none.
    pub collation: Oid,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A column of the scan's own relation; of the system columns only [`CTID`] and [`XMIN`].
    Column(i16),
    /// A constant in the text form of its type, None for NULL.
    Literal(Option<Vec<u8>>),
    /// A value of a type that names an object of the local database (`regclass` and the like), by the object's OID.
    ObjectLiteral {
        text: Vec<u8>,
        object: Oid,
    },
    /// `index` counts within the conversion that made the expression.
    Param {
        index: usize,
        source: Source,
    },
    Call {
        function: Routine,
        args: Vec<Expr>,
        input_collation: Oid,
        form: CallForm,
        variadic: bool,
    },
    /// One argument: a prefix operator.
    Operator {
        operator: Routine,
        /// The types that it is declared with, 0 for none.
        operands: [Oid; 2],
        args: Vec<Expr>,
        input_collation: Oid,
    },
    /// IS DISTINCT FROM.
    Distinct {
        operator: Routine,
        args: Vec<Expr>,
        input_collation: Oid,
    },
    /// `left operator ANY (right)`, or ALL.
    ArrayOperator {
        operator: Routine,
        any: bool,
        args: Vec<Expr>,
        input_collation: Oid,
    },
    Bool {
        op: BoolOp,
        args: Vec<Expr>,
    },
    /// `whole`: asks for a row value itself, not for its fields.
    NullTest {
        arg: Box<Expr>,
        is_null: bool,
        whole: bool,
    },
    BooleanTest {
        arg: Box<Expr>,
        test: Test,
    },
    /// A cast that changes nothing but the type.
    Relabel {
        arg: Box<Expr>,
        explicit: bool,
    },
    Array(Vec<Expr>),
    /// Conditions with their values. `CASE x WHEN y` has the condition that the parser has made of it.
    Case {
        whens: Vec<(Expr, Expr)>,
        default: Option<Box<Expr>>,
    },
    /// `lower` is empty unless it is a slice.
    Subscript {
        container: Box<Expr>,
        upper: Vec<Option<Expr>>,
        lower: Vec<Option<Expr>>,
    },
}

impl Expr {
    /// Does `test` hold for the expression or any part of it?
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let some = |exprs: &[Expr]| exprs.iter().any(|expr| expr.any(test));
        let given = |bounds: &[Option<Expr>]| bounds.iter().flatten().any(|expr| expr.any(test));
        test(self)
            || match &self.kind {
                Kind::Column(_)
                | Kind::Literal(_)
                | Kind::ObjectLiteral { .. }
                | Kind::Param { .. } => false,
                Kind::Call { args, .. }
                | Kind::Operator { args, .. }
                | Kind::Distinct { args, .. }
                | Kind::ArrayOperator { args, .. }
                | Kind::Bool { args, .. }
                | Kind::Array(args) => some(args),
                Kind::NullTest { arg, .. }
                | Kind::BooleanTest { arg, .. }
                | Kind::Relabel { arg, .. } => arg.any(test),
                Kind::Case { whens, default } => {
                    default.iter().any(|expr| expr.any(test))
                        || whens
                            .iter()
                            .any(|(condition, value)| condition.any(test) || value.any(test))
                }
                Kind::Subscript {
                    container,
                    upper,
                    lower,
                } => container.any(test) || given(upper) || given(lower),
            }
    }
}
