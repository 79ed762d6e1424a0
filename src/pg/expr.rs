//! From PostgreSQL's expression trees to [`Expr`]: everything that printing and judging them needs is looked up here.

use crate::model::error::{FdwError, Result};
use crate::model::expr::{
    BoolOp, CallForm, Expr, Given, Kind, Routine, Source, Test, TypeRef, CTID,
    FIRST_GENBKI_OBJECT_ID, XMIN,
};
use crate::pg::catalog::{nodes, type_name};
use crate::pg::raise::bytes;
use crate::pg::typio::{output, Transmission};
use crate::pg::walk;
use pgrx::pg_sys;
use pgrx::pg_sys::{NodeTag, Oid};

/// A constant of type text.
fn text_const(text: &[u8]) -> *mut pg_sys::Node {
    // SAFETY: the text is copied; the node is made for a type of variable length.
    unsafe {
        let value = pg_sys::cstring_to_text_with_len(text.as_ptr().cast(), text.len() as i32);
        pg_sys::makeConst(
            pg_sys::TEXTOID,
            -1,
            Oid::INVALID,
            -1,
            value.into(),
            false,
            false,
        )
        .cast()
    }
}

/// Converts the conditions of one scan. Parameters are numbered over all of them.
pub struct Converter {
    relid: u32,
    extensions: bool,
    params: Vec<*mut pg_sys::Node>,
    /// Arguments of the CASEs around whose WHEN is being converted.
    tested: Vec<Expr>,
}

impl Converter {
    /// `relid`: range table index of the scan's relation. `extensions`: whether extension membership is looked up.
    pub fn new(relid: u32, extensions: bool) -> Converter {
        Converter {
            relid,
            extensions,
            params: Vec::new(),
            tested: Vec::new(),
        }
    }

    /// The Param or Var that an [`Kind::Param`] stands for.
    pub fn param(&self, index: usize) -> Option<*mut pg_sys::Node> {
        self.params.get(index).copied()
    }

    /// The expression that gives the value of a parameter: for a constant its text, in the current memory context.
    pub fn given(&self, given: &Given) -> Result<*mut pg_sys::Node> {
        match given {
            Given::Converted(index) => self
                .param(*index)
                .ok_or_else(|| FdwError::internal("a parameter is unknown")),
            Given::Constant(text) => Ok(text_const(text)),
        }
    }

