//! Statements drawn at random, the same on local and on foreign tables: INSERT, COPY, UPDATE, DELETE, savepoints,
//! blocks, programs of `programs.rs` and errors in any order.
//!
//! `SEED=n` repeats a run, `LONG=1` makes it longer. A failing statement holds errors of one SQLSTATE only.

use crate::common::{long, Fields, Reply};
use crate::driver::{rows_differ, usual_ways, Databases, Kind, Side};
use crate::outcome::{Depth, Outcome};
use crate::programs::{FUNCTIONS, REFUSED, REFUSED_BY_SHARD, REFUSED_LOCALLY, REFUSING_SHARD};
use crate::script::{parse, Item};

/// `WIDE` stands for another column, or for nothing.
const TABLES: &str = "
== tables
CREATE TABLE t (k int, id int, v text, n numeric WIDE) PARTITION BY LIST (k);
@table t0 ON s1 OF t FOR VALUES IN (0)
    k int, id int, v text, n numeric WIDE
    PRIMARY KEY (id), CHECK (n < 1000000);
@table t1 ON s2 OF t FOR VALUES IN (1)
    n numeric WIDE, v text, id int, k int
    PRIMARY KEY (id), CHECK (n < 1000000);
CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2);
ALTER TABLE t2 ADD PRIMARY KEY (id), ADD CHECK (n < 1000000);
CREATE TABLE t3 PARTITION OF t FOR VALUES IN (3, 4) PARTITION BY LIST (k);
@table t3a ON s1 OF t3 FOR VALUES IN (3)
    k int, v text, id int, n numeric WIDE
    PRIMARY KEY (id), CHECK (n < 1000000);
CREATE TABLE t3b PARTITION OF t3 FOR VALUES IN (4);
ALTER TABLE t3b ADD PRIMARY KEY (id), ADD CHECK (n < 1000000);
@table u ON s1
    id int, v text WIDE
    PRIMARY KEY (id);
@table now ON s1
    id int, v int
    UNIQUE (id) DEFERRABLE;
@table late ON s2
    id int, v int
    UNIQUE (id) DEFERRABLE INITIALLY DEFERRED;
";

/// Makes a hundred rows more than the least work_mem.
const WIDE_COLUMN: &str = ", w text DEFAULT repeat('wide', 300)";

/// Options of the servers, which must not make a difference.
const OPTIONS: [&[(&str, &str)]; 4] = [
    &[],
    &[("fetch_size", "1")],
    &[("fetch_size", "3"), ("keep_connections", "false")],
    &[("parallel_commit", "false"), ("parallel_abort", "false")],
];

/// Gives both servers these options, or takes them away again.
fn set_options(side: &mut Side, options: &[(&str, &str)], on: bool) {
    if options.is_empty() {
        return;
    }
    let change = |(name, value): &(&str, &str)| match on {
        true => format!("ADD {name} '{value}'"),
        false => format!("DROP {name}"),
    };
    let list = options.iter().map(change).collect::<Vec<_>>().join(", ");
    for server in ["s1", "s2"] {
        let alter = format!("ALTER SERVER {server} OPTIONS ({list})");
        side.main.run(&alter).expect_ok();
    }
}

/// Numbers that look random and are the same for the same seed (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A statement, with data if it is a COPY.
struct Drawn {
    sql: String,
    data: Option<String>,
}

/// What one row of a statement may have wrong.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Duplicate,
    Check,
    NoLeaf,
}

pub struct Author {
    pub dice: Dice,
    /// The last id that was used.
    pub next_id: u64,
    savepoints: Vec<u64>,
    in_transaction: bool,
    /// No row of an INSERT has a fault: under flush policy `transaction` its error would come later.
    pub flawless: bool,
}

impl Author {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn fault(&mut self) -> Fault {
        match self.dice.below(10) {
            _ if self.flawless => Fault::None,
            0 => Fault::Duplicate,
            1 => Fault::Check,
            2 => Fault::NoLeaf,
            _ => Fault::None,
        }
    }

    /// Rows of `t`; one of them, anywhere, has the fault.
    fn rows(&mut self, fault: Fault) -> Vec<[String; 4]> {
        let count = match self.dice.below(6) {
            0 => 1,
            1 => 7,
            2 => 8,
            _ => 1 + self.dice.below(25),
        };
        let mut rows: Vec<[String; 4]> = (0..count)
            .map(|_| {
                let id = self.id();
                let k = self.dice.below(5);
                [
                    k.to_string(),
                    id.to_string(),
                    format!("v{id}"),
                    (self.dice.below(1000) * 7).to_string(),
                ]
            })
            .collect();
        let at = self.dice.below(count) as usize;
        match fault {
            Fault::None => {}
            // The same key twice in one leaf, wherever the second comes to stand.
            Fault::Duplicate => {
                let mut again = rows[0].clone();
                again[2] = "again".to_string();
                rows.insert(at + 1, again);
            }
            Fault::Check => rows[at][3] = "1000000".to_string(),
            Fault::NoLeaf => rows[at][0] = "9".to_string(),
        }
        rows
    }

