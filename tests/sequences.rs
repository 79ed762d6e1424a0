//! Sequences of shards: what their values cost, and that every value comes once, in order and up to the last.

mod common;

use common::ids::*;
use common::*;
use std::time::Duration;

#[test]
fn a_load_takes_a_round_trip_for_each_range() {
    let mut scene = Scene::new();
    scene.proxy.set_delay(Duration::from_millis(1));
    let insert = "INSERT INTO t (v) SELECT 'row ' || g FROM generate_series(1, 40000) g";
    // The first statement of the session: connecting is counted, too.
    scene.proxy.reset();
    assert_eq!(scene.client.run(insert).tag(), "INSERT 0 40000");
    let trips = scene.proxy.traffic().round_trips;
    assert!(trips <= 60, "{trips} round trips");
    let ids = "SELECT count(*), min(id), max(id) FROM t";
    assert_eq!(scene.client.run(ids).lines(), ["40000|1|40000"]);

    // COPY takes whole ranges from the first on.
    scene.client.run("SELECT shard_fdw_discard_sequences()");
    let data: String = (0..10_000).map(|n| format!("row {n}\n")).collect();
    scene.proxy.reset();
    let copy = scene
        .client
        .copy_in("COPY t (v) FROM STDIN", data.as_bytes());
    assert_eq!(copy.tag(), "COPY 10000");
    assert_eq!(scene.proxy.traffic().round_trips, 10);
    // A session that has not connected before.
    let mut other = scene.coordinator.simple();
    scene.proxy.reset();
    let copy = other.copy_in("COPY t (v) FROM STDIN", data.as_bytes());
    assert_eq!(copy.tag(), "COPY 10000");
    let trips = scene.proxy.traffic().round_trips;
    assert!(trips <= 20, "{trips} round trips");

    scene.set_range(1);
    scene.client.run("SELECT shard_fdw_discard_sequences()");
    scene.proxy.reset();
    let few = "INSERT INTO t (v) SELECT 'row ' || g FROM generate_series(1, 100) g";
    assert_eq!(scene.client.run(few).tag(), "INSERT 0 100");
    assert_eq!(scene.proxy.traffic().round_trips, 100);
    assert_eq!(scene.client.value("SELECT count(*) FROM t"), "60100");
}

#[test]
fn a_changed_range_counts_from_the_next_draw() {
    let mut scene = Scene::new();
    scene.shard.sql("ALTER SEQUENCE ids CACHE 50");
    scene.set_range(20);
    scene.next();
    assert_eq!(scene.left(), "19");
    scene.set_range(1);
    for left in (0..19).rev() {
        scene.next();
        assert_eq!(scene.left(), left.to_string());
    }
    scene.next();
    assert_eq!(scene.left(), "0");
    // At the start again after a pause, and then it is the CACHE.
    scene.set_range(1000);
    std::thread::sleep(Duration::from_millis(1100));
    scene.next();
    assert_eq!(scene.left(), "49");
}

#[test]
fn values_are_drawn_beside_a_copy_a_cursor_and_waiting_rows() {
    let mut scene = Scene::new();
    scene.shard.sql("CREATE TABLE far (id bigint, v int); CREATE TABLE read AS SELECT g AS v FROM generate_series(1, 5000) g");
    let tables = "
        CREATE FOREIGN TABLE far (id bigint DEFAULT shard_fdw_nextval('s', 'ids'), v int) SERVER s
            OPTIONS (schema_name 'public');
        CREATE FOREIGN TABLE read (v int) SERVER s OPTIONS (schema_name 'public')";
    scene.client.run(tables).expect_ok();
    scene.set_range(7);
    scene.client.run("SET shard_fdw.copy_rows = 10").expect_ok();
    let before = "SELECT flushes_barrier FROM shard_fdw_stats()";
    // Rows wait and travel by COPY while a cursor is read and values are drawn.
    let insert = "INSERT INTO far (v) SELECT v FROM read";
    assert_eq!(scene.client.run(insert).tag(), "INSERT 0 5000");
    assert_eq!(scene.client.value(before), "0");
    let data: String = (5001..=9000).map(|n| format!("{n}\n")).collect();
    let copy = scene
        .client
        .copy_in("COPY far (v) FROM STDIN", data.as_bytes());
    assert_eq!(copy.tag(), "COPY 4000");
    assert_eq!(scene.client.value(before), "0");
    let rows = "SELECT count(*), count(DISTINCT id), min(id), max(id), bool_and(id = v) FROM far";
    assert_eq!(
        scene.shard.simple().run(rows).lines(),
        ["9000|9000|1|9000|t"]
    );
    // Not part of the remote transaction: values stay drawn, and a failed transaction can go on drawing later.
    scene.client.run("BEGIN").expect_ok();
    scene
        .client
        .run("INSERT INTO far (v) VALUES (1)")
        .expect_ok();
    scene
        .client
        .run("INSERT INTO far (v) VALUES (1/0)")
        .expect_error();
    scene.client.run("ROLLBACK").expect_ok();
    let value = scene.next();
    assert!(value > 9001, "{value}");
    assert_eq!(scene.shard.value("SELECT count(*) FROM far"), "9000");
    let open = "SELECT used_for, used_in_xact FROM shard_fdw_connections() ORDER BY 1";
    assert_eq!(scene.client.run(open).lines(), ["sequences|f", "tables|f"]);
}

