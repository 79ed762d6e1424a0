//! Expressions drawn at random from the catalogs, the same on a local and on a foreign table with the same rows: operators,
//! functions and casts over all built-in types, mixed on purpose, with columns, constants and parameters, as conditions and
//! as new values.
//!
//! `SEED=n` repeats a run, `STATEMENTS=n` says how long it is, LONG=1 means 10,000. Each expression has a seed of its own, which
//! a difference names.

use crate::common::{Reply, Simple};
use crate::driver::{Databases, Kind, WAYS};
use crate::literals::{arrays, BASE, MODIFIED, RANGES};
use crate::random::Dice;
use crate::trees::{length, number};
use std::collections::{BTreeMap, HashMap};

/// What a test of ordinary length runs.
const SHARE: u64 = 500;
const ROWS: u64 = 13;

/// Domains, by what they are over: constants of these are mixed in.
const DOMAINS: &[(&str, &str)] = &[
    ("padded", "char(6)"),
    ("word", "text CHECK (value <> 'no')"),
    ("amount", "numeric(8,2)"),
];

/// Functions and operators that make much of a little, or take long; and `circle`, which makes negative radiuses, whose text
/// PostgreSQL does not read.
const LEFT_OUT: &[&str] = &[
    "repeat",
    "lpad",
    "rpad",
    "array_fill",
    "factorial",
    "exp",
    "numeric_exp",
    "power",
    "pow",
    "numeric_power",
    "^",
    "circle",
];

/// Parts of the names of functions of which only the sign means something: the number is what a library has made it.
const SIGNS: &[&str] = &["cmp", "compare"];

/// Types whose text may stand for several values, which PostgreSQL does not read: nothing is cast to them.
const AMBIGUOUS: &[&str] = &["regproc", "regoper"];

/// A value that has no text form in PostgreSQL 15.
const HIGH_BYTE: &str = "(-56)::\"char\"";

/// Values too long to compute with, and one whose output function leaves something out.
const LEFT_OUT_VALUES: &[&str] = &[
    "1e131071",
    "1e-16383",
    "<?xml version=\"1.0\"?><a b=\"c\">d &amp; \u{e9}</a>",
];

/// Element types whose arrays are columns, too.
const ARRAY_COLUMNS: &[&str] = &[
    "int2", "int4", "int8", "float8", "numeric", "text", "varchar", "bpchar", "date", "name",
    "bool", "jsonb",
];

struct Type {
    /// As in a cast.
    name: String,
    values: Vec<String>,
    columns: Vec<Column>,
    array: u32,
}

struct Column {
    name: String,
    /// Its type with a modifier.
    declared: String,
    values: Vec<String>,
}

/// An operator has a name of other letters than a function.
struct Routine {
    name: String,
    args: Vec<u32>,
}

#[derive(Default)]
struct Catalog {
    types: BTreeMap<u32, Type>,
    operators: Vec<Routine>,
    functions: Vec<Routine>,
    /// Types that can be cast to one: without being asked, and at all.
    implicit: HashMap<u32, Vec<u32>>,
    explicit: HashMap<u32, Vec<u32>>,
    /// Range and multirange of a type.
    ranges: BTreeMap<u32, (u32, u32)>,
    domains: HashMap<u32, Vec<String>>,
}

fn quoted(name: &str) -> String {
    match name {
        "char" | "bit" => format!("\"{name}\""),
        _ => name.to_string(),
    }
}

fn literal(value: &str) -> String {
    format!("$lit${value}$lit$")
}

fn oid(text: &Option<String>) -> u32 {
    text.as_deref().unwrap_or_default().parse().expect("an OID")
}

fn oids(text: &Option<String>) -> Vec<u32> {
    let text = text.as_deref().unwrap_or_default();
    text.split_whitespace()
        .map(|oid| oid.parse().expect("an OID"))
        .collect()
}

