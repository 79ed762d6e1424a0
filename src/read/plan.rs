//! What planning a scan decides, and how it travels to the executor.

use crate::model::error::{FdwError, Result};
use crate::model::expr::{Expr, Given, Kind, Source};
use crate::model::locale::DatabaseLocale;
use crate::model::option::{Isolation, ServerOptions};
use crate::model::sql::Sql;
use crate::model::statement::{self, RowLock, Sample, SortKey};
use crate::model::table::RemoteTable;
use crate::pg::keyhash::is_deterministic;
use crate::pg::list::{Item, Items};
use crate::pg::{catalog, extension, locale};
use crate::pq::conninfo;
use crate::read::deparse::Printer;
use crate::read::lock::Locking;
use crate::read::ship::{self, LocaleNeed, Shipping};
use crate::remote::cache;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// Why the shard does not get something that depends on the locale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocaleReason {
    Differs,
    Unknown,
}

impl LocaleReason {
    /// For EXPLAIN.
    pub fn describe(self) -> &'static str {
        match self {
            LocaleReason::Differs => {
                "what depends on the locale, which is another one on the server"
            }
            LocaleReason::Unknown => "what depends on the locale, which is not known of the server",
        }
    }

    fn number(reason: Option<LocaleReason>) -> i32 {
        match reason {
            None => 0,
            Some(LocaleReason::Differs) => 1,
            Some(LocaleReason::Unknown) => 2,
        }
    }

    fn from_number(number: i32) -> Option<LocaleReason> {
        match number {
            1 => Some(LocaleReason::Differs),
            2 => Some(LocaleReason::Unknown),
            _ => None,
        }
    }
}

/// Does the shard's database treat text as this one does?
enum Locale {
    /// This is the one that both have.
    Same(Rc<DatabaseLocale>),
    /// Both have the encoding of this one.
    OtherOfEncoding(Rc<DatabaseLocale>, LocaleReason),
    Other(LocaleReason),
}

fn locale_of(server: Oid, user: Oid) -> Locale {
    match (cache::database_locale(server, user), locale::of_database()) {
        (Some(there), Some(here)) => compare(there, &here),
        _ => Locale::Other(LocaleReason::Unknown),
    }
}

fn compare(there: Rc<DatabaseLocale>, here: &DatabaseLocale) -> Locale {
    let reason = match there.is_comparable(here) {
        true => LocaleReason::Differs,
        false => LocaleReason::Unknown,
    };
    if there.is_same(here) {
        Locale::Same(there)
    } else if there.encoding() == here.encoding() {
        Locale::OtherOfEncoding(there, reason)
    } else {
        Locale::Other(LocaleReason::Differs)
    }
}

/// Which conditions the shards of a server may get, and what reading from them costs.
pub struct Policy {
    shipping: Shipping,
    /// Of the shard; found out when something depends on it.
    locale: OnceCell<Locale>,
    find_locale: Box<dyn Fn() -> Locale>,
    is_deterministic: fn(u32) -> bool,
    /// Why something has been kept here.
    locale_reason: Cell<Option<LocaleReason>>,
    startup_cost: f64,
    tuple_cost: f64,
    /// The statement also writes to foreign tables. Then a scan's text must not depend on the running plan, because
    /// a rescan has to show the rows that were there when the statement began.
    pub writes: bool,
    /// Do all remote statements of a transaction see the same snapshot, whatever the local isolation level?
    pub has_one_snapshot: bool,
}

impl Policy {
    /// `user`: whose user mapping is used.
    pub fn new(server: &catalog::Server, user: Oid, writes: bool) -> Result<Policy> {
        let libpq = conninfo::options().map_err(|error| {
            FdwError::internal(String::from_utf8_lossy(&error.message).into_owned())
        })?;
        let options = ServerOptions::new(&server.options, libpq)?;
        let server = server.oid;
        let mut extensions = Vec::new();
        for name in &options.extensions {
            extensions.extend(extension::oid(name)?.map(|oid| oid.to_u32()));
        }
        Ok(Policy {
            shipping: Shipping { extensions },
            locale: OnceCell::new(),
            find_locale: Box::new(move || locale_of(server, user)),
            is_deterministic: |collation| is_deterministic(collation.into()),
            locale_reason: Cell::new(None),
            startup_cost: options.fdw_startup_cost,
            tuple_cost: options.fdw_tuple_cost,
            writes,
            has_one_snapshot: options.isolation == Isolation::RepeatableRead,
        })
    }

