//! What becomes of sequence values when connections, servers and backends die, and that none comes twice.

mod common;

use common::ids::*;
use common::*;
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn values_held_go_on_while_the_shard_is_down() {
    let mut scene = Scene::new();
    scene.shard.sql("ALTER SEQUENCE ids CACHE 5");
    scene.set_range(5);
    assert_eq!(scene.next(), 1);
    scene.shard.stop();
    for expected in 2..=5 {
        assert_eq!(scene.next(), expected);
    }
    let error = scene.client.run(NEXT).expect_error();
    assert_eq!(error.sqlstate(), "08001", "{error:?}");
    let insert = "INSERT INTO t (v) VALUES ('a')";
    assert_eq!(scene.client.run(insert).expect_error().sqlstate(), "08001");
    scene.shard.start_again();
    let value = scene.next();
    assert!(value > 5, "{value}");
    // A connection that was lost between two draws is made anew without a word.
    scene.shard.restart();
    for _ in 0..5 {
        scene.next();
    }
    scene.proxy.cut_all(How::Reset);
    for _ in 0..5 {
        scene.next();
    }
    // One that is lost during a draw over a new connection is an error, and the next draw makes another.
    scene
        .client
        .run("SELECT shard_fdw_disconnect('s'), shard_fdw_discard_sequences()");
    scene
        .proxy
        .cut_after(Side::Client, "EXECUTE shard_fdw_draw", How::Reset);
    let error = scene.client.run(NEXT).expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    assert!(scene.next() > value);
}

#[test]
fn draws_can_be_interrupted() {
    let mut scene = Scene::new();
    scene.set_range(1);
    let mut last = scene.next();
    for interrupt in ["cancel", "timeout"] {
        scene.proxy.stall();
        if interrupt == "cancel" {
            scene.client.send(NEXT);
            scene.wait_until_waiting();
            scene.coordinator.cancel_backend(scene.client.pid());
        } else {
            scene.client.run("SET statement_timeout = 200").expect_ok();
            scene.client.send(NEXT);
        }
        let error = scene.client.receive().expect_error();
        assert_eq!(error.sqlstate(), "57014", "{interrupt}: {error:?}");
        scene.proxy.resume();
        scene.client.run("RESET statement_timeout").expect_ok();
        let open = "SELECT count(*) FROM shard_fdw_connections()";
        assert_eq!(scene.client.value(open), "0", "{interrupt}");
        let next = scene.next();
        assert!(next > last, "{interrupt}: {next} after {last}");
        last = next;
    }
    // The shard itself waits: somebody changes the sequence.
    let mut holder = scene.shard.simple();
    holder.run("BEGIN; ALTER SEQUENCE ids CACHE 3").expect_ok();
    scene.client.send(NEXT);
    scene.wait_until_waiting();
    scene.coordinator.cancel_backend(scene.client.pid());
    assert_eq!(scene.client.receive().expect_error().sqlstate(), "57014");
    holder.run("ROLLBACK").expect_ok();
    assert!(scene.next() > last);
    // The backend ends while it waits.
    scene.proxy.stall();
    scene.client.send(NEXT);
    scene.wait_until_waiting();
    let end = format!("SELECT pg_terminate_backend({})", scene.client.pid());
    assert_eq!(scene.coordinator.value(&end), "t");
    assert_eq!(scene.client.receive().expect_error().sqlstate(), "57P01");
}

#[test]
fn what_has_been_handed_out_survives_a_crash_of_the_shard() {
    let mut scene = Scene::new();
    scene.set_range(1);
    // This transaction has written to the WAL that 32 values are taken; nobody has waited for that to be on disk.
    for round in 0..3 {
        let mut holder = scene.shard.simple();
        holder.run("SELECT pg_switch_wal(); CHECKPOINT").expect_ok();
        holder.run("BEGIN").expect_ok();
        let theirs = number(&holder.value("SELECT nextval('ids')"));
        let ours = scene.next();
        assert!(ours > theirs, "{ours} after {theirs}");
        scene.shard.stop_immediately();
        scene.shard.start_again();
        let next = number(&scene.shard.value("SELECT nextval('ids')"));
        assert!(next > ours, "round {round}: {next} after {ours}");
    }
}

