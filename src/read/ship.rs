//! What may be evaluated on a shard instead of here: what means the same there, and cannot depend on where or when it
//! is evaluated. The rules are those of postgres_fdw (`foreign_expr_walker`, `is_shippable`).

use crate::model::expr::{
    Expr, Kind, Oid, Routine, TypeRef, DEFAULT_COLLATION, FIRST_GENBKI_OBJECT_ID,
};
use std::cell::Cell;

/// Objects made by initdb are below this OID (`FirstNormalObjectId`): text search configurations are not built in by
/// the stricter measure, yet they exist everywhere.
const FIRST_NORMAL_OBJECT_ID: Oid = 16_384;
const REGCONFIG: Oid = 3734;
const REGDICTIONARY: Oid = 3769;
const REGROLE: Oid = 4096;
/// `BOOTSTRAP_SUPERUSERID`: initdb is told the name.
const BOOTSTRAP_SUPERUSER: Oid = 10;
/// Immutable by the catalog, and yet other ones on a shard: `satisfies_hash_partition` looks into the catalogs of its own
/// database, `age` of two timestamptz counts days by TimeZone, and `quote_ident` goes by quote_all_identifiers and the keywords of
/// its version.
const LOCAL_FUNCTIONS: [Oid; 3] = [5028, 1199, 1282];

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

/// What an expression depends on beside what it is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LocaleNeed {
    /// Nothing: it looks at characters as they are.
    Nothing,
    /// The encoding of the database: it looks at bytes.
    Encoding,
    /// The locale of the database, which goes with an encoding.
    Database,
    /// A collation that is neither that of the database nor the order of bytes: nobody knows whether the shard has the same.
    Collation,
}

/// Collations "C", "POSIX" and `ucs_basic`: the order of bytes, and ASCII letters.
const PLAIN_COLLATIONS: [Oid; 3] = [950, 951, 962];

/// Built-in operators that find strings equal, or look for parts of them, by any deterministic collation in the same way.
const INDIFFERENT_OPERATORS: [&str; 18] = [
    "=", "<>", "||", "~~", "!~~", "^@", "->", "->>", "#>", "#>>", "#-", "-", "?", "?|", "?&", "@>",
    "<@", "&&",
];

/// The same for functions, and those whose text says how something else is computed. What stands in no list may depend on the
/// locale.
const INDIFFERENT_FUNCTIONS: [&str; 86] = [
    "text",
    "bpchar",
    "varchar",
    "bool",
    "int4",
    "int8",
    "numeric",
    "length",
    "char_length",
    "character_length",
    "bpcharlen",
    "textlen",
    "textcat",
    "texteq",
    "textne",
    "bpchareq",
    "bpcharne",
    "nameeq",
    "namene",
    "textlike",
    "textnlike",
    "bpcharlike",
    "bpcharnlike",
    "like",
    "notlike",
    "like_escape",
    "substr",
    "left",
    "right",
    "position",
    "strpos",
    "textpos",
    "replace",
    "split_part",
    "translate",
    "btrim",
    "ltrim",
    "rtrim",
    "lpad",
    "rpad",
    "repeat",
    "reverse",
    "overlay",
    "starts_with",
    "quote_literal",
    "quote_nullable",
    "date_trunc",
    "date_part",
    "extract",
    "timezone",
    "encode",
    "array_append",
    "array_prepend",
    "array_cat",
    "array_length",
    "array_ndims",
    "array_dims",
    "array_lower",
    "array_upper",
    "cardinality",
    "array_position",
    "array_positions",
    "array_remove",
    "array_replace",
    "array_eq",
    "array_ne",
    "arrayoverlap",
    "arraycontains",
    "arraycontained",
    "trim_array",
    "string_to_array",
    "json_object_field",
    "json_object_field_text",
    "jsonb_object_field",
    "jsonb_object_field_text",
    "json_extract_path",
    "json_extract_path_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_exists",
    "jsonb_exists_any",
    "jsonb_exists_all",
    "jsonb_delete",
    "jsonb_delete_path",
    "jsonb_set",
    "jsonb_insert",
];

/// Built-in functions of text whose result depends on the encoding, whatever the collation.
const ENCODED_FUNCTIONS: [&str; 14] = [
    "char",
    "name",
    "octet_length",
    "bit_length",
    "md5",
    "ascii",
    "chr",
    "convert_to",
    "decode",
    "to_ascii",
    "hashtext",
    "hashtextextended",
    "hashbpchar",
    "hashbpcharextended",
];