    /// Does membership in an extension matter?
    pub fn has_extensions(&self) -> bool {
        !self.shipping.extensions.is_empty()
    }

    /// Does the shard have the function: is it built in, or of an extension that it has?
    pub fn has_routine(&self, function: Oid) -> bool {
        let extension = extension::of_function(function).to_u32();
        self.shipping.has(function.to_u32(), extension)
    }

    /// May the condition be sent?
    pub fn allows(&self, condition: &Expr) -> bool {
        let depends_on_plan = |expr: &Expr| {
            matches!(
                expr.kind,
                Kind::Param {
                    source: Source::Exec | Source::Outer,
                    ..
                }
            )
        };
        self.shipping.allows(condition)
            && !(self.writes && condition.any(&depends_on_plan))
            && self.means_the_same(condition)
    }

    /// Does it depend on no locale, or on one that both sides have? The first time that this matters, a connection is made.
    fn means_the_same(&self, expr: &Expr) -> bool {
        let reason = match ship::locale_need(expr, self.is_deterministic) {
            LocaleNeed::Nothing => return true,
            LocaleNeed::Collation => LocaleReason::Unknown,
            need => match self.locale() {
                Locale::Same(_) => return true,
                Locale::OtherOfEncoding(..) if need == LocaleNeed::Encoding => return true,
                Locale::OtherOfEncoding(_, reason) | Locale::Other(reason) => *reason,
            },
        };
        self.locale_reason.set(Some(reason));
        false
    }

    fn locale(&self) -> &Locale {
        self.locale.get_or_init(&self.find_locale)
    }

    /// What a plan that sends these expressions relies on, if it relies on the locale or the encoding of the shard's database.
    pub fn relied_on<'a>(&self, exprs: impl Iterator<Item = &'a Expr>) -> Vec<u8> {
        let Some(Locale::Same(locale) | Locale::OtherOfEncoding(locale, _)) = self.locale.get()
        else {
            return Vec::new();
        };
        let needs = exprs.map(|expr| ship::locale_need(expr, self.is_deterministic));
        match needs.max() {
            None | Some(LocaleNeed::Nothing) => Vec::new(),
            Some(LocaleNeed::Encoding) => locale.encoding().into(),
            Some(LocaleNeed::Database | LocaleNeed::Collation) => locale.to_string().into(),
        }
    }

    /// Why something that a shard could judge has been kept here, if something has.
    pub fn locale_reason(&self) -> Option<LocaleReason> {
        self.locale_reason.get()
    }

    /// May the expression be part of an UPDATE or DELETE that the shard does whole? `is_known` says of a parameter of the
    /// running plan, by its number in the conversion, whether its value is there when the statement is sent, and stays.
    pub fn allows_whole(&self, expr: &Expr, is_known: &dyn Fn(usize) -> bool) -> bool {
        let is_unknown = |expr: &Expr| match expr.kind {
            Kind::Param { index, source } => match source {
                Source::Extern => false,
                Source::Exec => !is_known(index),
                Source::Outer => true,
            },
            _ => false,
        };
        self.shipping.allows(expr) && !expr.any(&is_unknown) && self.means_the_same(expr)
    }

    /// Startup and total cost of reading `retrieved` of a table's rows, by postgres_fdw's rule for scans without a
    /// remote estimate. `local` is what the same scan of a local table would cost.
    pub fn cost(&self, local: LocalCost, retrieved: f64) -> (f64, f64) {
        let startup = local.startup + self.startup_cost;
        let total =
            startup + local.run + self.tuple_cost * retrieved + local.cpu_tuple_cost * retrieved;
        (startup, total)
    }
}

/// Costs of a scan as if the table were here.
#[derive(Debug, Clone, Copy)]
pub struct LocalCost {
    pub startup: f64,
    pub run: f64,
    pub cpu_tuple_cost: f64,
}

/// Which rows the statement of a scan asks for, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    pub sample: Option<&'a Sampling>,
    pub conditions: &'a [Expr],
    pub order: &'a [SortKey<Expr>],
    pub lock: Option<RowLock>,
}

