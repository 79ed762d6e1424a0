//! What may be evaluated on a shard instead of here: what means the same there, and cannot depend on where or when it
//! is evaluated. The rules are those of postgres_fdw (`foreign_expr_walker`, `is_shippable`).

use crate::model::expr::{
    Expr, Kind, Oid, Routine, TypeRef, DEFAULT_COLLATION, FIRST_GENBKI_OBJECT_ID,
};

/// Objects made by initdb are below this OID (`FirstNormalObjectId`): text search configurations are not built in by
/// the stricter measure, yet they exist everywhere.
const FIRST_NORMAL_OBJECT_ID: Oid = 16_384;
const REGCONFIG: Oid = 3734;
const REGDICTIONARY: Oid = 3769;

/// Where the collation of an expression comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Collation {
    /// It has none, or the default of a constant or parameter, which gives way to any other.
    None,
    /// A column of the foreign table: the shard derives the same one.
    Column(Oid),
    /// Anything else: the shard might derive another one.
    Unsafe,
}

impl Collation {
    /// The collation of an expression with parts of both kinds.
    fn merge(self, other: Collation) -> Collation {
        match (self, other) {
            (Collation::Unsafe, _) | (_, Collation::Unsafe) => Collation::Unsafe,
            (Collation::None, known) | (known, Collation::None) => known,
            (Collation::Column(one), Collation::Column(two)) if one == two => self,
            // As in SQL, a collation that is not the default one wins.
            (Collation::Column(DEFAULT_COLLATION), _) => other,
            (_, Collation::Column(DEFAULT_COLLATION)) => self,
            _ => Collation::Unsafe,
        }
    }

    /// The collation of a result whose inputs have `self`.
    fn of_result(self, collation: Oid) -> Collation {
        match collation {
            0 => Collation::None,
            _ if self == Collation::Column(collation) => self,
            _ => Collation::Unsafe,
        }
    }

    /// The collation of a value that is not a column.
    fn of_value(collation: Oid) -> Collation {
        match collation {
            0 | DEFAULT_COLLATION => Collation::None,
            _ => Collation::Unsafe,
        }
    }

    /// May a function or operator that compares by `input` get arguments with `self`?
    fn serves(self, input: Oid) -> bool {
        input == 0 || self == Collation::Column(input)
    }
}

/// What a server has beside the built-in objects.
#[derive(Debug, Clone, Default)]
pub struct Shipping {
    /// OIDs of the extensions of the server's option.
    pub extensions: Vec<Oid>,
}

impl Shipping {
    /// May the shard evaluate the expression?
    pub fn allows(&self, expr: &Expr) -> bool {
        self.walk(expr, None).is_some()
    }

    /// The collation of the expression, None if it must stay here. `case`: collation of the argument of the CASE
    /// around.
    fn walk(&self, expr: &Expr, case: Option<Collation>) -> Option<Collation> {
        if !self.has_type(&expr.result) {
            return None;
        }
        Some(match &expr.kind {
            Kind::Column(_) => match expr.collation {
                0 => Collation::None,
                collation => Collation::Column(collation),
            },
            Kind::Literal(_) | Kind::Param { .. } => Collation::of_value(expr.collation),
            Kind::ObjectLiteral { object, .. } => {
                let limit = match expr.result.oid {
                    REGCONFIG | REGDICTIONARY => FIRST_NORMAL_OBJECT_ID,
                    _ => FIRST_GENBKI_OBJECT_ID,
                };
                (*object < limit).then_some(Collation::None)?
            }
            Kind::Call {
                function: routine,
                args,
                input_collation,
                ..
            }
            | Kind::Operator {
                operator: routine,
                args,
                input_collation,
            }
            | Kind::Distinct {
                operator: routine,
                args,
                input_collation,
            }
            | Kind::ArrayOperator {
                operator: routine,
                args,
                input_collation,
                ..
            } => self
                .routine(routine, args, *input_collation, case)?
                .of_result(expr.collation),
            Kind::Bool { args, .. } => {
                self.all(args, case)?;
                Collation::None
            }
            Kind::NullTest { arg, .. } | Kind::BooleanTest { arg, .. } => {
                self.walk(arg, case)?;
                Collation::None
            }
            Kind::Relabel { arg, .. } => self.walk(arg, case)?.of_result(expr.collation),
            Kind::Array(elements) => self.all(elements, case)?.of_result(expr.collation),
            Kind::Case {
                arg,
                whens,
                default,
            } => {
                let tested = match arg {
                    Some(arg) => Some(self.walk(arg, case)?),
                    None => None,
                };
                let mut inner = Collation::None;
                for (condition, value) in whens {
                    if tested.is_some() && compared_value(condition).is_none() {
                        return None;
                    }
                    self.walk(condition, tested.or(case))?;
                    inner = inner.merge(self.walk(value, case)?);
                }
                if let Some(default) = default {
                    inner = inner.merge(self.walk(default, case)?);
                }
                inner.of_result(expr.collation)
            }
            Kind::CaseTest => case?.of_result(expr.collation),
            Kind::Subscript {
                container,
                upper,
                lower,
            } => {
                for bound in upper.iter().chain(lower).flatten() {
                    self.walk(bound, case)?;
                }
                self.walk(container, case)?.of_result(expr.collation)
            }
        })
    }