/// Built-in functions without a collation that use that of the database: text search in JSON, and strings in JSON, which jsonpath's
/// `like_regex` and the order of jsonb look at.
const JSON_FUNCTIONS: [&str; 14] = [
    "to_tsvector",
    "json_to_tsvector",
    "jsonb_to_tsvector",
    "ts_headline",
    "jsonb_lt",
    "jsonb_le",
    "jsonb_gt",
    "jsonb_ge",
    "jsonb_cmp",
    "jsonb_hash",
    "jsonb_hash_extended",
    "jsonb_path_exists",
    "jsonb_path_match",
    "jsonb_path_query",
];
const JSONB: Oid = 3802;

/// Built-in functions of tsvector and tsquery that do not look at the order of lexemes, which is that of bytes.
const LEXEME_FUNCTIONS: [&str; 10] = [
    "length",
    "strip",
    "setweight",
    "numnode",
    "querytree",
    "ts_match_vq",
    "ts_match_qv",
    "tsvector_concat",
    "tsvector_eq",
    "tsvector_ne",
];
const TSVECTOR: Oid = 3614;
const TSQUERY: Oid = 3615;

fn need_of_routine(
    routine: &Routine,
    is_operator: bool,
    args: &[Expr],
    collation: Oid,
    is_deterministic: fn(Oid) -> bool,
) -> LocaleNeed {
    let is_built_in = routine.oid < FIRST_GENBKI_OBJECT_ID;
    let is_one_of =
        |names: &[&str]| is_built_in && names.iter().any(|name| name.as_bytes() == routine.name);
    let is_indifferent = match is_operator {
        true => is_one_of(&INDIFFERENT_OPERATORS),
        false => is_one_of(&INDIFFERENT_FUNCTIONS) || is_substring(routine, args) && is_built_in,
    };
    let is_encoded = !is_operator && is_one_of(&ENCODED_FUNCTIONS);
    // Of what extensions have made nobody knows: citext and ltree compare letters by the database's locale, whatever the collation.
    if !is_built_in && (collation == 0 || PLAIN_COLLATIONS.contains(&collation)) {
        return LocaleNeed::Database;
    }
    if collation == 0 {
        let takes_jsonb = args.first().is_some_and(|arg| arg.result.oid == JSONB);
        let takes_lexemes = args
            .iter()
            .any(|arg| [TSVECTOR, TSQUERY].contains(&arg.result.oid))
            && match is_operator {
                true => is_one_of(&["<", "<=", ">", ">="]),
                false => !is_one_of(&LEXEME_FUNCTIONS),
            };
        let by_default = match is_operator {
            true => takes_jsonb && is_one_of(&["<", "<=", ">", ">=", "@?", "@@"]),
            false => {
                is_one_of(&JSON_FUNCTIONS)
                    || is_built_in && routine.name.starts_with(b"jsonb_path_")
            }
        };
        return match by_default {
            true => LocaleNeed::Database,
            false if is_encoded || takes_lexemes => LocaleNeed::Encoding,
            false => LocaleNeed::Nothing,
        };
    }
    match collation {
        _ if is_encoded && is_deterministic(collation) => LocaleNeed::Encoding,
        _ if PLAIN_COLLATIONS.contains(&collation) && !is_indifferent => LocaleNeed::Encoding,
        DEFAULT_COLLATION if is_indifferent => LocaleNeed::Nothing,
        DEFAULT_COLLATION => LocaleNeed::Database,
        _ if is_indifferent && is_deterministic(collation) => LocaleNeed::Nothing,
        _ => LocaleNeed::Collation,
    }
}

/// `substring` by numbers, not by a pattern.
fn is_substring(routine: &Routine, args: &[Expr]) -> bool {
    const INT4: Oid = 23;
    routine.name == b"substring" && args.get(1).is_some_and(|arg| arg.result.oid == INT4)
}