impl Selection<'_> {
    /// The statement, and the values of its parameters.
    fn print(
        self,
        table: &RemoteTable,
        columns: &[i16],
        mut printer: Printer<'_>,
    ) -> (Sql, Vec<Given>) {
        let Selection {
            sample,
            conditions,
            order,
            lock,
        } = self;
        let texts: Vec<Sql> = conditions
            .iter()
            .map(|condition| printer.condition(condition))
            .collect();
        let keys: Vec<SortKey<Sql>> = order
            .iter()
            .map(|key| SortKey {
                expr: printer.condition(&key.expr),
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
            .collect();
        let seeded = sample.is_some_and(Sampling::wants_seed);
        let clause = sample.map(|Sampling { clause, .. }| Sample {
            schema: clause.schema.clone(),
            method: clause.method.clone(),
            args: clause
                .args
                .iter()
                .map(|arg| printer.condition(arg))
                .collect(),
            seed: match &clause.seed {
                None if seeded => Some(printer.added(b"double precision")),
                seed => seed.as_ref().map(|seed| printer.condition(seed)),
            },
        });
        let sql = statement::select(table, columns, clause.as_ref(), &texts, &keys, lock);
        (sql, printer.into_params())
    }
}

/// The sample that is taken of a table.
#[derive(Debug, Clone)]
pub struct Sampling {
    pub clause: Sample<Expr>,
    /// Can the method take the same sample again, told a seed?
    pub is_repeatable: bool,
}

impl Sampling {
    /// Does each execution choose a seed of its own, so that all passes of one see the same sample?
    fn wants_seed(&self) -> bool {
        self.is_repeatable && self.clause.seed.is_none()
    }

    fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.clause.args.iter().chain(&self.clause.seed)
    }
}

/// So many parameters can a statement have: the protocol counts them in 16 bits.
const MOST_PARAMETERS: usize = u16::MAX as usize;

/// A foreign scan as the plan holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanPlan {
    /// For people.
    pub sql: Sql,
    /// For the shard: the same, with parameters in place of constants.
    pub sent: Sql,
    /// Numbers of the columns of the rows that arrive.
    pub columns: Vec<i16>,
    /// Rows a fetch.
    pub fetch_size: u32,
    /// The parameters depend on the running plan: they are known at the first fetch, and change between rescans.
    pub deferred: bool,
    /// A rescan must show the rows of the first pass.
    pub replay: bool,
    /// The last parameter is the seed of a sample, which no expression of the plan gives.
    pub seeded: bool,
    /// The shard may fetch the next rows while the last ones are used: most probably all will be wanted.
    pub ahead: bool,
    /// The shard's locale that the text relies on; empty if it does not.
    pub locale: Vec<u8>,
    /// Why something is not sent.
    pub locale_reason: Option<LocaleReason>,
    /// Where rows are locked, if a locking clause asks for it.
    pub locking: Option<Locking>,
}

impl ScanPlan {
    /// The plan, and the parameters of what is sent.
    pub fn new(
        table: &RemoteTable,
        columns: Vec<i16>,
        selection: Selection<'_>,
        fetch_size: u32,
        replay: bool,
        ahead: bool,
    ) -> (ScanPlan, Vec<Given>) {
        let Selection {
            sample,
            conditions,
            order,
            ..
        } = selection;
        let seeded = sample.is_some_and(Sampling::wants_seed);
        let (sql, few) = selection.print(table, &columns, Printer::new(table));
        let (sent, many) = selection.print(table, &columns, Printer::parameterizing(table));
        let (sent, params) = match many.len() + usize::from(seeded) <= MOST_PARAMETERS {
            true => (sent, many),
            false => (sql.clone(), few),
        };
        let mut exprs = conditions
            .iter()
            .chain(order.iter().map(|key| &key.expr))
            .chain(sample.into_iter().flat_map(Sampling::exprs));
        let deferred = exprs.any(|expr| {
            expr.any(
                &|expr| matches!(expr.kind, Kind::Param { source, .. } if source != Source::Extern),
            )
        });
        let plan = ScanPlan {
            sql,
            sent,
            columns,
            fetch_size,
            deferred,
            replay: replay || sample.is_some_and(|sample| !sample.is_repeatable),
            seeded,
            ahead,
            locale: Vec::new(),
            locale_reason: None,
            locking: None,
        };
        (plan, params)
    }

    pub fn to_items(&self) -> Vec<Item> {
        let mut items = vec![
            Item::Text(self.sql.as_bytes().to_vec()),
            Item::Text(self.sent.as_bytes().to_vec()),
            Item::Ints(self.columns.iter().copied().map(i32::from).collect()),
            Item::Int(self.fetch_size as i32),
            Item::Int(i32::from(self.deferred)),
            Item::Int(i32::from(self.replay)),
            Item::Int(i32::from(self.seeded)),
            Item::Int(i32::from(self.ahead)),
            Item::Text(self.locale.clone()),
            Item::Int(LocaleReason::number(self.locale_reason)),
        ];
        items.extend(Locking::to_items(self.locking.as_ref()));
        items
    }