/// Random numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        // Xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// One of several that draw at the same time: sessions of a coordinator, one after the other whenever one is killed.
struct Drawer {
    coordinator: u16,
    random: Random,
    /// Of each session, in order.
    values: Vec<Vec<i64>>,
    errors: HashSet<String>,
}

impl Drawer {
    /// Draws until it has so many values.
    fn run(mut self, wanted: usize) -> Drawer {
        let mut drawn = 0;
        let mut client = None;
        while drawn < wanted {
            let Some(session) = &mut client else {
                // The coordinator, too, may be starting again.
                match Simple::connect(self.coordinator, "postgres", "postgres") {
                    Ok(new) => {
                        self.values.push(Vec::new());
                        client = Some(new);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
                continue;
            };
            let count = 1 + self.random.below(1500);
            let draw =
                format!("SELECT shard_fdw_nextval('s', 'ids') FROM generate_series(1, {count})");
            let sql = match self.random.below(10) {
                0 => format!(
                    "SET shard_fdw.sequence_range = {}",
                    1 + self.random.below(2000)
                ),
                1 => "SELECT shard_fdw_discard_sequences()".into(),
                2 => "SELECT shard_fdw_disconnect('s')".into(),
                3 => format!("BEGIN; {draw}; ROLLBACK"),
                4 => format!("BEGIN; SAVEPOINT a; {draw}; ROLLBACK TO a; {draw}; COMMIT"),
                _ => draw,
            };
            let reply = session.run(&sql);
            let values: Vec<i64> = reply
                .statements
                .iter()
                .filter(|statement| {
                    statement.tag.starts_with("SELECT")
                        && statement.columns == ["shard_fdw_nextval"]
                })
                .flat_map(|statement| &statement.rows)
                .map(|row| number(row[0].as_deref().expect("a value")))
                .collect();
            drawn += values.len();
            if let Some(session) = self.values.last_mut() {
                session.extend(values);
            }
            if let Some(error) = &reply.error {
                self.errors.insert(error.sqlstate().into());
            }
            match reply.status {
                '-' => client = None,
                // If it is gone by now, the next statement tells.
                'T' | 'E' => drop(session.run("ROLLBACK")),
                _ => {}
            }
        }
        self
    }
}

/// The single value of a query of a server that may be starting again.
fn try_value(port: u16, query: &str) -> Option<String> {
    let mut client = Simple::connect(port, "postgres", "postgres").ok()?;
    let reply = client.run(query);
    let row = reply.statements.first()?.rows.first()?;
    row.first()?.clone()
}

#[test]
fn no_value_comes_twice_whoever_dies() {
    let total: usize = if long() { 1_000_000 } else { 120_000 };
    let mut shard = Cluster::start();
    shard.expect_kills();
    shard.sql("CREATE SEQUENCE ids CACHE 3");
    let coordinators: Vec<Cluster> = (0..2).map(|_| Cluster::start()).collect();
    for coordinator in &coordinators {
        coordinator.sql(&format!(
            "CREATE EXTENSION shard_fdw; {}",
            create_server("s", shard.port(), "")
        ));
    }
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let drawer = Drawer {
                coordinator: coordinators[number % 2].port(),
                random: Random(0x9E37_79B9 + number as u64),
                values: Vec::new(),
                errors: HashSet::new(),
            };
            std::thread::spawn(move || drawer.run(total / 8))
        })
        .collect();
    // Meanwhile one dies after the other.
    let mut random = Random(42);
    let mut kills = 0;
    while !threads.iter().all(|thread| thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(50 + random.below(100)));
        let kill_one = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) AS one";
        match random.below(8) {
            0 if kills < 20 => {
                shard.stop_immediately();
                shard.start_again();
            }
            1 if kills < 20 => {
                let pid =
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'shard_fdw' LIMIT 1";
                // It may end by itself in the meantime.
                if let Some(Ok(pid)) = try_value(shard.port(), pid).map(|pid| pid.parse()) {
                    process_signal(pid, libc::SIGKILL);
                }
            }
            2..=4 => {
                try_value(coordinators[random.below(2) as usize].port(), kill_one);
            }
            _ => {
                try_value(shard.port(), kill_one);
            }
        }
        kills += 1;
    }
    let mut all = Vec::new();
    let mut errors = HashSet::new();
    for thread in threads {
        let drawer = thread.join().expect("a drawer");
        for session in &drawer.values {
            expect_ascending(session);
            all.extend(session);
        }
        errors.extend(drawer.errors);
    }
    assert!(all.len() >= total);
    expect_distinct(&all);
    assert!(kills > 0, "nobody has died");
    // Connections lost and refused, and backends ended; nothing else has gone wrong.
    let known = ["08001", "08006", "57P01", "57P02", "57P03", ""];
    for error in errors {
        assert!(known.contains(&error.as_str()), "{error}");
    }
    wait_until("the shard", || {
        try_value(shard.port(), "SELECT 1").is_some()
    });
    let next = number(&shard.value("SELECT nextval('ids')"));
    let most = all.iter().max().expect("values");
    assert!(next > *most, "{next} after {most}");
}