impl Catalog {
    fn read(client: &mut Simple) -> Catalog {
        let mut catalog = Catalog::default();
        let has_xml = client.run("SELECT '<a/>'::xml").error.is_none();
        let lists = [BASE, MODIFIED, RANGES];
        for (name, values) in lists
            .into_iter()
            .flatten()
            .filter(|(name, _)| has_xml || *name != "xml")
        {
            let facts = client
                .run(&format!(
                    "SELECT t.oid, t.typarray, t.typdelim, a.typname FROM pg_type t JOIN pg_type a ON a.oid = t.typarray \
                     WHERE t.oid = '{}'::regtype",
                    quoted(name)
                ))
                .rows()[0]
                .clone();
            let values: Vec<String> = values
                .iter()
                .filter(|value| !LEFT_OUT_VALUES.contains(value))
                .map(ToString::to_string)
                .collect();
            let element = oid(&facts[0]);
            let column = format!("c{}", catalog.column_count());
            let array = oid(&facts[1]);
            let known = catalog.types.entry(element).or_insert_with(|| Type {
                name: quoted(name),
                values: Vec::new(),
                columns: Vec::new(),
                array,
            });
            known.columns.push(Column {
                name: column.clone(),
                declared: quoted(name),
                values: values.clone(),
            });
            if !known.values.is_empty() {
                continue;
            }
            known.values.clone_from(&values);
            let delimiter = facts[2]
                .as_deref()
                .and_then(|d| d.chars().next())
                .expect("a delimiter");
            let plain: Vec<&str> = values.iter().map(String::as_str).collect();
            let columns = match ARRAY_COLUMNS.contains(name) {
                true => vec![Column {
                    name: format!("{column}a"),
                    declared: format!("{}[]", quoted(name)),
                    values: arrays(&plain, delimiter),
                }],
                false => Vec::new(),
            };
            catalog.types.insert(
                array,
                Type {
                    name: format!("{}[]", quoted(name)),
                    values: arrays(&plain, delimiter),
                    columns,
                    array: 0,
                },
            );
        }
        for row in client
            .run("SELECT castsource, casttarget, castcontext = 'i' FROM pg_cast ORDER BY oid")
            .rows()
        {
            let (source, target) = (oid(&row[0]), oid(&row[1]));
            let is_ambiguous = |this: &Type| AMBIGUOUS.contains(&this.name.as_str());
            if catalog.types.get(&target).is_some_and(is_ambiguous) {
                continue;
            }
            if source != target && catalog.types.contains_key(&source) {
                let lists = [
                    Some(&mut catalog.explicit),
                    (row[2].as_deref() == Some("t")).then_some(&mut catalog.implicit),
                ];
                for list in lists.into_iter().flatten() {
                    list.entry(target).or_default().push(source);
                }
            }
        }
        for row in client
            .run("SELECT rngsubtype, rngtypid, rngmultitypid FROM pg_range")
            .rows()
        {
            catalog
                .ranges
                .insert(oid(&row[0]), (oid(&row[1]), oid(&row[2])));
        }
        for (name, over) in DOMAINS {
            client
                .run(&format!("CREATE DOMAIN {name} AS {over}"))
                .expect_ok();
            let base = client.value(&format!(
                "SELECT typbasetype FROM pg_type WHERE oid = '{name}'::regtype"
            ));
            catalog
                .domains
                .entry(base.parse().expect("an OID"))
                .or_default()
                .push((*name).to_string());
        }
        let known = |args: &[u32], catalog: &Catalog| {
            args.iter()
                .all(|arg| catalog.types.contains_key(arg) || POLYMORPHIC.contains(arg))
        };
        let operators = client
            .run(
                "SELECT oprname, concat_ws(' ', nullif(oprleft, 0), oprright) FROM pg_operator o JOIN pg_proc p ON p.oid = oprcode \
                 WHERE oprnamespace = 'pg_catalog'::regnamespace AND provolatile = 'i' ORDER BY o.oid",
            );
        let functions = client.run(
            "SELECT proname, proargtypes FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND provolatile = 'i' \
             AND prokind = 'f' AND NOT proretset AND pronargs BETWEEN 1 AND 4 AND proname !~ '^(pg_|binary_)' \
             AND prorettype NOT IN ('internal'::regtype, 'cstring'::regtype, 'void'::regtype, 'trigger'::regtype) ORDER BY oid",
        );
        for (reply, list) in [(&operators, &mut Vec::new()), (&functions, &mut Vec::new())] {
            let routines = reply.rows().iter().map(|row| Routine {
                name: row[0].clone().unwrap_or_default(),
                args: oids(&row[1]),
            });
            list.extend(routines.filter(|routine| {
                known(&routine.args, &catalog)
                    && !SIGNS.iter().any(|part| routine.name.contains(part))
                    && !LEFT_OUT.contains(&routine.name.as_str())
            }));
            match catalog.operators.is_empty() {
                true => catalog.operators.append(list),
                false => catalog.functions.append(list),
            }
        }
        catalog
    }