    pub fn from_items(items: Vec<Item>) -> Result<ScanPlan> {
        let mut items = Items::new(items);
        let plan = ScanPlan {
            sql: items.text()?.into(),
            sent: items.text()?.into(),
            columns: items.columns()?,
            fetch_size: items.int()? as u32,
            deferred: items.int()? != 0,
            replay: items.int()? != 0,
            seeded: items.int()? != 0,
            ahead: items.int()? != 0,
            locale: items.text()?,
            locale_reason: LocaleReason::from_number(items.int()?),
            locking: Locking::from_items(&mut items)?,
        };
        items.finish()?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::locale::Facts;
    use crate::model::statement::{LockStrength, LockWait};
    use crate::model::table::{RemoteColumn, CTID};
    use crate::read::sample::*;
    use std::num::NonZeroU32;

    fn table() -> RemoteTable {
        RemoteTable {
            schema: b"s".to_vec(),
            name: b"t".to_vec(),
            columns: vec![RemoteColumn {
                attnum: 1,
                name: b"a".to_vec(),
                generated: false,
            }],
        }
    }

    fn policy(writes: bool) -> Policy {
        Policy {
            shipping: Shipping::default(),
            locale: OnceCell::new(),
            find_locale: Box::new(|| Locale::Other(LocaleReason::Unknown)),
            is_deterministic: |_| true,
            locale_reason: Cell::new(None),
            startup_cost: 100.0,
            tuple_cost: 0.2,
            writes,
            has_one_snapshot: true,
        }
    }

    #[test]
    fn a_plan_survives_its_list() {
        let condition = operator("=", column(1, INT4), param(3, INT4));
        let order = [SortKey {
            expr: column(1, INT4),
            descending: true,
            nulls_first: false,
        }];
        let lock = RowLock {
            strength: LockStrength::Update,
            wait: LockWait::Block,
        };
        let (mut plan, params) = ScanPlan::new(
            &table(),
            vec![1, CTID],
            Selection {
                sample: None,
                conditions: &[condition],
                order: &order,
                lock: Some(lock),
            },
            50,
            true,
            true,
        );
        assert_eq!(params, [Given::Converted(3)]);
        assert!(!plan.deferred);
        assert_eq!(
            plan.sql.to_string(),
            r#"SELECT "a", ctid FROM "s"."t" WHERE (("a" = $1::integer)) ORDER BY "a" DESC NULLS LAST FOR UPDATE"#
        );
        assert_eq!(plan.sent, plan.sql);
        assert_eq!(ScanPlan::from_items(plan.to_items()).unwrap(), plan);
        plan.locale = b"UTF8 c".to_vec();
        plan.locale_reason = Some(LocaleReason::Unknown);
        for locking in [
            Locking::Scan { most: None },
            Locking::Scan {
                most: NonZeroU32::new(7),
            },
            Locking::ScanForLackOfLocators,
            Locking::row(&table(), vec![1], lock),
        ] {
            plan.locking = Some(locking);
            assert_eq!(ScanPlan::from_items(plan.to_items()).unwrap(), plan);
        }
        let mut short = plan.to_items();
        short.pop();
        assert!(ScanPlan::from_items(short).is_err());
    }

    #[test]
    fn a_sample_without_a_seed_gets_one_with_each_execution() {
        let planned = |seed: Option<Expr>, is_repeatable| {
            let sampling = Sampling {
                clause: Sample {
                    schema: b"s".to_vec(),
                    method: b"m".to_vec(),
                    args: vec![param(1, FLOAT8)],
                    seed,
                },
                is_repeatable,
            };
            let condition = operator("=", column(1, INT4), param(3, INT4));
            let selection = Selection {
                sample: Some(&sampling),
                conditions: &[condition],
                ..Selection::default()
            };
            let (plan, params) = ScanPlan::new(&table(), vec![1], selection, 50, false, false);
            assert_eq!(ScanPlan::from_items(plan.to_items()).unwrap(), plan);
            let sql = plan.sql.to_string();
            let (_, sample) = sql.split_once("TABLESAMPLE ").unwrap();
            let (sample, _) = sample.split_once(" WHERE").unwrap();
            (sample.to_owned(), params, plan.seeded, plan.replay)
        };
        let given = |indexes: [usize; 2]| indexes.map(Given::Converted).to_vec();
        assert_eq!(
            planned(None, true),
            (
                r#""s"."m" ($2::double precision) REPEATABLE ($3::double precision)"#.into(),
                given([3, 1]),
                true,
                false
            )
        );
        assert_eq!(
            planned(Some(literal(FLOAT8, "7")), true),
            (
                r#""s"."m" ($2::double precision) REPEATABLE ('7'::double precision)"#.into(),
                vec![
                    Given::Converted(3),
                    Given::Converted(1),
                    Given::Constant(b"7".to_vec()),
                ],
                false,
                false
            )
        );
        assert_eq!(
            planned(None, false),
            (
                r#""s"."m" ($2::double precision)"#.into(),
                given([3, 1]),
                false,
                true
            )
        );
    }

    #[test]
    fn values_of_the_running_plan_are_not_sent_beside_writes() {
        let mut value = param(0, INT4);
        value.kind = Kind::Param {
            index: 0,
            source: Source::Exec,
        };
        let condition = operator("=", column(1, INT4), value);
        assert!(policy(false).allows(&condition));
        assert!(!policy(true).allows(&condition));
        assert!(policy(true).allows(&operator("=", column(1, INT4), param(0, INT4))));
        assert!(policy(true).allows_whole(&condition, &|index| index == 0));
        assert!(!policy(true).allows_whole(&condition, &|_| false));
        let (plan, _) = ScanPlan::new(
            &table(),
            vec![],
            Selection {
                sample: None,
                conditions: &[condition],
                ..Selection::default()
            },
            1,
            false,
            false,
        );
        assert!(plan.deferred);
    }

    #[test]
    fn what_depends_on_the_locale_is_sent_where_it_is_the_same() {
        let lower = call("lower", vec![column(1, TEXT)], TEXT);
        let by_case = operator("=", lower, literal(TEXT, "x"));
        let by_value = operator("=", column(1, TEXT), literal(TEXT, "x"));
        let mut by_bytes = operator("<", column(1, TEXT), literal(TEXT, "x"));
        args_of(&mut by_bytes)[0].collation = 950;
        set_input_collation(&mut by_bytes, 950);
        let with = |locale| {
            let policy = policy(false);
            let _ = policy.locale.set(locale);
            policy
        };
        let utf8 = || {
            let locale = |server_version| Facts {
                encoding: b"UTF8",
                provider: b"b",
                collate: b"C",
                ctype: b"C",
                locale: Some(b"C"),
                server_version,
                ..Facts::default()
            };
            [170_000, 180_000].map(|version| Rc::new(DatabaseLocale::new(&locale(version))))
        };
        let [one, two] = utf8();
        let same = with(compare(one.clone(), &one));
        assert!(same.allows(&by_case) && same.allows_whole(&by_case, &|_| true));
        assert_eq!(
            same.relied_on([&by_value, &by_case, &by_bytes].into_iter()),
            one.to_string().as_bytes()
        );
        assert_eq!(same.relied_on([&by_bytes].into_iter()), b"UTF8");
        assert!(same.relied_on([&by_value].into_iter()).is_empty());
        assert_eq!(same.locale_reason(), None);
        // Where the encoding is the same, so is the order of bytes.
        for (locale, reason) in [
            (two, LocaleReason::Differs),
            (
                Rc::new(DatabaseLocale::with_encoding(b"UTF8")),
                LocaleReason::Unknown,
            ),
        ] {
            let other = with(compare(locale, &one));
            assert!(other.allows(&by_value) && other.allows(&by_bytes));
            assert_eq!(other.relied_on([&by_bytes].into_iter()), b"UTF8");
            assert_eq!(other.locale_reason(), None);
            assert!(!other.allows(&by_case));
            assert_eq!(other.locale_reason(), Some(reason));
        }
        let latin1 = Rc::new(DatabaseLocale::with_encoding(b"LATIN1"));
        let other = with(compare(latin1, &one));
        assert!(other.allows(&by_value));
        assert_eq!(other.locale_reason(), None);
        assert!(!other.allows(&by_bytes));
        assert!(!other.allows(&by_case) && !other.allows_whole(&by_case, &|_| true));
        assert_eq!(other.locale_reason(), Some(LocaleReason::Differs));
    }

    #[test]
    fn costs_follow_the_options() {
        let local = LocalCost {
            startup: 1.0,
            run: 10.0,
            cpu_tuple_cost: 0.01,
        };
        assert_eq!(policy(false).cost(local, 100.0), (101.0, 132.0));
    }
}