    /// The expression as an owned tree, or None if some part of it cannot be represented: that part stays here.
    ///
    /// # Safety
    /// `node` is null or a valid expression node after planner preprocessing.
    pub unsafe fn convert(&mut self, node: *mut pg_sys::Node) -> Option<Expr> {
        if node.is_null() {
            return None;
        }
        // SAFETY: by the contract; each node is read as what its tag says.
        unsafe {
            let kind = match (*node).type_ {
                NodeTag::T_Var => self.var(node)?,
                NodeTag::T_Const => constant(&*node.cast())?,
                NodeTag::T_Param => {
                    let source = match (*node.cast::<pg_sys::Param>()).paramkind {
                        pg_sys::ParamKind::PARAM_EXTERN => Source::Extern,
                        pg_sys::ParamKind::PARAM_EXEC => Source::Exec,
                        // Of a sublink that is not planned yet: nobody knows what it refers to.
                        _ => return None,
                    };
                    self.param_of(node, source)
                }
                NodeTag::T_FuncExpr => self.call(&*node.cast())?,
                NodeTag::T_OpExpr => {
                    let op = &*node.cast::<pg_sys::OpExpr>();
                    let (operator, operands) = self.operator(op.opno)?;
                    Kind::Operator {
                        operator,
                        operands,
                        args: self.list(op.args)?,
                        input_collation: op.inputcollid.to_u32(),
                    }
                }
                NodeTag::T_DistinctExpr => {
                    let op = &*node.cast::<pg_sys::DistinctExpr>();
                    Kind::Distinct {
                        operator: self.operator(op.opno)?.0,
                        args: self.list(op.args)?,
                        input_collation: op.inputcollid.to_u32(),
                    }
                }
                NodeTag::T_ScalarArrayOpExpr => {
                    let op = &*node.cast::<pg_sys::ScalarArrayOpExpr>();
                    Kind::ArrayOperator {
                        operator: self.operator(op.opno)?.0,
                        any: op.useOr,
                        args: self.list(op.args)?,
                        input_collation: op.inputcollid.to_u32(),
                    }
                }
                NodeTag::T_BoolExpr => {
                    let expr = &*node.cast::<pg_sys::BoolExpr>();
                    Kind::Bool {
                        op: match expr.boolop {
                            pg_sys::BoolExprType::AND_EXPR => BoolOp::And,
                            pg_sys::BoolExprType::OR_EXPR => BoolOp::Or,
                            pg_sys::BoolExprType::NOT_EXPR => BoolOp::Not,
                            _ => return None,
                        },
                        args: self.list(expr.args)?,
                    }
                }
                NodeTag::T_NullTest => {
                    let test = &*node.cast::<pg_sys::NullTest>();
                    let argument = test.arg.cast::<pg_sys::Node>();
                    Kind::NullTest {
                        is_null: test.nulltesttype == pg_sys::NullTestType::IS_NULL,
                        whole: !test.argisrow
                            && pg_sys::type_is_rowtype(pg_sys::exprType(argument)),
                        arg: Box::new(self.convert(argument)?),
                    }
                }
                NodeTag::T_BooleanTest => {
                    let test = &*node.cast::<pg_sys::BooleanTest>();
                    Kind::BooleanTest {
                        test: match test.booltesttype {
                            pg_sys::BoolTestType::IS_TRUE => Test::True,
                            pg_sys::BoolTestType::IS_NOT_TRUE => Test::NotTrue,
                            pg_sys::BoolTestType::IS_FALSE => Test::False,
                            pg_sys::BoolTestType::IS_NOT_FALSE => Test::NotFalse,
                            pg_sys::BoolTestType::IS_UNKNOWN => Test::Unknown,
                            pg_sys::BoolTestType::IS_NOT_UNKNOWN => Test::NotUnknown,
                            _ => return None,
                        },
                        arg: Box::new(self.convert(test.arg.cast())?),
                    }
                }
                NodeTag::T_RelabelType => {
                    let cast = &*node.cast::<pg_sys::RelabelType>();
                    let source = pg_sys::exprType(cast.arg.cast());
                    if !self.is_known_cast(source, cast.resulttype) {
                        return None;
                    }
                    Kind::Relabel {
                        arg: Box::new(self.convert(cast.arg.cast())?),
                        explicit: cast.relabelformat != pg_sys::CoercionForm::COERCE_IMPLICIT_CAST,
                    }
                }
                NodeTag::T_ArrayExpr => {
                    Kind::Array(self.list((*node.cast::<pg_sys::ArrayExpr>()).elements)?)
                }
                NodeTag::T_CaseExpr => self.case(&*node.cast())?,
                NodeTag::T_CaseTestExpr => return self.tested.last().cloned(),
                NodeTag::T_SubscriptingRef => self.subscript(&*node.cast())?,
                _ => return None,
            };
            let expr = Expr {
                result: self.type_ref(&kind, node),
                collation: pg_sys::exprCollation(node).to_u32(),
                kind,
            };
            is_same_elsewhere(&expr).then_some(expr)
        }
    }

    /// A value that stays the same for all rows: a constant, or else a parameter that is computed here. None if its type has
    /// no meaning that both sides share.
    ///
    /// # Safety
    /// `node` is a valid expression node after planner preprocessing, without columns of the scan's relation.
    pub unsafe fn value(&mut self, node: *mut pg_sys::Node) -> Option<Expr> {
        // SAFETY: by the contract.
        unsafe {
            if (*node).type_ == NodeTag::T_Const {
                return self.convert(node);
            }
            let source = match depends_on_plan(node) {
                true => Source::Exec,
                false => Source::Extern,
            };
            let kind = self.param_of(node, source);
            let expr = Expr {
                result: self.type_ref(&kind, node),
                collation: 0,
                kind,
            };
            is_same_elsewhere(&expr).then_some(expr)
        }
    }

    /// # Safety
    /// `node` is a valid Var.
    unsafe fn var(&mut self, node: *mut pg_sys::Node) -> Option<Kind> {
        // SAFETY: by the contract.
        let var = unsafe { &*node.cast::<pg_sys::Var>() };
        if var.varlevelsup != 0 {
            return None;
        }
        if i64::from(var.varno) == i64::from(self.relid) {
            // Other system columns have no meaning that both sides share.
            return (var.varattno >= 0 || [CTID, XMIN].contains(&var.varattno))
                .then_some(Kind::Column(var.varattno));
        }
        Some(self.param_of(node, Source::Outer))
    }