    fn column_count(&self) -> usize {
        self.types.values().map(|this| this.columns.len()).sum()
    }

    /// All columns, each with its type.
    fn columns(&self) -> impl Iterator<Item = (&Column, &Type)> {
        self.types
            .values()
            .flat_map(|this| this.columns.iter().map(move |column| (column, this)))
    }
}

/// anyelement, anyarray, anynonarray, anyrange, anymultirange, and the same of anycompatible.
const POLYMORPHIC: [u32; 10] = [2283, 2277, 2776, 3831, 4537, 5077, 5078, 5079, 5080, 4538];

/// Draws one statement.
struct Author<'a> {
    catalog: &'a Catalog,
    dice: Dice,
    /// Type and value of each parameter.
    params: Vec<(String, String)>,
    may_have_params: bool,
}

impl Author<'_> {
    fn pick<'x, T>(&mut self, list: &'x [T]) -> &'x T {
        &list[self.dice.below(list.len() as u64) as usize]
    }

    fn any_type(&mut self) -> u32 {
        let oids: Vec<u32> = self.catalog.types.keys().copied().collect();
        *self.pick(&oids)
    }

    /// A value of the type: a column, a constant or a parameter.
    fn leaf(&mut self, oid: u32) -> String {
        let catalog = self.catalog;
        let this = &catalog.types[&oid];
        let value = self.pick(&this.values).clone();
        match self.dice.below(10) {
            0..=5 if !this.columns.is_empty() => self.pick(&this.columns).name.clone(),
            6 if self.may_have_params => {
                self.params.push((this.name.clone(), value));
                format!("«{}»", self.params.len())
            }
            7 => literal(&value),
            8 => match catalog.domains.get(&oid) {
                Some(domains) => {
                    let domain = self.pick(domains);
                    format!("{}::{domain}", literal(&value))
                }
                None => format!("NULL::{}", this.name),
            },
            _ => format!("{}::{}", literal(&value), this.name),
        }
    }

    /// What may stand where a type is declared, often of another one that the parser casts.
    fn operand(&mut self, oid: u32, depth: u32) -> String {
        if depth > 0 && self.dice.one_in(6) {
            return self.expression(depth - 1);
        }
        let catalog = self.catalog;
        let source =
            |list: Option<&Vec<u32>>, author: &mut Self| list.map(|list| *author.pick(list));
        match self.dice.below(10) {
            0..=3 => {
                let source = source(catalog.implicit.get(&oid), self).unwrap_or(oid);
                self.leaf(source)
            }
            4 => match source(catalog.explicit.get(&oid), self) {
                Some(source) => format!("({})::{}", self.leaf(source), catalog.types[&oid].name),
                None => self.leaf(oid),
            },
            // As text it would be none that can be sent.
            5 if catalog.types[&oid].name == "\"char\"" => HIGH_BYTE.to_string(),
            _ => self.leaf(oid),
        }
    }

    /// Types for the polymorphic ones among these.
    fn concrete(&mut self, declared: &[u32]) -> Vec<u32> {
        let catalog = self.catalog;
        let wants_range = declared
            .iter()
            .any(|oid| [3831, 4537, 5080, 4538].contains(oid));
        let element = if wants_range {
            let subtypes: Vec<u32> = catalog.ranges.keys().copied().collect();
            *self.pick(&subtypes)
        } else {
            let elements: Vec<u32> = catalog
                .types
                .iter()
                .filter(|(_, this)| this.array != 0)
                .map(|(oid, _)| *oid)
                .collect();
            *self.pick(&elements)
        };
        let concrete = |oid: &u32| match oid {
            2283 | 2776 | 5077 | 5079 => element,
            2277 | 5078 => catalog.types[&element].array,
            3831 | 5080 => catalog.ranges[&element].0,
            4537 | 4538 => catalog.ranges[&element].1,
            oid => *oid,
        };
        declared.iter().map(concrete).collect()
    }

    fn expression(&mut self, depth: u32) -> String {
        let catalog = self.catalog;
        match self.dice.below(24) {
            0..=10 => {
                let operator = self.pick(&catalog.operators);
                let args = self.concrete(&operator.args);
                let mut args: Vec<String> =
                    args.iter().map(|oid| self.operand(*oid, depth)).collect();
                match args.pop() {
                    Some(right) => format!("({} {} {right})", args.concat(), operator.name),
                    None => String::new(),
                }
            }
            11..=14 => {
                let function = self.pick(&catalog.functions);
                let args = self.concrete(&function.args);
                let args: Vec<String> = args.iter().map(|oid| self.operand(*oid, depth)).collect();
                format!("\"{}\"({})", function.name, args.join(", "))
            }
            15 => {
                let targets: Vec<u32> = catalog
                    .explicit
                    .keys()
                    .copied()
                    .filter(|oid| catalog.types.contains_key(oid))
                    .collect();
                let target = *self.pick(&targets);
                let source = *self.pick(&catalog.explicit[&target]);
                let names = [
                    catalog.types[&target].name.as_str(),
                    "char(3)",
                    "varchar(2)",
                    "numeric(6,1)",
                    "bit(4)",
                    "timestamp(1)",
                ];
                let name = if self.dice.one_in(3) {
                    self.pick(&names)
                } else {
                    names[0]
                };
                format!("({})::{name}", self.operand(source, depth))
            }
            16..=20 => self.beside_a_cast(),
            _ => self.form(depth),
        }
    }

    /// A column that the parser casts, beside a constant or parameter: that one alone has decided for the operator.
    fn beside_a_cast(&mut self) -> String {
        let catalog = self.catalog;
        let has_columns = |oid: &u32| !catalog.types[oid].columns.is_empty();
        let pairs: Vec<(u32, u32)> = catalog
            .types
            .keys()
            .filter_map(|target| Some((target, catalog.implicit.get(target)?)))
            .flat_map(|(target, sources)| sources.iter().map(|source| (*source, *target)))
            .filter(|(source, _)| has_columns(source))
            .collect();
        let (source, target) = *self.pick(&pairs);
        let column = self.pick(&catalog.types[&source].columns).name.clone();
        let this = &catalog.types[&target];
        // Values of the column's type may be found, others show a lost type.
        let values = match self.dice.one_in(2) {
            true => &catalog.types[&source].values,
            false => &this.values,
        };
        let value = self.pick(values).clone();
        let value = if self.may_have_params {
            self.params.push((this.name.clone(), value));
            format!("«{}»", self.params.len())
        } else {
            format!("{}::{}", literal(&value), this.name)
        };
        let operators: Vec<&Routine> = catalog
            .operators
            .iter()
            .filter(|operator| operator.args == [target, target])
            .collect();
        let operator = match operators.is_empty() {
            true => "=",
            false => self.pick(&operators).name.as_str(),
        };
        match self.dice.one_in(2) {
            true => format!("({column} {operator} {value})"),
            false => format!("({value} {operator} {column})"),
        }
    }

    /// What has a syntax of its own.
    fn form(&mut self, depth: u32) -> String {
        let oid = self.any_type();
        let operand = |author: &mut Self| author.operand(oid, depth);
        let (a, b, c) = (operand(self), operand(self), operand(self));
        match self.dice.below(9) {
            0 => format!("({a} IS DISTINCT FROM {b})"),
            1 => format!("({a} IN ({b}, {c}))"),
            2 => format!("({a} <> ALL (ARRAY[{b}, {c}]))"),
            3 if self.catalog.types[&oid].array != 0 => {
                let array = self.operand(self.catalog.types[&oid].array, depth);
                format!("({a} = ANY ({array}))")
            }
            4 | 5 => {
                let result = self.any_type();
                let (one, two) = (self.operand(result, depth), self.operand(result, depth));
                format!("(CASE {a} WHEN {b} THEN {one} WHEN {c} THEN {two} ELSE {one} END)")
            }
            6 => format!("(CASE WHEN {a} = {b} THEN {c} ELSE {a} END)"),
            7 if self.catalog.types[&oid].array != 0 => {
                let array = self.leaf(self.catalog.types[&oid].array);
                format!("({array})[{}]", self.operand(20, 0))
            }
            _ => format!("({a} BETWEEN {b} AND {c})"),
        }
    }

    /// The text with the values of the parameters in their places.
    fn with_values(&self, text: &str) -> String {
        self.replaced(text, |_, (name, value)| {
            format!("{}::{name}", literal(value))
        })
    }

    fn with_params(&self, text: &str) -> String {
        self.replaced(text, |number, _| format!("${number}"))
    }

    fn replaced(&self, text: &str, by: impl Fn(usize, &(String, String)) -> String) -> String {
        let mut text = text.to_string();
        for (position, param) in self.params.iter().enumerate() {
            let number = position + 1;
            text = text.replace(&format!("«{number}»"), &by(number, param));
        }
        text
    }
}