    fn routine(
        &self,
        routine: &Routine,
        args: &[Expr],
        input_collation: Oid,
        case: Option<Collation>,
    ) -> Option<Collation> {
        if !routine.immutable || !self.has(routine.oid, routine.extension) {
            return None;
        }
        let collation = self.all(args, case)?;
        collation.serves(input_collation).then_some(collation)
    }

    fn all(&self, exprs: &[Expr], case: Option<Collation>) -> Option<Collation> {
        exprs.iter().try_fold(Collation::None, |collation, expr| {
            Some(collation.merge(self.walk(expr, case)?))
        })
    }

    fn has(&self, object: Oid, extension: Oid) -> bool {
        object < FIRST_GENBKI_OBJECT_ID || (extension != 0 && self.extensions.contains(&extension))
    }

    fn has_type(&self, of: &TypeRef) -> bool {
        self.has(of.oid, of.extension)
    }
}

/// What a WHEN compares the argument of its CASE with. None if the condition does not have the form the parser
/// gives it any more: then it cannot be printed.
pub fn compared_value(condition: &Expr) -> Option<&Expr> {
    match &condition.kind {
        Kind::Operator { args, .. } => match args.as_slice() {
            [tested, value] => {
                (tested.without_implicit_casts().kind == Kind::CaseTest).then_some(value)
            }
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::sample::*;

    fn ships(expr: &Expr) -> bool {
        Shipping::default().allows(expr)
    }

    #[test]
    fn built_in_immutable_conditions_are_sent() {
        assert!(ships(&operator("=", column(1, INT4), literal(INT4, "5"))));
        assert!(ships(&operator("=", column(1, TEXT), literal(TEXT, "x"))));
        assert!(ships(&operator("=", column(1, TEXT), param(0, TEXT))));
    }

    #[test]
    fn what_is_not_immutable_or_not_built_in_stays() {
        let mut stable = operator("=", column(1, INT4), literal(INT4, "5"));
        routine_of(&mut stable).immutable = false;
        assert!(!ships(&stable));

        let mut own = operator("=", column(1, INT4), literal(INT4, "5"));
        routine_of(&mut own).oid = 20_000;
        assert!(!ships(&own));
        routine_of(&mut own).extension = 17_000;
        assert!(!ships(&own));
        let shipping = Shipping {
            extensions: vec![17_000],
        };
        assert!(shipping.allows(&own));

        let mut domain = operator("=", column(1, INT4), literal(INT4, "5"));
        args_of(&mut domain)[0].result.oid = 20_001;
        assert!(!ships(&domain));
    }

    #[test]
    fn collations_come_from_columns() {
        // A function of a constant alone has its collation from nowhere.
        let constant = call("upper", vec![literal(TEXT, "x")], TEXT);
        assert!(!ships(&operator("=", column(1, TEXT), constant)));
        let of_column = call("upper", vec![column(1, TEXT)], TEXT);
        assert!(ships(&operator("=", of_column.clone(), literal(TEXT, "X"))));

        // COLLATE "C" over a column with the default collation.
        let mut collated = operator("<", column(1, TEXT), literal(TEXT, "x"));
        let args = args_of(&mut collated);
        args[0] = relabel(args[0].clone(), 950);
        set_input_collation(&mut collated, 950);
        assert!(!ships(&collated));

        // A column that has this collation itself.
        let mut declared = operator("<", column(1, TEXT), literal(TEXT, "x"));
        args_of(&mut declared)[0].collation = 950;
        set_input_collation(&mut declared, 950);
        assert!(ships(&declared));

        // Two columns with different collations, neither of them the default one.
        let mut mixed = operator("<", column(1, TEXT), column(2, TEXT));
        args_of(&mut mixed)[0].collation = 950;
        args_of(&mut mixed)[1].collation = 951;
        set_input_collation(&mut mixed, 950);
        assert!(!ships(&mixed));
    }

    #[test]
    fn a_nested_unsafe_collation_does_not_matter_where_nobody_compares() {
        let mut test = column(1, TEXT);
        test.collation = 950;
        let test = relabel(test, 951);
        let is_null = Expr {
            kind: Kind::NullTest {
                arg: Box::new(test),
                is_null: true,
                whole: false,
            },
            result: type_of(BOOL),
            collation: 0,
        };
        assert!(ships(&is_null));
    }

    #[test]
    fn case_needs_the_parsers_form() {
        let tested = Expr {
            kind: Kind::CaseTest,
            result: type_of(INT4),
            collation: 0,
        };
        let case = |condition: Expr| Expr {
            kind: Kind::Case {
                arg: Some(Box::new(column(1, INT4))),
                whens: vec![(condition, literal(BOOL, "t"))],
                default: None,
            },
            result: type_of(BOOL),
            collation: 0,
        };
        assert!(ships(&case(operator(
            "=",
            tested.clone(),
            literal(INT4, "1")
        ))));
        assert!(!ships(&case(operator(
            "=",
            literal(INT4, "1"),
            tested.clone()
        ))));
        assert!(!ships(&tested));
    }

    #[test]
    fn names_of_local_objects_stay() {
        let class = |object| Expr {
            kind: Kind::ObjectLiteral {
                text: b"t".to_vec(),
                object,
            },
            result: type_of(2205),
            collation: 0,
        };
        assert!(ships(&class(1259)));
        assert!(!ships(&class(16_500)));
        let mut configuration = class(13_000);
        assert!(!ships(&configuration));
        configuration.result.oid = REGCONFIG;
        assert!(ships(&configuration));
    }
}