    pub fn insert(&mut self) -> String {
        let fault = self.fault();
        let rows: Vec<String> = self
            .rows(fault)
            .iter()
            .map(|[k, id, v, n]| format!("({k}, {id}, '{v}', {n})"))
            .collect();
        let end = match self.dice.below(6) {
            0 => " RETURNING k, id",
            1 => " ON CONFLICT DO NOTHING",
            _ => "",
        };
        format!("INSERT INTO t VALUES {}{end}", rows.join(", "))
    }

    pub fn insert_query(&mut self) -> String {
        let first = self.next_id + 1;
        self.next_id += 1000;
        // Ids stay unique: what is read from one span of them is written to a new one.
        let from = self.dice.below(first);
        let span = format!("id >= {from} AND id < {}", from + 300);
        let moved = format!("id - {from} + {first}");
        let count = self.dice.below(60);
        match self.dice.below(5) {
            0 => format!("INSERT INTO t SELECT (k + 1) % 5, {moved}, v, n FROM t WHERE {span}"),
            1 => format!("INSERT INTO u SELECT {moved}, v FROM t WHERE {span} AND n < 2000"),
            2 => format!(
                "WITH x AS (INSERT INTO u SELECT {first} + g, 'x' FROM generate_series(1, {count}) g \
                 RETURNING id) INSERT INTO t SELECT id % 5, id, 'w', 1 FROM x"
            ),
            _ => format!(
                "INSERT INTO t SELECT g % 5, {first} + g, repeat('y', g), g FROM generate_series(1, {count}) g"
            ),
        }
    }

    fn copy(&mut self) -> Drawn {
        let fault = self.fault();
        let data: String = self
            .rows(fault)
            .iter()
            .map(|row| row.join("\t") + "\n")
            .collect();
        Drawn {
            sql: "COPY t (k, id, v, n) FROM STDIN".to_string(),
            data: Some(data),
        }
    }

    fn change(&mut self) -> String {
        let from = self.dice.below(self.next_id + 1);
        let to = from + self.dice.below(400);
        let some = format!("id BETWEEN {from} AND {to}");
        match self.dice.below(13) {
            0 => format!("UPDATE t SET n = n + 1 WHERE {some}"),
            1 => format!("UPDATE t SET v = v || '.', n = -n WHERE {some} AND random() < 2"),
            2 => format!("DELETE FROM t WHERE {some}"),
            3 => format!("DELETE FROM t WHERE {some} AND random() < 2 RETURNING id"),
            4 => format!("UPDATE u SET v = 'u' WHERE {some} RETURNING *"),
            5 => format!("DELETE FROM t USING u WHERE u.id = t.id AND t.{some}"),
            6 => format!("UPDATE t SET n = 1000000 WHERE {some}"),
            7 => format!(
                "UPDATE t SET k = {} WHERE k = 2 AND {some}",
                self.dice.below(5)
            ),
            8..=11 => self.rescan(from),
            _ => "SELECT k, count(*), sum(n) FROM t GROUP BY k ORDER BY k".to_string(),
        }
    }

