//! Runs a scenario on local tables and on foreign tables, and compares everything a client and the shards see.

use crate::common::{major, skip, Cluster, Reply, Setup, Simple};
use crate::outcome::Outcome;
use crate::script::{parse, Item, Place, Scenario, Step, Table};
use std::collections::BTreeMap;

/// How rows are sent, and how they are read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    pub batch_size: usize,
    pub transport: &'static str,
    /// Setting of shard_fdw.copy_rows.
    pub copy_rows: usize,
    pub batch_bytes: &'static str,
    pub flush_policy: &'static str,
    /// Rows come a few at a time, and what is scanned again is read from temporary files once it is large.
    pub rescans: bool,
}

impl Way {
    const fn insert(batch_size: usize) -> Way {
        Way {
            batch_size,
            transport: "insert",
            copy_rows: 3000,
            batch_bytes: "1MB",
            flush_policy: "statement",
            rescans: false,
        }
    }

    /// COPY takes over as soon as a batch was full.
    const fn early(batch_size: usize, batch_bytes: &'static str) -> Way {
        Way {
            batch_size,
            transport: "auto",
            copy_rows: 1,
            batch_bytes,
            flush_policy: "statement",
            rescans: false,
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "batch_size {}, transport {}, copy_rows {}, batch_bytes {}, flush_policy {}, rescans {}",
            self.batch_size,
            self.transport,
            self.copy_rows,
            self.batch_bytes,
            self.flush_policy,
            self.rescans
        )
    }
}

/// The ways that every scenario runs in.
pub const WAYS: [Way; 11] = [
    Way::insert(1),
    Way::insert(2),
    Way::early(2, "1kB"),
    Way::insert(7),
    Way::early(7, "1MB"),
    Way {
        transport: "copy",
        ..Way::insert(7)
    },
    Way {
        transport: "auto",
        ..Way::insert(1000)
    },
    Way {
        flush_policy: "call",
        ..Way::insert(7)
    },
    Way {
        flush_policy: "transaction",
        ..Way::early(7, "1MB")
    },
    Way {
        flush_policy: "transaction",
        ..Way::insert(1000)
    },
    Way {
        rescans: true,
        ..Way::insert(7)
    },
];

/// The ways in which every statement works: transport "copy" refuses some.
pub fn usual_ways() -> impl Iterator<Item = Way> {
    WAYS.into_iter().filter(|way| way.transport != "copy")
}

/// What a foreign table says that cannot be copied to.
const NOT_COPYABLE: &str = "cannot use COPY for foreign table";

/// The databases of the shards.
const SHARDS: [&str; 2] = ["s1", "s2"];

/// One server with a database of local tables, one of foreign tables and one for each shard.
pub struct Databases {
    pub cluster: Cluster,
}

impl Databases {
    pub fn start() -> Databases {
        Databases::start_with(Setup::new())
    }

    pub fn start_with(setup: Setup) -> Databases {
        let cluster = setup.start();
        let mut admin = cluster.simple();
        for name in ["local", "sharded", "s1", "s2"] {
            admin.run(&format!("CREATE DATABASE {name}")).expect_ok();
            admin
                .run(&format!(
                    "ALTER DATABASE {name} SET search_path = w, public"
                ))
                .expect_ok();
        }
        admin.run("CREATE ROLE alice").expect_ok();
        let mut sharded = cluster.simple_as("sharded", "postgres");
        sharded
            .run("CREATE EXTENSION shard_fdw SCHEMA public")
            .expect_ok();
        for name in SHARDS {
            let port = cluster.port();
            sharded
                .run(&format!(
                    "CREATE SERVER {name} FOREIGN DATA WRAPPER shard_fdw \
                     OPTIONS (host '127.0.0.1', port '{port}', dbname '{name}', \
                     batch_size '1', transport 'auto', batch_bytes '1MB', flush_policy 'statement');
                     CREATE USER MAPPING FOR postgres SERVER {name} OPTIONS (user 'postgres');
                     CREATE USER MAPPING FOR alice SERVER {name} \
                     OPTIONS (user 'postgres', password_required 'false');
                     GRANT USAGE ON FOREIGN SERVER {name} TO alice"
                ))
                .expect_ok();
        }
        Databases { cluster }
    }

    fn open(&self, dbname: &str) -> Simple {
        self.cluster.simple_as(dbname, "postgres")
    }

