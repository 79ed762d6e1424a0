//! How often does a load wait for the shard? Counted by a proxy that takes 1 ms in each direction.

mod common;

use common::{create_server, Cluster, Proxy, Simple};
use std::time::Duration;

/// Round trips besides those of the batches: BEGIN, the question for the types, COMMIT and the like.
const ALLOWANCE: u64 = 10;

struct Line {
    /// Held for as long as the test runs.
    _coordinator: Cluster,
    _shard: Cluster,
    proxy: Proxy,
    main: Simple,
    remote: Simple,
}

/// A coordinator whose server `far` is reached through the proxy.
fn line(options: &str) -> Line {
    let (coordinator, shard) = (Cluster::start(), Cluster::start());
    let proxy = Proxy::to(shard.port());
    proxy.set_delay(Duration::from_millis(1));
    let mut main = coordinator.simple();
    main.run("CREATE EXTENSION shard_fdw").expect_ok();
    main.run(&create_server("far", proxy.port(), options))
        .expect_ok();
    let remote = shard.simple();
    Line {
        _coordinator: coordinator,
        _shard: shard,
        proxy,
        main,
        remote,
    }
}

impl Line {
    /// Runs something that must report `tag`, and returns how many round trips it took.
    fn count(&mut self, tag: &str, run: impl FnOnce(&mut Simple) -> common::Reply) -> u64 {
        self.proxy.reset();
        let reply = run(&mut self.main);
        assert_eq!(reply.tag(), tag);
        self.proxy.traffic().round_trips
    }
}

#[test]
fn a_load_into_one_table_takes_a_round_trip_for_each_batch_at_most() {
    let data: String = (0..100_000)
        .map(|n| format!("{n}\tsome text of row {n}\t{n}.5\n"))
        .collect();
    for batch_size in [1000, 200, 7000] {
        let mut line = line(&format!("batch_size '{batch_size}'"));
        line.remote
            .run("CREATE TABLE t (id int, v text, n numeric)")
            .expect_ok();
        line.main
            .run("CREATE FOREIGN TABLE t (id int, v text, n numeric) SERVER far OPTIONS (schema_name 'public')")
            .expect_ok();
        let most = 100_000_u64.div_ceil(batch_size) + ALLOWANCE;

        // The first command of the connection, so connecting is counted, too.
        let copy = line.count("COPY 100000", |main| {
            main.copy_in("COPY t FROM STDIN", data.as_bytes())
        });
        assert!(
            copy <= most,
            "COPY, batch_size {batch_size}: {copy} round trips"
        );
        let insert = line.count("INSERT 0 100000", |main| {
            main.run(
                "INSERT INTO t SELECT g, 'some text of row ' || g, g + 0.5 FROM generate_series(1, 100000) g",
            )
        });
        assert!(
            insert <= most,
            "INSERT, batch_size {batch_size}: {insert} round trips"
        );
        let values = line.count("INSERT 0 1", |main| {
            main.run("INSERT INTO t VALUES (1, 'one', 1)")
        });
        assert!(values <= ALLOWANCE, "one row: {values} round trips");
        assert_eq!(line.remote.value("SELECT count(*) FROM t"), "200001");
    }
}

#[test]
fn a_row_in_each_of_many_leaves_takes_few_round_trips() {
    const LEAVES: usize = 256;
    let mut line = line("");
    let mut there = String::new();
    let mut here = "CREATE TABLE t (k int, v text) PARTITION BY LIST (k);".to_string();
    for k in 0..LEAVES {
        there.push_str(&format!("CREATE TABLE t{k} (k int, v text);"));
        here.push_str(&format!(
            "CREATE FOREIGN TABLE t{k} PARTITION OF t FOR VALUES IN ({k}) \
             SERVER far OPTIONS (schema_name 'public');"
        ));
    }
    line.remote.run(&there).expect_ok();
    line.main.run(&here).expect_ok();
    // First use of the connection.
    line.main.run("SELECT count(*) FROM t0").expect_ok();

    let one_each = "INSERT INTO t SELECT g, 'row ' || g FROM generate_series(0, 255) g";
    for time in ["first", "second"] {
        let insert = line.count("INSERT 0 256", |main| main.run(one_each));
        assert!(insert <= ALLOWANCE, "{time} INSERT: {insert} round trips");
    }
    let data: String = (0..LEAVES).map(|k| format!("{k}\tcopied\n")).collect();
    let copy = line.count("COPY 256", |main| {
        main.copy_in("COPY t FROM STDIN", data.as_bytes())
    });
    assert!(copy <= ALLOWANCE, "COPY: {copy} round trips");

    // The same as the first statement that knows nothing of the tables.
    line.main
        .run("ALTER SERVER far OPTIONS (ADD fetch_size '50')")
        .expect_ok();
    line.main.run("SELECT count(*) FROM t0").expect_ok();
    let insert = line.count("INSERT 0 256", |main| main.run(one_each));
    assert!(
        insert <= ALLOWANCE,
        "INSERT after a change: {insert} round trips"
    );
    assert_eq!(line.main.value("SELECT count(*) FROM t"), "1024");
}