    /// The parameter for an expression, a Param or Var most often; equal ones share a number.
    fn param_of(&mut self, node: *mut pg_sys::Node, source: Source) -> Kind {
        // SAFETY: both are valid nodes for as long as the plan is made.
        let known = self
            .params
            .iter()
            .position(|param| unsafe { pg_sys::equal(param.cast(), node.cast()) });
        let index = known.unwrap_or_else(|| {
            self.params.push(node);
            self.params.len() - 1
        });
        Kind::Param { index, source }
    }

    /// # Safety
    /// `list` is null or a list of valid expression nodes.
    unsafe fn list(&mut self, list: *mut pg_sys::List) -> Option<Vec<Expr>> {
        // SAFETY: by the contract.
        unsafe {
            nodes(list)
                .into_iter()
                .map(|node| self.convert(node))
                .collect()
        }
    }

    /// # Safety
    /// `call` belongs to a valid expression tree.
    unsafe fn call(&mut self, call: &pg_sys::FuncExpr) -> Option<Kind> {
        if call.funcretset {
            return None;
        }
        // SAFETY: by the contract; names are palloc'd copies.
        unsafe {
            let name = pg_sys::get_func_name(call.funcid);
            if name.is_null() {
                return None;
            }
            Some(Kind::Call {
                function: Routine {
                    oid: call.funcid.to_u32(),
                    schema: bytes(pg_sys::get_namespace_name(pg_sys::get_func_namespace(
                        call.funcid,
                    ))),
                    name: bytes(name),
                    immutable: is_immutable(call.funcid),
                    extension: self.extension(pg_sys::ProcedureRelationId, call.funcid),
                },
                args: self.list(call.args)?,
                input_collation: call.inputcollid.to_u32(),
                form: match call.funcformat {
                    pg_sys::CoercionForm::COERCE_EXPLICIT_CAST if is_built_in_cast(call) => {
                        CallForm::ExplicitCast
                    }
                    pg_sys::CoercionForm::COERCE_IMPLICIT_CAST if is_built_in_cast(call) => {
                        CallForm::ImplicitCast
                    }
                    _ => CallForm::Call,
                },
                variadic: call.funcvariadic,
            })
        }
    }

    /// Is there a cast like this on the shard: a built-in one, or one of the extension that has made one of the types?
    ///
    /// # Safety
    /// Both are types.
    unsafe fn is_known_cast(&self, source: Oid, target: Oid) -> bool {
        // SAFETY: by the contract; catalog lookups.
        let cast = unsafe { cast_between(source, target) };
        let extension = self.extension(CAST_RELATION, cast);
        let is_of = |oid| extension == self.extension(pg_sys::TypeRelationId, oid);
        is_of_initdb(cast) || extension != 0 && (is_of(source) || is_of(target))
    }

    /// An operator, and the types that it is declared with.
    fn operator(&self, opno: Oid) -> Option<(Routine, [u32; 2])> {
        // SAFETY: syscache lookups; the tuple is released before anything can be raised, its strings are copied.
        unsafe {
            let tuple = pg_sys::SearchSysCache1(
                pg_sys::SysCacheIdentifier::OPEROID as i32,
                pg_sys::Datum::from(opno),
            );
            if tuple.is_null() {
                return None;
            }
            let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_operator>();
            let name = bytes((*form).oprname.data.as_ptr());
            let namespace = (*form).oprnamespace;
            let function = (*form).oprcode;
            let operands = [(*form).oprleft.to_u32(), (*form).oprright.to_u32()];
            pg_sys::ReleaseSysCache(tuple);
            let operator = Routine {
                oid: opno.to_u32(),
                schema: bytes(pg_sys::get_namespace_name(namespace)),
                name,
                immutable: is_immutable(function),
                extension: self.extension(pg_sys::OperatorRelationId, opno),
            };
            Some((operator, operands))
        }
    }

    /// # Safety
    /// `case` belongs to a valid expression tree.
    unsafe fn case(&mut self, case: &pg_sys::CaseExpr) -> Option<Kind> {
        // SAFETY: by the contract; the list holds CaseWhen nodes.
        unsafe {
            let around = self.tested.len();
            let arg = match case.arg.is_null() {
                true => None,
                false => Some(self.convert(case.arg.cast())?),
            };
            let mut whens = Vec::new();
            for when in nodes(case.args) {
                let when = &*when.cast::<pg_sys::CaseWhen>();
                self.tested.extend(arg.clone());
                let condition = self.convert(when.expr.cast());
                self.tested.truncate(around);
                whens.push((condition?, self.convert(when.result.cast())?));
            }
            let default = match case.defresult.is_null() {
                true => None,
                false => Some(Box::new(self.convert(case.defresult.cast())?)),
            };
            Some(Kind::Case { whens, default })
        }
    }