/// What stands in a statement for the name of the table.
const TABLE: &str = "«table»";

/// A statement with [`TABLE`] in it; prepared first if it has parameters.
struct Drawn {
    prepare: Option<String>,
    sql: String,
    generic: bool,
}

impl Drawn {
    fn of(&self, table: &str) -> String {
        self.sql.replace(TABLE, table)
    }

    fn run(&self, client: &mut Simple, table: &str) -> std::result::Result<Vec<String>, String> {
        let answer = |reply: &Reply| match &reply.error {
            Some(error) => Err(error.sqlstate().to_string()),
            None => {
                let mut lines = reply.lines();
                lines.sort();
                Ok(lines)
            }
        };
        if let Some(prepare) = &self.prepare {
            client.run("DEALLOCATE ALL").expect_ok();
            answer(&client.run(&prepare.replace(TABLE, table)))?;
        }
        client.run("BEGIN").expect_ok();
        let reply = client.run(&self.of(table));
        client.run("ROLLBACK").expect_ok();
        answer(&reply)
    }
}

/// Draws until there is an expression that the parser takes; then a statement around it.
fn draw(author: &mut Author, client: &mut Simple) -> Option<Drawn> {
    let depth = u32::from(author.dice.one_in(4));
    author.params.clear();
    author.may_have_params = author.dice.one_in(3);
    let expr = author.expression(depth);
    let row = author.dice.below(ROWS);
    let probe = client.run(&format!(
        "SELECT pg_typeof(e.v), e.v::text FROM (SELECT {} AS v FROM l WHERE id = {row}) AS e",
        author.with_values(&expr)
    ));
    let failed = match &probe.error {
        Some(error) if error.sqlstate().starts_with("42") => return None,
        // Most values are extreme enough to fail somewhere.
        Some(_) if !author.dice.one_in(4) => return None,
        Some(_) => true,
        None => false,
    };
    let (name, value) = match failed {
        true => (String::new(), None),
        false => {
            let row = &probe.rows()[0];
            let name = row[0].clone().unwrap_or_default();
            let name = match name.trim_end_matches("[]") {
                "character" => name.replace("character", "bpchar"),
                "bit" => name.replace("bit", "\"bit\""),
                _ => name,
            };
            (name, row[1].clone())
        }
    };
    let condition = match &value {
        _ if name == "boolean" => expr.clone(),
        Some(value) => {
            let operator = author.pick(&["=", "=", "<>", "<", ">="]);
            let compared = format!("{expr} {operator} {}::{name}", literal(value));
            match client
                .run(&format!(
                    "SELECT {} FROM l WHERE false",
                    author.with_values(&compared)
                ))
                .error
            {
                None => compared,
                Some(_) => format!("{expr} IS NOT NULL"),
            }
        }
        None => format!("{expr} IS NOT NULL"),
    };
    let sql = match author.dice.below(8) {
        0 | 1 => {
            let all: Vec<(&Column, &Type)> = author
                .catalog
                .columns()
                .filter(|(column, _)| !AMBIGUOUS.contains(&column.declared.as_str()))
                .collect();
            let of_type = all.iter().filter(|(_, this)| this.name == name);
            let mut columns: Vec<&Column> = of_type.map(|(column, _)| *column).collect();
            if columns.is_empty() || author.dice.one_in(4) {
                columns = all.iter().map(|(column, _)| *column).collect();
            }
            let column = &author.pick(&columns).name;
            format!("UPDATE {TABLE} SET {column} = {expr} WHERE id <> {row} RETURNING id, {column}")
        }
        2 => format!("DELETE FROM {TABLE} WHERE {condition} RETURNING id"),
        _ => format!("SELECT id FROM {TABLE} WHERE {condition}"),
    };
    if author.params.is_empty() {
        return Some(Drawn {
            prepare: None,
            sql,
            generic: false,
        });
    }
    let types: Vec<&str> = author
        .params
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let values: Vec<String> = author
        .params
        .iter()
        .map(|(_, value)| literal(value))
        .collect();
    Some(Drawn {
        prepare: Some(format!(
            "PREPARE q ({}) AS {}",
            types.join(", "),
            author.with_params(&sql)
        )),
        sql: format!("EXECUTE q ({})", values.join(", ")),
        generic: author.dice.one_in(2),
    })
}