/// What the result of an expression depends on, as far as locale goes. A shard whose database has another one would give another
/// result. `is_deterministic` says it of a collation.
pub fn locale_need(expr: &Expr, is_deterministic: fn(Oid) -> bool) -> LocaleNeed {
    let need = Cell::new(LocaleNeed::Nothing);
    expr.any(&|part| {
        let (routine, is_operator, args, collation) = match &part.kind {
            Kind::Call {
                function,
                args,
                input_collation,
                ..
            } => (function, false, args, *input_collation),
            Kind::Operator {
                operator,
                args,
                input_collation,
                ..
            }
            | Kind::Distinct {
                operator,
                args,
                input_collation,
                ..
            }
            | Kind::ArrayOperator {
                operator,
                args,
                input_collation,
                ..
            } => (operator, true, args, *input_collation),
            _ => return false,
        };
        need.set(need.get().max(need_of_routine(
            routine,
            is_operator,
            args,
            collation,
            is_deterministic,
        )));
        need.get() == LocaleNeed::Collation
    });
    need.get()
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
        self.walk(expr).is_some()
    }

    /// The collation of the expression, None if it must stay here.
    fn walk(&self, expr: &Expr) -> Option<Collation> {
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
                let has_same_name = expr.result.oid != REGROLE || *object != BOOTSTRAP_SUPERUSER;
                (*object < limit && has_same_name).then_some(Collation::None)?
            }
            // Its "=" is searched for by the shard's parser.
            Kind::Distinct { operator, .. } if operator.schema != b"pg_catalog" => return None,
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
                ..
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
                .routine(routine, args, *input_collation)?
                .of_result(expr.collation),
            Kind::Bool { args, .. } => {
                self.all(args)?;
                Collation::None
            }
            Kind::NullTest { arg, .. } | Kind::BooleanTest { arg, .. } => {
                self.walk(arg)?;
                Collation::None
            }
            Kind::Relabel { arg, .. } => self.walk(arg)?.of_result(expr.collation),
            Kind::Array(elements) => self.all(elements)?.of_result(expr.collation),
            Kind::Case { whens, default } => {
                let mut inner = Collation::None;
                for (condition, value) in whens {
                    self.walk(condition)?;
                    inner = inner.merge(self.walk(value)?);
                }
                if let Some(default) = default {
                    inner = inner.merge(self.walk(default)?);
                }
                inner.of_result(expr.collation)
            }
            Kind::Subscript {
                container,
                upper,
                lower,
            } => {
                for bound in upper.iter().chain(lower).flatten() {
                    self.walk(bound)?;
                }
                self.walk(container)?.of_result(expr.collation)
            }
        })
    }

    fn routine(&self, routine: &Routine, args: &[Expr], input_collation: Oid) -> Option<Collation> {
        if !routine.immutable
            || !self.has(routine.oid, routine.extension)
            || LOCAL_FUNCTIONS.contains(&routine.oid)
        {
            return None;
        }
        let collation = self.all(args)?;
        collation.serves(input_collation).then_some(collation)
    }

    fn all(&self, exprs: &[Expr]) -> Option<Collation> {
        exprs.iter().try_fold(Collation::None, |collation, expr| {
            Some(collation.merge(self.walk(expr)?))
        })
    }

    /// Is the object, of an extension or none, on the shard as well?
    pub fn has(&self, object: Oid, extension: Oid) -> bool {
        object < FIRST_GENBKI_OBJECT_ID || (extension != 0 && self.extensions.contains(&extension))
    }

    fn has_type(&self, of: &TypeRef) -> bool {
        self.has(of.oid, of.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::sample::*;

    fn need(expr: &Expr) -> LocaleNeed {
        locale_need(expr, |collation| collation != 12_346)
    }

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
    fn what_the_catalog_calls_immutable_though_settings_matter_stays() {
        for oid in LOCAL_FUNCTIONS {
            let mut own = operator("=", column(1, TEXT), literal(TEXT, "x"));
            assert!(ships(&own));
            routine_of(&mut own).oid = oid;
            assert!(!ships(&own));
        }
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
    fn what_looks_at_letters_or_order_depends_on_the_locale() {
        let name = || column(1, TEXT);
        let text = || literal(TEXT, "x");
        for sign in ["=", "<>", "~~", "||"] {
            assert_eq!(
                need(&operator(sign, name(), text())),
                LocaleNeed::Nothing,
                "{sign}"
            );
        }
        for sign in ["<", ">=", "~~*", "~", "!~*", "~<~"] {
            assert_eq!(
                need(&operator(sign, name(), text())),
                LocaleNeed::Database,
                "{sign}"
            );
        }
        let equals = |function: &str| operator("=", call(function, vec![name()], TEXT), text());
        for function in [
            "lower",
            "initcap",
            "casefold",
            "to_tsvector",
            "of_the_future",
        ] {
            assert_eq!(need(&equals(function)), LocaleNeed::Database, "{function}");
        }
        assert_eq!(need(&equals("md5")), LocaleNeed::Encoding);
        for function in ["btrim", "reverse", "length"] {
            assert_eq!(need(&equals(function)), LocaleNeed::Nothing, "{function}");
        }
        assert_eq!(
            need(&operator("<", column(1, INT4), literal(INT4, "5"))),
            LocaleNeed::Nothing
        );
    }

    #[test]
    fn what_extensions_have_made_may_depend_on_the_locale() {
        let mut own = operator("=", column(1, INT4), literal(INT4, "5"));
        assert_eq!(need(&own), LocaleNeed::Nothing);
        routine_of(&mut own).oid = 20_000;
        assert_eq!(need(&own), LocaleNeed::Database);
        let mut declared = operator("=", column(1, TEXT), literal(TEXT, "x"));
        set_input_collation(&mut declared, 950);
        routine_of(&mut declared).oid = 20_000;
        assert_eq!(need(&declared), LocaleNeed::Database);
        set_input_collation(&mut declared, 12_345);
        assert_eq!(need(&declared), LocaleNeed::Collation);
    }

    #[test]
    fn a_collation_of_bytes_depends_on_no_locale_but_on_the_encoding() {
        let mut declared = operator("<", column(1, TEXT), literal(TEXT, "x"));
        for plain in PLAIN_COLLATIONS {
            set_input_collation(&mut declared, plain);
            assert_eq!(need(&declared), LocaleNeed::Encoding);
            let mut equal = operator("=", column(1, TEXT), literal(TEXT, "x"));
            set_input_collation(&mut equal, plain);
            assert_eq!(need(&equal), LocaleNeed::Nothing);
        }
        set_input_collation(&mut declared, 12_345);
        assert_eq!(need(&declared), LocaleNeed::Collation);
        let mut equal = operator("=", column(1, TEXT), literal(TEXT, "x"));
        set_input_collation(&mut equal, 12_345);
        assert_eq!(need(&equal), LocaleNeed::Nothing);
        set_input_collation(&mut equal, 12_346);
        assert_eq!(need(&equal), LocaleNeed::Collation);
        let mut digest = call("md5", vec![column(1, TEXT)], TEXT);
        if let Kind::Call {
            input_collation, ..
        } = &mut digest.kind
        {
            *input_collation = 950;
        }
        assert_eq!(need(&digest), LocaleNeed::Encoding);
        let of_lexemes = |sign| need(&operator(sign, column(1, TSVECTOR), literal(TSVECTOR, "x")));
        assert_eq!(of_lexemes("<"), LocaleNeed::Encoding);
        assert_eq!(of_lexemes("="), LocaleNeed::Nothing);
        let list = |function| need(&call(function, vec![column(1, TSVECTOR)], INT4));
        assert_eq!(list("tsvector_to_array"), LocaleNeed::Encoding);
        assert_eq!(list("length"), LocaleNeed::Nothing);
    }

    #[test]
    fn json_has_strings_too() {
        let json = |sign| need(&operator(sign, column(1, JSONB), literal(JSONB, "{}")));
        assert_eq!(json("="), LocaleNeed::Nothing);
        assert_eq!(json("@>"), LocaleNeed::Nothing);
        assert_eq!(json("<"), LocaleNeed::Database);
        assert_eq!(json("@?"), LocaleNeed::Database);
        for name in ["jsonb_path_exists", "jsonb_hash"] {
            let function = call(name, vec![column(1, JSONB)], BOOL);
            assert_eq!(need(&function), LocaleNeed::Database, "{name}");
        }
    }

    #[test]
    fn a_function_of_an_extension_is_not_one_of_the_same_name() {
        let mut own = operator("=", column(1, TEXT), literal(TEXT, "x"));
        routine_of(&mut own).oid = 20_000;
        assert_eq!(need(&own), LocaleNeed::Database);
    }

    #[test]
    fn substrings_by_pattern_depend_on_the_locale() {
        let by = |argument| need(&call("substring", vec![column(1, TEXT), argument], TEXT));
        assert_eq!(by(literal(INT4, "2")), LocaleNeed::Nothing);
        assert_eq!(by(literal(TEXT, "o")), LocaleNeed::Database);
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
        let mut role = class(BOOTSTRAP_SUPERUSER);
        role.result.oid = REGROLE;
        assert!(!ships(&role));
        let mut other = class(4000);
        other.result.oid = REGROLE;
        assert!(ships(&other));
    }

    #[test]
    fn what_looks_into_its_own_database_stays() {
        let mut call = call("satisfies_hash_partition", vec![column(1, INT4)], BOOL);
        assert!(ships(&call));
        if let Kind::Call { function, .. } = &mut call.kind {
            function.oid = 5028;
        }
        assert!(!ships(&call));
    }

    #[test]
    fn distinct_needs_an_operator_that_is_found_without_its_schema() {
        let shipping = Shipping {
            extensions: vec![17_000],
        };
        let distinct = |schema| Expr {
            kind: Kind::Distinct {
                operator: Routine {
                    extension: 17_000,
                    oid: 20_000,
                    ..routine(schema, "=")
                },
                args: vec![column(1, INT4), column(2, INT4)],
                input_collation: 0,
            },
            result: type_of(BOOL),
            collation: 0,
        };
        assert!(shipping.allows(&distinct("pg_catalog")));
        assert!(!shipping.allows(&distinct("public")));
    }
}