#[test]
fn a_pooler_that_shares_connections_gives_each_value_once() {
    let shard = Cluster::start();
    shard.sql("CREATE SEQUENCE ids; CREATE SEQUENCE few MAXVALUE 700");
    let pooler = PgBouncer::start(&shard, 1);
    let coordinator = Cluster::start();
    coordinator.sql(&format!(
        "CREATE EXTENSION shard_fdw; {}",
        create_server(
            "s",
            pooler.port(),
            "session_settings 'search_path=elsewhere'"
        )
    ));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let mut client = coordinator.simple();
            std::thread::spawn(move || {
                let draw = "SELECT shard_fdw_nextval('s', 'ids') FROM generate_series(1, 500)";
                let values: Vec<i64> = (0..3).flat_map(|_| numbers(&client.run(draw))).collect();
                let few = drain(&mut client, "SELECT shard_fdw_nextval('s', 'few')");
                (values, few)
            })
        })
        .collect();
    let (mut all, mut all_few) = (Vec::new(), Vec::new());
    for thread in threads {
        let (values, few) = thread.join().expect("a session");
        expect_ascending(&values);
        expect_ascending(&few);
        all.extend(values);
        all_few.extend(few);
    }
    expect_distinct(&all);
    // Nobody has left, so nothing is missing.
    all_few.sort_unstable();
    assert_eq!(all_few, (1..=700).collect::<Vec<_>>());
}

#[test]
fn sessions_that_use_up_a_sequence_together_get_every_value() {
    let scene = Scene::new();
    scene.shard.sql("CREATE SEQUENCE few MAXVALUE 12000");
    let threads: Vec<_> = (0..5)
        .map(|_| {
            let mut client = scene.coordinator.simple();
            std::thread::spawn(move || drain(&mut client, "SELECT shard_fdw_nextval('s', 'few')"))
        })
        .collect();
    let mut all = Vec::new();
    for thread in threads {
        let values = thread.join().expect("a session");
        expect_ascending(&values);
        all.extend(values);
    }
    all.sort_unstable();
    assert!(
        all == (1..=12_000).collect::<Vec<_>>(),
        "{} values",
        all.len()
    );
}

#[test]
fn shards_of_each_version_have_sequences() {
    let coordinator = Cluster::start();
    let mut client = coordinator.simple();
    client.run("CREATE EXTENSION shard_fdw").expect_ok();
    for major in shard_majors() {
        let shard = Setup::of_major(major).start();
        shard.sql(
            "CREATE SEQUENCE up CACHE 7 MAXVALUE 1000; CREATE SEQUENCE down INCREMENT -5 MINVALUE -4000;
             CREATE TABLE t (); CREATE ROLE reader LOGIN; GRANT UPDATE ON SEQUENCE up TO reader;",
        );
        let server = create_server(&format!("s{major}"), shard.port(), "");
        client.run(&server).expect_ok();
        let next = |name: &str| format!("SELECT shard_fdw_nextval('s{major}', '{name}')");
        let values = drain(&mut client, &next("up"));
        assert_eq!(values, (1..=1000).collect::<Vec<_>>(), "{major}");
        let values = drain(&mut client, &next("down"));
        let expected: Vec<i64> = (0..800).map(|place| -1 - 5 * place).collect();
        assert_eq!(values, expected, "{major}");
        for (name, sqlstate) in [("t", "42809"), ("nothing", "42P01")] {
            let error = client.run(&next(name)).expect_error();
            assert_eq!(error.sqlstate(), sqlstate, "{major}: {error:?}");
        }
        let set = format!("SELECT shard_fdw_setval('s{major}', 'up', 500)");
        assert_eq!(client.value(&set), "500");
        // UPDATE is enough for nextval, but not to see how far the sequence has come.
        let user = format!(
            "ALTER USER MAPPING FOR CURRENT_USER SERVER s{major} OPTIONS (SET user 'reader')"
        );
        client.run(&user).expect_ok();
        assert_eq!(client.value(&next("up")), "501", "{major}");
    }
}