    /// A statement that scans a table for each of some rows.
    fn rescan(&mut self, from: u64) -> String {
        let few = format!("generate_series({from}, {}) g", from + self.dice.below(6));
        let of_u = format!("u.id BETWEEN {from} AND {}", from + 100);
        let first = self.next_id + 1;
        // Conditions are volatile, so that no join can do with a single scan.
        match self.dice.below(7) {
            0 => format!("SELECT g, t FROM {few} LEFT JOIN t ON t.id = g + random() * 0 ORDER BY g, t"),
            1 => format!(
                "SELECT g, count(*), md5(string_agg(t::text, '' ORDER BY id, k)) \
                 FROM {few} LEFT JOIN t ON t.id % 7 = g % 7 + random() * 0 GROUP BY g ORDER BY g"
            ),
            2 => format!(
                "SELECT g, (SELECT max(t::text) FROM t WHERE t.id % 9 = g % 9), x FROM {few}, \
                 LATERAL (SELECT id, k, n FROM t WHERE t.id > g + random() * 0 ORDER BY id, k LIMIT 3) x ORDER BY g, x"
            ),
            3 => format!("UPDATE t SET n = n + 1, v = t.v || '+' FROM u WHERE t.id % 50 = u.id % 50 + random() * 0 AND {of_u}"),
            4 => format!(
                "UPDATE t SET n = (SELECT count(*) FROM u WHERE u.id < t.id + random() * 0) \
                 WHERE id BETWEEN {from} AND {} RETURNING k, id, n",
                from + 5
            ),
            5 => format!("DELETE FROM t USING u WHERE t.id = u.id + random() * 0 AND {of_u}"),
            _ => {
                self.next_id += 1000;
                format!(
                    "INSERT INTO u SELECT {first} + row_number() OVER (ORDER BY g, x.id, x.k), x.v FROM {few}, \
                     LATERAL (SELECT * FROM t WHERE t.id > g + random() * 0 ORDER BY id, k LIMIT 4) x"
                )
            }
        }
    }

    fn block(&mut self) -> String {
        let (first, second, third) = (self.insert(), self.insert_query(), self.insert());
        let raise = if self.dice.one_in(3) {
            "RAISE EXCEPTION 'undone';"
        } else {
            ""
        };
        format!(
            "DO $$ DECLARE total bigint; BEGIN {}; GET DIAGNOSTICS total = ROW_COUNT; RAISE NOTICE '%', total; \
             BEGIN {second}; {}; {raise} \
             EXCEPTION WHEN OTHERS THEN RAISE NOTICE 'caught %', SQLSTATE; END; \
             SELECT count(*) INTO total FROM t; RAISE NOTICE '% rows', total; END $$",
            first.replace(" RETURNING k, id", ""),
            third.replace(" RETURNING k, id", ""),
        )
    }

    /// Rows of the tables whose constraints can be deferred, and how they are.
    fn constraint(&mut self) -> String {
        let table = ["now", "late"][self.dice.below(2) as usize];
        // Few ids, which come again, unless errors would come later here than there.
        let pool = if self.flawless { 0 } else { 6 };
        match self.dice.below(8) {
            0 | 1 => "SET CONSTRAINTS ALL DEFERRED".to_string(),
            2 | 3 => "SET CONSTRAINTS ALL IMMEDIATE".to_string(),
            4 => format!("DELETE FROM {table} WHERE id = {}", self.dice.below(6)),
            5 if self.in_transaction && self.dice.one_in(3) => {
                "SET TRANSACTION READ ONLY".to_string()
            }
            6 if pool > 0 => {
                let [first, second] = [(); 2].map(|()| self.dice.below(pool));
                format!(
                    "DO $$ BEGIN SET CONSTRAINTS ALL DEFERRED; INSERT INTO {table} VALUES ({first}, 1); \
                     BEGIN INSERT INTO {table} VALUES ({second}, 2); SET CONSTRAINTS ALL IMMEDIATE; \
                     EXCEPTION WHEN unique_violation THEN RAISE NOTICE 'caught %', SQLSTATE; END; \
                     DELETE FROM {table} WHERE v = 1; END $$"
                )
            }
            _ => {
                let rows: Vec<String> = (0..1 + self.dice.below(3))
                    .map(|n| match pool {
                        0 => format!("({}, {n})", 10 + self.id()),
                        pool => format!("({}, {n})", self.dice.below(pool)),
                    })
                    .collect();
                format!("INSERT INTO {table} VALUES {}", rows.join(", "))
            }
        }
    }

    fn transaction(&mut self) -> String {
        if !self.in_transaction {
            self.in_transaction = true;
            self.savepoints.clear();
            return "BEGIN".to_string();
        }
        let last = self.savepoints.last().copied();
        match (self.dice.below(8), last) {
            (0, _) => {
                self.in_transaction = false;
                "ROLLBACK".to_string()
            }
            (1, _) => {
                self.in_transaction = false;
                "COMMIT".to_string()
            }
            (2, Some(name)) => {
                self.savepoints.pop();
                format!("RELEASE SAVEPOINT p{name}")
            }
            (3 | 4, Some(name)) => format!("ROLLBACK TO SAVEPOINT p{name}"),
            _ => {
                let name = self.id();
                self.savepoints.push(name);
                format!("SAVEPOINT p{name}")
            }
        }
    }

    /// After an error in a transaction.
    fn recover(&mut self) -> String {
        match self.savepoints.last() {
            Some(name) if !self.dice.one_in(4) => format!("ROLLBACK TO SAVEPOINT p{name}"),
            _ => {
                self.in_transaction = false;
                ["ROLLBACK", "COMMIT"][self.dice.below(2) as usize].to_string()
            }
        }
    }

