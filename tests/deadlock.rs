//! Two sessions of one backend, as different users of a shard, that would wait for each other for ever.

mod common;

use common::*;
use std::time::Duration;

struct Scene {
    _coordinator: Cluster,
    shard: Cluster,
    main: Simple,
}

/// The tables of shard and coordinator are `t` and, for the owner of what comes from him, `v`.
fn scene() -> Scene {
    let shard = Cluster::start();
    shard.sql(
        "CREATE ROLE one LOGIN; CREATE ROLE two LOGIN; CREATE TABLE t (id int PRIMARY KEY, v int);
         INSERT INTO t SELECT i, i FROM generate_series(1, 100) AS i; GRANT ALL ON t TO one, two",
    );
    let coordinator = Setup::new().set("deadlock_timeout", "100ms").start();
    let mut main = coordinator.simple();
    main.run("CREATE EXTENSION shard_fdw; CREATE ROLE owner")
        .expect_ok();
    main.run(&create_server("far", shard.port(), ""))
        .expect_ok();
    main.run(&create_server("again", shard.port(), ""))
        .expect_ok();
    main.run(
        "ALTER USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (SET user 'one');
         CREATE USER MAPPING FOR owner SERVER far OPTIONS (user 'two', password_required 'false');
         CREATE FOREIGN TABLE t (id int, v int) SERVER far; CREATE FOREIGN TABLE a (id int, v int) SERVER again OPTIONS (table_name 't');
         GRANT ALL ON t TO owner; CREATE VIEW v AS SELECT * FROM t; ALTER VIEW v OWNER TO owner;
         SET statement_timeout = '60s'",
    )
    .expect_ok();
    Scene {
        _coordinator: coordinator,
        shard,
        main,
    }
}

#[track_caller]
fn found(reply: Reply) {
    let error = reply.expect_error();
    assert_eq!(error.sqlstate(), "40P01", "{error:?}");
    assert!(error.hint().contains("\"one\"") || error.hint().contains("\"postgres\""));
    assert!(error.hint().contains("\"two\"") || error.hint().contains("\"postgres\""));
}

#[test]
fn sessions_of_one_transaction_do_not_wait_for_each_other() {
    let mut scene = scene();
    for (first, second) in [
        (
            "UPDATE t SET v = 0 WHERE id = 1",
            "UPDATE v SET v = 1 WHERE id = 1",
        ),
        (
            "UPDATE v SET v = 0 WHERE id = 1",
            "UPDATE t SET v = 1 WHERE id < 3 AND random() < 2",
        ),
        (
            "DELETE FROM t WHERE id = 1",
            "SELECT id FROM v WHERE id = 1 FOR UPDATE",
        ),
        ("SELECT id FROM t WHERE id = 1 FOR SHARE", "DELETE FROM v"),
        (
            "INSERT INTO t VALUES (1000, 1)",
            "INSERT INTO v VALUES (1000, 2)",
        ),
        (
            "INSERT INTO t VALUES (9000, 1)",
            "INSERT INTO v SELECT i, i FROM generate_series(2000, 9000) AS i",
        ),
        (
            "UPDATE a SET v = 0 WHERE id = 1",
            "UPDATE t SET v = 1 WHERE id = 1",
        ),
        ("TRUNCATE a", "SELECT count(*) FROM t"),
    ] {
        scene.main.run(&format!("BEGIN; {first}")).expect_ok();
        found(scene.main.run(second));
        scene.main.run("ROLLBACK").expect_ok();
    }
    assert_eq!(scene.shard.value("SELECT sum(v) FROM t"), "5050");
}

#[test]
fn what_was_done_before_the_savepoint_goes_on() {
    let mut scene = scene();
    let main = &mut scene.main;
    main.run(
        "BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 2 FROM c; UPDATE t SET v = 0 WHERE id = 1; SAVEPOINT s",
    )
    .expect_ok();
    found(main.run("UPDATE v SET v = 1 WHERE id = 1"));
    main.run("ROLLBACK TO s; UPDATE v SET v = 7 WHERE id = 2")
        .expect_ok();
    assert_eq!(main.value("FETCH c"), "3");
    let block = "DO $$ BEGIN UPDATE v SET v = 1 WHERE id = 1; EXCEPTION WHEN deadlock_detected THEN RAISE NOTICE 'caught'; END $$";
    assert_eq!(main.run(block).expect_ok().notices[0].message(), "caught");
    main.run("COMMIT").expect_ok();
    let changed = "SELECT string_agg(id || '=' || v, ' ' ORDER BY id) FROM t WHERE id < 4";
    assert_eq!(scene.shard.value(changed), "1=0 2=7 3=3");
    // The question has left no connection behind.
    assert_eq!(
        scene
            .main
            .value("SELECT count(*) FROM shard_fdw_connections()"),
        "2"
    );
}

#[test]
fn a_wait_for_somebody_else_goes_on() {
    let mut scene = scene();
    let mut other = scene.shard.simple();
    other
        .run("BEGIN; UPDATE t SET v = -1 WHERE id = 1")
        .expect_ok();
    scene
        .main
        .run("BEGIN ISOLATION LEVEL READ COMMITTED; UPDATE t SET v = 0 WHERE id = 2; SELECT count(*) FROM v")
        .expect_ok();
    scene.main.send("UPDATE v SET v = 1 WHERE id = 1");
    // Several looks.
    assert!(!scene.main.answers_within(Duration::from_millis(1500)));
    other.run("ROLLBACK").expect_ok();
    assert_eq!(scene.main.receive().tag(), "UPDATE 1");
    scene.main.run("COMMIT").expect_ok();
    // Who stands in line behind a session of ours waits for it as well.
    scene
        .main
        .run("BEGIN; UPDATE t SET v = 0 WHERE id = 1")
        .expect_ok();
    other.send("ALTER TABLE t ADD COLUMN w int");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'ALTER%'";
    wait_until("ALTER TABLE waits", || scene.shard.value(waits) == "1");
    found(scene.main.run("SELECT count(*) FROM v"));
    scene.main.run("ROLLBACK").expect_ok();
    other.receive();
}