    /// A side with empty schemas and new connections.
    pub fn side(&self, kind: Kind) -> Side {
        let mut side = match kind {
            Kind::Local => Side {
                main: self.open("local"),
                shards: Vec::new(),
                fetch_size: None,
            },
            Kind::Foreign(way) => {
                let mut main = self.open("sharded");
                for name in SHARDS {
                    main.run(&format!(
                        "ALTER SERVER {name} OPTIONS (SET batch_size '{}', SET transport '{}', SET batch_bytes '{}', SET flush_policy '{}')",
                        way.batch_size, way.transport, way.batch_bytes, way.flush_policy
                    ))
                    .expect_ok();
                }
                let (work_mem, keeps_rows) = match way.rescans {
                    true => ("64kB", "off"),
                    false => ("4MB", "on"),
                };
                // As defaults, which RESET ALL brings back.
                let copy_rows = way.copy_rows.to_string();
                for (name, value) in [
                    ("shard_fdw.copy_rows", copy_rows.as_str()),
                    ("work_mem", work_mem),
                    ("enable_material", keeps_rows),
                    ("enable_memoize", keeps_rows),
                ] {
                    main.run(&format!("ALTER DATABASE sharded SET {name} = '{value}'"))
                        .expect_ok();
                }
                let main = self.open("sharded");
                Side {
                    main,
                    shards: SHARDS.iter().map(|name| self.open(name)).collect(),
                    fetch_size: way.rescans.then_some(3),
                }
            }
        };
        for client in std::iter::once(&mut side.main).chain(&mut side.shards) {
            client
                .run("SET client_min_messages = warning; DROP SCHEMA IF EXISTS w CASCADE; CREATE SCHEMA w; GRANT ALL ON SCHEMA w TO alice; RESET client_min_messages")
                .expect_ok();
        }
        side
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Local,
    Foreign(Way),
}

/// A database with its shards; the local side has none.
pub struct Side {
    pub main: Simple,
    pub shards: Vec<Simple>,
    /// An option of the foreign tables.
    fetch_size: Option<u32>,
}

impl Side {
    pub fn is_local(&self) -> bool {
        self.shards.is_empty()
    }

    /// Where a statement is to run here, if at all.
    fn client(&mut self, place: Place) -> Option<&mut Simple> {
        let local = self.is_local();
        match place {
            Place::Both => Some(&mut self.main),
            Place::Local => local.then_some(&mut self.main),
            Place::Foreign => (!local).then_some(&mut self.main),
            Place::Stored(_) if local => Some(&mut self.main),
            Place::Stored(number) | Place::Remote(number) => self.shards.get_mut(number),
        }
    }

    pub fn create(&mut self, table: &Table) {
        let Table { name, columns, .. } = table;
        let stored = if table.constraints.is_empty() {
            format!("CREATE TABLE {name} ({columns})")
        } else {
            format!("CREATE TABLE {name} ({columns}, {})", table.constraints)
        };
        let shard = SHARDS[table.shard];
        match self.shards.get_mut(table.shard) {
            None => {
                self.main.run(&stored).expect_ok();
            }
            Some(client) => {
                client.run(&stored).expect_ok();
                let fetch_size = self.fetch_size.map(|rows| format!(", fetch_size '{rows}'"));
                let options = format!("schema_name 'w'{}", fetch_size.unwrap_or_default());
                self.main
                    .run(&format!(
                        "CREATE FOREIGN TABLE {name} ({columns}) SERVER {shard} OPTIONS ({options})"
                    ))
                    .expect_ok();
            }
        }
        if let Some((parent, bounds)) = &table.partition {
            self.main
                .run(&format!(
                    "ALTER TABLE {parent} ATTACH PARTITION {name} {bounds}"
                ))
                .expect_ok();
        }
    }

    fn step(&mut self, step: &Step) -> Option<Reply> {
        let sql = match self.is_local() {
            true => &step.local_sql,
            false => &step.sql,
        };
        let client = self.client(step.place)?;
        let reply = match &step.data {
            Some(data) => client.copy_in(sql, data.as_bytes()),
            None => client.run(sql),
        };
        match &step.feed {
            None => Some(reply),
            Some(copy) => {
                let produced = reply.expect_ok().copied;
                Some(client.copy_in(copy, &produced))
            }
        }
    }

    /// All rows of all tables as this database sees them, each with its table.
    pub fn contents(&mut self) -> Vec<String> {
        let tables = self
            .main
            .run(
                "SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'w'::regnamespace \
                 AND relkind IN ('r', 'p', 'f') AND NOT relispartition ORDER BY 1",
            )
            .lines();
        let mut rows = Vec::new();
        for table in tables {
            rows.extend(dump(
                &mut self.main,
                &format!("SELECT tableoid::regclass || ' ' || _row::text FROM w.{table} AS _row"),
            ));
        }
        rows.sort();
        rows
    }