#[test]
fn several_leaves_of_a_statement_share_their_round_trips() {
    let mut line = line("batch_size '100'");
    let mut here = "CREATE TABLE t (k int, v int) PARTITION BY LIST (k);".to_string();
    for k in 0..8 {
        line.remote
            .run(&format!("CREATE TABLE t{k} (k int, v int)"))
            .expect_ok();
        here.push_str(&format!(
            "CREATE FOREIGN TABLE t{k} PARTITION OF t FOR VALUES IN ({k}) \
             SERVER far OPTIONS (schema_name 'public');"
        ));
    }
    line.main.run(&here).expect_ok();
    // 25 batches for each leaf.
    let insert = line.count("INSERT 0 20000", |main| {
        main.run("INSERT INTO t SELECT g % 8, g FROM generate_series(1, 20000) g")
    });
    assert!(insert <= 200 + ALLOWANCE, "{insert} round trips");
    assert_eq!(line.main.value("SELECT count(*) FROM t"), "20000");
}

#[test]
fn updates_and_deletes_take_few_round_trips() {
    for (batch_size, fetch_size) in [(1000, 100), (7000, 5000)] {
        let mut line = line(&format!(
            "batch_size '{batch_size}', fetch_size '{fetch_size}'"
        ));
        line.remote
            .run("CREATE TABLE t (id int, v text, n numeric); INSERT INTO t SELECT g, 'row ' || g, g FROM generate_series(1, 100000) g")
            .expect_ok();
        line.main
            .run("CREATE FOREIGN TABLE t (id int, v text, n numeric) SERVER far OPTIONS (schema_name 'public')")
            .expect_ok();
        let most =
            2 * 100_000_u64.div_ceil(batch_size) + 100_000_u64.div_ceil(fetch_size) + ALLOWANCE;
        // Conditions and values that the shard cannot compute.
        let update = line.count("UPDATE 100000", |main| {
            main.run("UPDATE t SET n = n + 1 + floor(random()), v = v || '!' WHERE random() < 2")
        });
        assert!(
            update <= most,
            "UPDATE, batch_size {batch_size}, fetch_size {fetch_size}: {update} round trips"
        );
        let delete = line.count("DELETE 100000", |main| {
            main.run("DELETE FROM t WHERE random() < 2")
        });
        assert!(
            delete <= most,
            "DELETE, batch_size {batch_size}, fetch_size {fetch_size}: {delete} round trips"
        );
        assert_eq!(line.remote.value("SELECT count(*) FROM t"), "0");
    }
}

#[test]
fn an_update_that_the_shard_does_whole_takes_one_round_trip() {
    let mut line = line("");
    line.remote
        .run("CREATE TABLE t (id int PRIMARY KEY, v int)")
        .expect_ok();
    line.main
        .run("CREATE FOREIGN TABLE t (id int, v int) SERVER far OPTIONS (schema_name 'public')")
        .expect_ok();
    line.main
        .run("BEGIN; INSERT INTO t SELECT g, g FROM generate_series(1, 5000) g")
        .expect_ok();
    let update = line.count("UPDATE 4990", |main| {
        main.run("UPDATE t SET v = v + 1 WHERE id > 10")
    });
    assert_eq!(update, 1, "UPDATE");
    let delete = line.count("DELETE 2500", |main| {
        main.run("DELETE FROM t WHERE id % 2 = 0 RETURNING id, v")
    });
    assert_eq!(delete, 1, "DELETE");
    line.main.run("COMMIT").expect_ok();
    // With what begins and ends a transaction.
    let update = line.count("UPDATE 1", |main| {
        main.run("UPDATE t SET v = 0 WHERE id = 1")
    });
    assert!(update <= 3, "{update} round trips");
    assert_eq!(line.remote.value("SELECT count(*) FROM t"), "2500");
}