/// Does the shard evaluate all of it?
fn is_shipped(client: &mut Simple, drawn: &Drawn) -> bool {
    let reply = client.run(&format!("EXPLAIN (VERBOSE, COSTS OFF) {}", drawn.of("f")));
    if reply.error.is_some() {
        return false;
    }
    let plan = reply.lines().join("\n");
    let is_whole = plan.contains("Foreign Update") || plan.contains("Foreign Delete");
    let is_scan = !plan.contains("Update on") && !plan.contains("Delete on");
    is_whole || is_scan && !plan.contains("Filter:") && plan.contains(" WHERE ")
}

#[test]
fn random_expressions() {
    let seed = number("SEED").unwrap_or(2_700_000);
    let statements = length(10_000, SHARE);
    println!("SEED={seed} STATEMENTS={statements}");
    let databases = Databases::start();
    let mut side = databases.side(Kind::Foreign(WAYS[0]));
    let catalog = Catalog::read(&mut side.main);
    let columns: Vec<String> = catalog
        .columns()
        .map(|(column, _)| format!("{} {}", column.name, column.declared))
        .collect();
    let columns = columns.join(", ");
    let rows: Vec<String> = (0..ROWS)
        .map(|row| {
            let values = catalog.columns().zip(row..).map(|((column, _), turn)| {
                // Each column has its own turns of values and NULL.
                match column.values.get(turn as usize % (column.values.len() + 1)) {
                    Some(_) if row == 12 && column.declared == "\"char\"" => HIGH_BYTE.to_string(),
                    Some(value) => literal(value),
                    None => "NULL".to_string(),
                }
            });
            format!("({row}, {})", values.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let fill = |table: &str| format!("INSERT INTO {table} VALUES {}", rows.join(", "));
    let shard = &mut side.shards[0];
    shard
        .run(&format!(
            "CREATE TABLE f (id int, {columns}); {}",
            fill("f")
        ))
        .expect_ok();
    let client = &mut side.main;
    client
        .run(&format!(
            "CREATE TABLE l (id int, {columns}); {}; CREATE FOREIGN TABLE f (id int, {columns}) SERVER s1 OPTIONS (schema_name 'w')",
            fill("l")
        ))
        .expect_ok();

    let (mut found, mut failed, mut shipped, mut drawn_count) = (0u64, 0u64, 0u64, 0u64);
    let mut differences = Vec::new();
    let mut next = seed;
    while drawn_count < statements && differences.len() < 40 {
        let mut author = Author {
            catalog: &catalog,
            dice: Dice(next.wrapping_mul(0x9e37_79b9)),
            params: Vec::new(),
            may_have_params: false,
        };
        let this = next;
        next += 1;
        let Some(drawn) = draw(&mut author, client) else {
            continue;
        };
        let mode = if drawn.generic {
            "force_generic_plan"
        } else {
            "force_custom_plan"
        };
        client
            .run(&format!("SET plan_cache_mode = {mode}"))
            .expect_ok();
        let here = drawn.run(client, "l");
        let there = drawn.run(client, "f");
        // The value is not for that column: nothing has run.
        if here == there
            && here
                .as_ref()
                .is_err_and(|sqlstate| sqlstate.starts_with("42"))
        {
            continue;
        }
        drawn_count += 1;
        shipped += u64::from(is_shipped(client, &drawn));
        match &here {
            Ok(lines) => found += u64::from(!lines.is_empty()),
            Err(_) => failed += 1,
        }
        if here != there {
            let plan = client.run(&format!("EXPLAIN (VERBOSE, COSTS OFF) {}", drawn.of("f")));
            let plan = if plan.error.is_none() {
                plan.lines().join("\n")
            } else {
                String::new()
            };
            differences.push(format!(
                "SEED={this} STATEMENTS=1 ({mode})\n{}\n{}\n  local:   {here:?}\n  foreign: {there:?}\n{plan}",
                drawn.prepare.as_deref().unwrap_or_default(),
                drawn.sql,
            ));
        }
    }
    println!(
        "{drawn_count} statements of {} drawn expressions: {shipped} evaluated by the shard, {found} found rows, {failed} failed",
        next - seed
    );
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    // A run of one statement may be anything.
    if statements >= SHARE {
        assert!(
            shipped * 2 > drawn_count && found * 3 > drawn_count,
            "too little is compared"
        );
    }
}