    /// # Safety
    /// `subscript` belongs to a valid expression tree.
    unsafe fn subscript(&mut self, subscript: &pg_sys::SubscriptingRef) -> Option<Kind> {
        if !subscript.refassgnexpr.is_null() {
            return None;
        }
        // SAFETY: by the contract; an omitted bound is a null cell.
        unsafe {
            let mut bounds = |list| -> Option<Vec<Option<Expr>>> {
                nodes(list)
                    .into_iter()
                    .map(|node| match node.is_null() {
                        true => Some(None),
                        false => self.convert(node).map(Some),
                    })
                    .collect()
            };
            let upper = bounds(subscript.refupperindexpr)?;
            let lower = bounds(subscript.reflowerindexpr)?;
            Some(Kind::Subscript {
                container: Box::new(self.convert(subscript.refexpr.cast())?),
                upper,
                lower,
            })
        }
    }

    /// Type of `node`, which was converted to `kind`; with its name only where the name may be printed.
    ///
    /// # Safety
    /// `node` is a valid expression node.
    unsafe fn type_ref(&self, kind: &Kind, node: *mut pg_sys::Node) -> TypeRef {
        // SAFETY: by the contract.
        unsafe {
            let oid = pg_sys::exprType(node);
            let mut typmod = -1;
            let printed = match kind {
                Kind::Literal(_)
                | Kind::ObjectLiteral { .. }
                | Kind::Param { .. }
                | Kind::Relabel { .. } => true,
                Kind::Call {
                    form: CallForm::ExplicitCast,
                    ..
                } => {
                    // Only what the cast itself enforces may be written in it.
                    if !pg_sys::exprIsLengthCoercion(node, &mut typmod) {
                        typmod = -1;
                    }
                    true
                }
                Kind::Call { form, .. } => *form == CallForm::ImplicitCast,
                Kind::Array(elements) => elements.is_empty(),
                _ => false,
            };
            TypeRef {
                oid: oid.to_u32(),
                name: match printed {
                    true => type_name(oid, typmod),
                    false => Vec::new(),
                },
                extension: self.extension(pg_sys::TypeRelationId, oid),
            }
        }
    }

    fn extension(&self, class: Oid, object: Oid) -> u32 {
        if !self.extensions || object.to_u32() < FIRST_GENBKI_OBJECT_ID {
            return 0;
        }
        // SAFETY: a catalog lookup.
        unsafe { pg_sys::getExtensionOfObject(class, object) }.to_u32()
    }
}

/// `CastRelationId`; not in pgrx's bindings.
const CAST_RELATION: Oid = Oid::from_u32(2605);
/// Number of the column `oid` of pg_cast.
const CAST_OID: i16 = 1;

/// The entry of pg_cast, 0 if there is none. A domain is cast as what it is over.
///
/// # Safety
/// Both are types.
unsafe fn cast_between(source: Oid, target: Oid) -> Oid {
    // SAFETY: by the contract; catalog lookups.
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::CASTSOURCETARGET as i32,
            CAST_OID,
            pg_sys::Datum::from(pg_sys::getBaseType(source)),
            pg_sys::Datum::from(pg_sys::getBaseType(target)),
            pg_sys::Datum::null(),
            pg_sys::Datum::null(),
        )
    }
}

/// Entries of pg_cast have no OIDs of their own in the sources, but numbers that initdb gives.
fn is_of_initdb(cast: Oid) -> bool {
    cast.to_u32() < pg_sys::FirstNormalObjectId
}

/// Would a cast, written on a shard, call this function? Where somebody has made a cast of their own, only the function's name
/// says what is meant.
///
/// # Safety
/// `call` belongs to a valid expression tree.
unsafe fn is_built_in_cast(call: &pg_sys::FuncExpr) -> bool {
    // SAFETY: by the contract; catalog lookups.
    unsafe {
        if call.args.is_null() {
            return false;
        }
        let source = pg_sys::exprType(pg_sys::list_nth(call.args, 0).cast());
        let target = call.funcresulttype;
        let mut function = Oid::INVALID;
        if source == target {
            pg_sys::find_typmod_coercion_function(target, &mut function);
        } else {
            let context = pg_sys::CoercionContext::COERCION_EXPLICIT;
            pg_sys::find_coercion_pathway(target, source, context, &mut function);
        }
        function == call.funcid && is_of_initdb(cast_between(source, target))
    }
}