#[test]
fn two_coordinators_load_a_sharded_table_without_a_collision() {
    let shards = Shards::start(2);
    shards.sql("CREATE TABLE rows_0 (id bigint PRIMARY KEY, v text); CREATE TABLE rows_1 (id bigint PRIMARY KEY, v text)");
    shards[0].sql("CREATE SEQUENCE ids");
    let coordinators: Vec<Cluster> = (0..2).map(|_| Cluster::start()).collect();
    for coordinator in &coordinators {
        shards.attach(coordinator, "");
        coordinator.sql(
            "CREATE TABLE rows (id bigint NOT NULL DEFAULT shard_fdw_nextval('shard1', 'ids'), v text)
                 PARTITION BY HASH (id);
             CREATE FOREIGN TABLE rows_0 PARTITION OF rows FOR VALUES WITH (MODULUS 2, REMAINDER 0) SERVER shard1
                 OPTIONS (schema_name 'public');
             CREATE FOREIGN TABLE rows_1 PARTITION OF rows FOR VALUES WITH (MODULUS 2, REMAINDER 1) SERVER shard2
                 OPTIONS (schema_name 'public')",
        );
    }
    let rows: usize = if long() { 100_000 } else { 20_000 };
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let mut client = coordinators[number % 2].simple();
            std::thread::spawn(move || {
                if number < 2 {
                    let data: String = (0..rows).map(|n| format!("copy {number} {n}\n")).collect();
                    let copy = client.copy_in("COPY rows (v) FROM STDIN", data.as_bytes());
                    assert_eq!(copy.tag(), format!("COPY {rows}"));
                } else {
                    let insert = format!(
                        "INSERT INTO rows (v) SELECT 'insert {number} ' || g FROM generate_series(1, {rows}) g"
                    );
                    let tag = format!("INSERT 0 {rows}");
                    assert_eq!(client.run(&insert).tag(), tag);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a load");
    }
    let sums = "SELECT count(*), count(DISTINCT id), count(DISTINCT v) FROM rows";
    for coordinator in &coordinators {
        let all = 4 * rows;
        let seen = coordinator.simple().run(sums).lines();
        assert_eq!(seen, [format!("{all}|{all}|{all}")]);
    }
    let stored: usize = shards
        .values("SELECT (SELECT count(*) FROM rows_0) + (SELECT count(*) FROM rows_1)")
        .iter()
        .map(|count| number(count) as usize)
        .sum();
    assert_eq!(stored, 4 * rows);
}