    /// The rows of one table where they are stored.
    pub fn stored(&mut self, table: &Table) -> Vec<String> {
        // The columns as the main database has them: the shard's may have others besides, or another order.
        let columns = self
            .main
            .run(&format!(
                "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'w.{}'::regclass \
                 AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                table.name
            ))
            .lines()
            .join(", ");
        let query = format!("SELECT ROW({columns})::text FROM w.{}", table.name);
        match self.client(Place::Stored(table.shard)) {
            Some(client) => dump(client, &query),
            None => Vec::new(),
        }
    }
}

fn dump(client: &mut Simple, query: &str) -> Vec<String> {
    let mut lines = client.run(query).lines();
    lines.sort();
    lines
}

/// Everything that one side has shown of a scenario.
struct Record {
    outcomes: Vec<Option<Outcome>>,
    contents: Vec<String>,
    stored: Vec<Vec<String>>,
    /// A foreign table has refused transport "copy".
    is_not_copyable: bool,
}

fn play(side: &mut Side, scenario: &Scenario) -> Record {
    let mut outcomes = Vec::new();
    let mut tables = Vec::new();
    let mut is_not_copyable = false;
    for item in &scenario.items {
        match item {
            Item::Table(table) => {
                side.create(table);
                tables.push(table);
                outcomes.push(None);
            }
            Item::Step(step) => {
                let reply = side.step(step);
                // What runs on one side only has nothing to be compared with.
                let compared = matches!(step.place, Place::Both | Place::Stored(_));
                let error = reply.as_ref().and_then(|reply| reply.error.as_ref());
                if error.is_some_and(|error| error.message().starts_with(NOT_COPYABLE)) {
                    is_not_copyable = true;
                    break;
                }
                if let Some(reply) = reply.as_ref().filter(|_| side.is_local() || !compared) {
                    announced(scenario, step, reply);
                }
                outcomes.push(
                    reply
                        .filter(|_| compared)
                        .map(|reply| Outcome::of(&reply, &step.sql, step.depth)),
                );
            }
        }
    }
    side.main.run("ROLLBACK; RESET ROLE; RESET ALL");
    Record {
        outcomes,
        contents: side.contents(),
        stored: tables.iter().map(|table| side.stored(table)).collect(),
        is_not_copyable,
    }
}

/// A statement that fails by mistake fails on both sides alike: so errors must have been announced.
fn announced(scenario: &Scenario, step: &Step, reply: &Reply) {
    let got = reply.error.as_ref().map(|error| error.sqlstate());
    assert!(
        got == step.error.as_deref(),
        "scenario \"{}\", line {}: {}\nannounced: {:?}, got: {:?}",
        scenario.name,
        step.line,
        step.sql,
        step.error,
        reply.error
    );
}

/// Runs all scenarios of a file at all batch sizes; fails with the list of all differences.
pub fn compare(text: &str) {
    let databases = Databases::start();
    let only = std::env::var("SCENARIO").ok();
    let mut differences = Vec::new();
    for scenario in parse(text) {
        if only
            .as_ref()
            .is_some_and(|only| !scenario.name.contains(only.as_str()))
        {
            continue;
        }
        if scenario.since > major() {
            skip(&format!(
                "scenario \"{}\" needs {}",
                scenario.name, scenario.since
            ));
            continue;
        }
        let local = play(&mut databases.side(Kind::Local), &scenario);
        // What is different in the same way at several batch sizes is told once.
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for way in WAYS {
            if scenario.eager && way.flush_policy == "transaction" {
                continue;
            }
            let foreign = play(&mut databases.side(Kind::Foreign(way)), &scenario);
            // Whether that is right is tested elsewhere.
            if way.transport == "copy" && foreign.is_not_copyable {
                continue;
            }
            for difference in differ(&scenario, &local, &foreign) {
                found.entry(difference).or_default().push(way.to_string());
            }
        }
        differences.extend(found.into_iter().map(|(difference, ways)| {
            format!("\n=== {}: {}\n{difference}", scenario.name, ways.join("; "))
        }));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

fn differ(scenario: &Scenario, local: &Record, foreign: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let pairs = local.outcomes.iter().zip(&foreign.outcomes);
    for (item, (here, there)) in scenario.items.iter().zip(pairs) {
        let (Item::Step(step), Some(here), Some(there)) = (item, here, there) else {
            continue;
        };
        if here != there {
            found.push(format!(
                "line {}: {}\n    local:   {here}\n    foreign: {there}",
                step.line, step.sql
            ));
        }
    }
    found.extend(rows_differ(
        "as queried",
        &local.contents,
        &foreign.contents,
    ));
    let tables = scenario.items.iter().filter_map(|item| match item {
        Item::Table(table) => Some(table),
        Item::Step(_) => None,
    });
    for (table, (here, there)) in tables.zip(local.stored.iter().zip(&foreign.stored)) {
        found.extend(rows_differ(
            &format!("stored in {}", table.name),
            here,
            there,
        ));
    }
    found
}

/// Says which rows of two sorted lists are in one of them only.
pub fn rows_differ(what: &str, here: &[String], there: &[String]) -> Option<String> {
    if here == there {
        return None;
    }
    let mut extra = there.to_vec();
    let mut missing = Vec::new();
    for row in here {
        match extra.iter().position(|other| other == row) {
            Some(at) => {
                extra.swap_remove(at);
            }
            None => missing.push(row.clone()),
        }
    }
    extra.truncate(20);
    missing.truncate(20);
    Some(format!(
        "rows {what}: {} locally, {} foreign\n    only local:   {missing:?}\n    only foreign: {extra:?}",
        here.len(),
        there.len()
    ))
}