/// Does the value of an expression depend on other parts of the running plan?
///
/// # Safety
/// `node` is a valid expression node.
unsafe fn depends_on_plan(node: *mut pg_sys::Node) -> bool {
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        walk::any(node, |node| match (*node).type_ {
            NodeTag::T_Var
            | NodeTag::T_PlaceHolderVar
            | NodeTag::T_SubPlan
            | NodeTag::T_AlternativeSubPlan => true,
            NodeTag::T_Param => {
                (*node.cast::<pg_sys::Param>()).paramkind != pg_sys::ParamKind::PARAM_EXTERN
            }
            _ => false,
        })
    }
}

fn is_immutable(function: Oid) -> bool {
    // SAFETY: a syscache lookup; it raises for a function that is gone.
    unsafe { pg_sys::func_volatile(function) as u8 == pg_sys::PROVOLATILE_IMMUTABLE }
}

/// Types whose text depends on no setting.
const PLAIN_TYPES: [Oid; 12] = [
    pg_sys::BOOLOID,
    pg_sys::INT2OID,
    pg_sys::INT4OID,
    pg_sys::INT8OID,
    pg_sys::OIDOID,
    pg_sys::NUMERICOID,
    pg_sys::TEXTOID,
    pg_sys::VARCHAROID,
    pg_sys::BPCHAROID,
    pg_sys::NAMEOID,
    pg_sys::UUIDOID,
    pg_sys::BYTEAOID,
];

/// Types whose values are OIDs of objects of this database. `aclitem` has them inside.
const OBJECT_TYPES: [Oid; 12] = [
    pg_sys::ACLITEMOID,
    pg_sys::REGPROCOID,
    pg_sys::REGPROCEDUREOID,
    pg_sys::REGOPEROID,
    pg_sys::REGOPERATOROID,
    pg_sys::REGCLASSOID,
    pg_sys::REGTYPEOID,
    pg_sys::REGCOLLATIONOID,
    pg_sys::REGNAMESPACEOID,
    pg_sys::REGROLEOID,
    pg_sys::REGCONFIGOID,
    pg_sys::REGDICTIONARYOID,
];

/// Could a shard be given such a value, or have one of its own that is the same as here? OIDs of objects are numbers of one
/// database, rows have no type that a cast could name, and a byte above 127 in a "char" array is written in different ways by
/// the versions of PostgreSQL.
fn is_same_elsewhere(expr: &Expr) -> bool {
    let is_literal = matches!(expr.kind, Kind::Literal(_) | Kind::ObjectLiteral { .. });
    let is_param = matches!(expr.kind, Kind::Param { .. });
    let oid = Oid::from_u32(expr.result.oid);
    // SAFETY: a catalog lookup.
    let element = match unsafe { pg_sys::get_element_type(oid) } {
        Oid::INVALID => oid,
        element => element,
    };
    match element {
        pg_sys::RECORDOID => false,
        pg_sys::CHAROID => !is_param && (!is_literal || element == oid),
        _ if OBJECT_TYPES.contains(&element) => matches!(expr.kind, Kind::ObjectLiteral { .. }),
        _ => true,
    }
}