    fn next(&mut self) -> Drawn {
        let sql = match self.dice.below(17) {
            0..=2 => self.insert(),
            3 | 4 => self.insert_query(),
            5 | 6 => return self.copy(),
            7 => self.block(),
            8 | 9 => self.change(),
            10 | 11 => self.program(),
            14 => self.refused_statement(),
            15 | 16 => self.constraint(),
            _ => self.transaction(),
        };
        Drawn { sql, data: None }
    }
}

fn run(side: &mut Side, drawn: &Drawn) -> Reply {
    match &drawn.data {
        Some(data) => side.main.copy_in(&drawn.sql, data.as_bytes()),
        None => side.main.run(&drawn.sql),
    }
}

/// Statements that cannot work prove nothing (class 42: syntax, names, types), unless they are meant to fail.
fn is_mistake(sql: &str, reply: &Reply) -> bool {
    let is_meant = |state: &str| sql.contains("refused.") && REFUSED.contains(&state);
    let is_mistake = |state: &str| state.starts_with("42") && !is_meant(state);
    let caught = |notice: &Fields| {
        let state = notice.message().strip_prefix("caught ");
        state.is_some_and(is_mistake)
    };
    let failed = |error: &Fields| is_mistake(error.sqlstate());
    reply.notices.iter().any(caught) || reply.error.as_ref().is_some_and(failed)
}

#[test]
fn random_statements() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(20_240_229);
    let statements = if long() { 2000 } else { 150 };
    // One set of options for each way, or with LONG=1 every set.
    let sets = if long() { OPTIONS.len() } else { 1 };
    let ways = usual_ways().flat_map(|way| std::iter::repeat_n(way, sets));
    let databases = Databases::start();
    for ((round, way), options) in (0u64..).zip(ways).zip(OPTIONS.iter().cycle()) {
        let seed = seed + round;
        let mut local = databases.side(Kind::Local);
        let mut foreign = databases.side(Kind::Foreign(way));
        set_options(&mut foreign, options, true);
        let wide = if way.rescans { WIDE_COLUMN } else { "" };
        for item in &parse(&TABLES.replace(" WIDE", wide))[0].items {
            for side in [&mut local, &mut foreign] {
                match item {
                    Item::Table(table) => side.create(table),
                    Item::Step(step) => {
                        side.main.run(&step.sql).expect_ok();
                    }
                }
            }
        }
        for side in [&mut local, &mut foreign] {
            side.main.run(FUNCTIONS).expect_ok();
        }
        local.main.run(REFUSED_LOCALLY).expect_ok();
        foreign.shards[0].run(REFUSING_SHARD).expect_ok();
        foreign.main.run(REFUSED_BY_SHARD).expect_ok();
        let mut author = Author {
            dice: Dice(seed),
            next_id: 0,
            savepoints: Vec::new(),
            in_transaction: false,
            flawless: way.flush_policy == "transaction",
        };
        let mut status = 'I';
        let mut history = Vec::new();
        for number in 0..statements {
            let drawn = if status == 'E' {
                Drawn {
                    sql: author.recover(),
                    data: None,
                }
            } else {
                author.next()
            };
            let (here, there) = (run(&mut local, &drawn), run(&mut foreign, &drawn));
            assert!(!is_mistake(&drawn.sql, &here), "{}: {here:?}", drawn.sql);
            status = here.status;
            if status == 'I' {
                author.in_transaction = false;
            }
            history.push(format!("{}\n{}", drawn.sql, drawn.data.unwrap_or_default()));
            let here = Outcome::of(&here, &drawn.sql, Depth::Loose);
            let there = Outcome::of(&there, &drawn.sql, Depth::Loose);
            let mut difference =
                (here != there).then(|| format!("    local:   {here}\n    foreign: {there}"));
            // Comparing everything after each statement would take most of the time.
            if difference.is_none()
                && status != 'E'
                && (number % 10 == 9 || number + 1 == statements)
            {
                difference = rows_differ("as queried", &local.contents(), &foreign.contents());
            }
            if let Some(difference) = difference {
                let last = history.len().saturating_sub(12);
                panic!(
                    "SEED={} {way}, {options:?}, statement {number}:\n{}\n{difference}",
                    seed - round,
                    history[last..].join("\n")
                );
            }
        }
        foreign.main.run("ROLLBACK");
        set_options(&mut foreign, options, false);
    }
}