/// # Safety
/// `constant` is a valid Const.
unsafe fn constant(constant: &pg_sys::Const) -> Option<Kind> {
    if constant.constisnull {
        return Some(Kind::Literal(None));
    }
    let _transmission = (!PLAIN_TYPES.contains(&constant.consttype)).then(Transmission::begin);
    // SAFETY: the value is of the constant's type.
    let text = unsafe { output(constant.consttype, constant.constvalue) };
    if constant.consttype == pg_sys::ACLITEMOID {
        return None;
    }
    if OBJECT_TYPES.contains(&constant.consttype) {
        return Some(Kind::ObjectLiteral {
            text,
            object: constant.constvalue.value() as u32,
        });
    }
    Some(Kind::Literal(Some(text)))
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::prelude::*;

    const RELID: u32 = 1;
    /// `int4 = int4`.
    const INT4EQ: u32 = 96;

    fn var(relid: i32, attnum: i16, level: u32) -> *mut pg_sys::Node {
        // SAFETY: makes a valid node.
        unsafe { pg_sys::makeVar(relid, attnum, pg_sys::INT4OID, -1, Oid::INVALID, level).cast() }
    }

    fn const_of(type_oid: Oid, text: &std::ffi::CStr) -> *mut pg_sys::Node {
        let (mut input, mut io_param, mut length, mut by_value) =
            (Oid::INVALID, Oid::INVALID, 0, false);
        // SAFETY: the text is read by the type's own input function.
        unsafe {
            pg_sys::getTypeInputInfo(type_oid, &mut input, &mut io_param);
            pg_sys::get_typlenbyval(type_oid, &mut length, &mut by_value);
            let value = pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), io_param, -1);
            pg_sys::makeConst(
                type_oid,
                -1,
                Oid::INVALID,
                length.into(),
                value,
                false,
                by_value,
            )
            .cast()
        }
    }

    fn equals(left: *mut pg_sys::Node, right: *mut pg_sys::Node) -> *mut pg_sys::Node {
        // SAFETY: both are valid nodes; the operator is int4 = int4.
        unsafe {
            pg_sys::make_opclause(
                Oid::from_u32(INT4EQ),
                pg_sys::BOOLOID,
                false,
                left.cast(),
                right.cast(),
                Oid::INVALID,
                Oid::INVALID,
            )
            .cast()
        }
    }

    fn convert(node: *mut pg_sys::Node) -> Option<Expr> {
        // SAFETY: the node is valid.
        unsafe { Converter::new(RELID, true).convert(node) }
    }

    #[pg_test]
    fn operators_carry_what_printing_needs() {
        let expr =
            convert(equals(var(1, 2, 0), const_of(pg_sys::INT4OID, c"7"))).expect("representable");
        let Kind::Operator { operator, args, .. } = &expr.kind else {
            panic!("{expr:?}");
        };
        assert_eq!(
            (operator.schema.as_slice(), operator.name.as_slice()),
            (&b"pg_catalog"[..], &b"="[..])
        );
        assert!(operator.immutable && operator.extension == 0);
        assert_eq!(args[0].kind, Kind::Column(2));
        assert_eq!(args[1].kind, Kind::Literal(Some(b"7".to_vec())));
        assert_eq!(args[1].result.name, b"integer");
        assert_eq!(expr.result.oid, pg_sys::BOOLOID.to_u32());
    }

    #[pg_test]
    fn equal_parameters_share_a_number() {
        let mut converter = Converter::new(RELID, false);
        let mut index = |attnum| {
            // SAFETY: the node is valid.
            match unsafe { converter.convert(var(2, attnum, 0)) }.map(|expr| expr.kind) {
                Some(Kind::Param { index, source }) => {
                    assert_eq!(source, Source::Outer);
                    index
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((index(1), index(3), index(1)), (0, 1, 0));
        assert!(converter.param(1).is_some() && converter.param(2).is_none());
    }

    #[pg_test]
    fn constants_do_not_depend_on_settings() {
        Spi::run("SET LOCAL datestyle = 'SQL, DMY'; SET LOCAL intervalstyle = iso_8601; SET LOCAL extra_float_digits = -9")
            .expect("settings");
        for (type_oid, text) in [
            (pg_sys::DATEOID, c"2024-02-29"),
            (pg_sys::INTERVALOID, c"-1 days +02:03:04"),
            (pg_sys::FLOAT8OID, c"0.1234567890123456"),
        ] {
            let kind = convert(const_of(type_oid, text)).map(|expr| expr.kind);
            assert_eq!(kind, Some(Kind::Literal(Some(text.to_bytes().to_vec()))));
        }
        let kind = convert(const_of(pg_sys::REGCLASSOID, c"pg_class")).map(|expr| expr.kind);
        let class = pg_sys::RelationRelationId.to_u32();
        assert_eq!(
            kind,
            Some(Kind::ObjectLiteral {
                text: b"pg_class".to_vec(),
                object: class
            })
        );
        let style: Option<String> = Spi::get_one("SHOW intervalstyle").expect("a setting");
        assert_eq!(style.as_deref(), Some("iso_8601"));
    }

    #[pg_test]
    fn what_cannot_be_represented_is_refused_as_a_whole() {
        assert_eq!(convert(var(1, -3, 0)), None);
        assert_eq!(convert(var(1, 1, 1)), None);
        // SAFETY: a NullIfExpr is an OpExpr with another tag.
        let unknown = unsafe {
            let node = equals(var(1, 1, 0), var(1, 2, 0));
            (*node).type_ = NodeTag::T_NullIfExpr;
            node
        };
        assert_eq!(convert(equals(unknown, var(1, 2, 0))), None);
    }
}
