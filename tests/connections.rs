//! The life of a connection: whom it is made to, how long it is kept, and how it is replaced.

mod common;

use common::*;

/// A coordinator with foreign table `t` on server `s`.
struct Scene {
    coordinator: Cluster,
    client: Simple,
    shard: Cluster,
}

const REMOTE: &str =
    "SELECT remote_backend_pid FROM shard_fdw_connections() WHERE server_name = 's'";

impl Scene {
    fn new(options: &str) -> Scene {
        let coordinator = Cluster::start();
        let shard = Cluster::start();
        shard.sql("CREATE TABLE t (id int)");
        coordinator.sql(&format!(
            "CREATE EXTENSION shard_fdw; {}
             CREATE FOREIGN TABLE t (id int) SERVER s OPTIONS (schema_name 'public')",
            create_server("s", shard.port(), options)
        ));
        Scene {
            client: coordinator.simple(),
            coordinator,
            shard,
        }
    }

    #[track_caller]
    fn insert(&mut self, id: u32) {
        let insert = format!("INSERT INTO t VALUES ({id})");
        assert_eq!(self.client.run(&insert).tag(), "INSERT 0 1");
    }

    /// Process ids of the shard's backends for the session, as the session says.
    fn pids(&mut self) -> Vec<String> {
        self.client.run(REMOTE).lines()
    }

    fn remote_backends(&self) -> String {
        let backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
        self.shard.value(backends)
    }

    fn stored(&self) -> String {
        let ids = "SELECT string_agg(id::text, ',' ORDER BY id) FROM t";
        self.shard.value(ids)
    }

    fn wait_until_closed(&self) {
        wait_until("the end of the remote backend", || {
            self.remote_backends() == "0"
        });
    }
}

#[test]
fn a_connection_is_kept_for_the_next_transaction() {
    let mut scene = Scene::new("");
    scene.insert(1);
    let pids = scene.pids();
    assert_eq!(pids.len(), 1);
    scene.insert(2);
    scene
        .client
        .run("INSERT INTO t VALUES (1/0)")
        .expect_error();
    scene
        .client
        .run("BEGIN; SELECT * FROM t; ROLLBACK")
        .expect_ok();
    assert_eq!(scene.pids(), pids);
    assert_eq!(scene.remote_backends(), "1");
    drop(std::mem::replace(
        &mut scene.client,
        scene.coordinator.simple(),
    ));
    scene.wait_until_closed();
}

#[test]
fn keep_connections_off_closes_at_the_end_of_the_transaction() {
    let mut scene = Scene::new("keep_connections 'off'");
    scene.client.run("BEGIN").expect_ok();
    scene.insert(1);
    scene.insert(2);
    assert_eq!(scene.pids().len(), 1);
    scene.client.run("COMMIT").expect_ok();
    assert_eq!(scene.pids().len(), 0);
    scene.wait_until_closed();
    scene
        .client
        .run("BEGIN; SELECT * FROM t; ROLLBACK")
        .expect_ok();
    scene.wait_until_closed();
    assert_eq!(scene.stored(), "1,2");
}

#[test]
fn altering_in_the_middle_of_a_transaction_waits_for_its_end() {
    for by_itself in [true, false] {
        for alter in [
            "ALTER SERVER s OPTIONS (ADD fetch_size '10')",
            "ALTER USER MAPPING FOR postgres SERVER s OPTIONS (ADD password 'unused')",
        ] {
            let mut scene = Scene::new("");
            scene.client.run("BEGIN").expect_ok();
            scene.insert(1);
            let pids = scene.pids();
            if by_itself {
                scene.client.run(alter).expect_ok();
            } else {
                scene.coordinator.sql(alter);
            }
            scene.insert(2);
            assert_eq!(scene.pids(), pids);
            let valid = "SELECT valid, used_in_xact FROM shard_fdw_connections()";
            assert_eq!(scene.client.run(valid).lines(), ["f|t"]);
            scene.client.run("COMMIT").expect_ok();
            assert!(scene.pids().is_empty());
            scene.wait_until_closed();
            scene.insert(3);
            assert_ne!(scene.pids(), pids);
            assert_eq!(scene.stored(), "1,2,3");
        }
    }
}

#[test]
fn altering_closes_an_idle_connection() {
    let mut scene = Scene::new("");
    let other = Cluster::start();
    other.sql("CREATE TABLE t (id int)");
    scene.insert(1);
    let alter = format!("ALTER SERVER s OPTIONS (SET port '{}')", other.port());
    scene.client.run(&alter).expect_ok();
    scene.wait_until_closed();
    scene.insert(2);
    let ids = "SELECT string_agg(id::text, ',') FROM t";
    assert_eq!((scene.stored(), other.value(ids)), ("1".into(), "2".into()));

    // From another session: at the latest when this one is used.
    let alter = format!("ALTER SERVER s OPTIONS (SET port '{}')", scene.shard.port());
    scene.coordinator.sql(&alter);
    scene.insert(3);
    assert_eq!(
        (scene.stored(), other.value(ids)),
        ("1,3".into(), "2".into())
    );
    let backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
    wait_until("the end of the other connection", || {
        other.value(backends) == "0"
    });
}

#[test]
fn dropping_does_not_lose_what_was_written() {
    for drop in [
        "DROP USER MAPPING FOR postgres SERVER s",
        "DROP SERVER s CASCADE",
    ] {
        // In the middle of the transaction that uses it.
        let mut scene = Scene::new("");
        scene.client.run("BEGIN").expect_ok();
        scene.insert(1);
        scene.client.run(drop).expect_ok();
        scene.client.run("COMMIT").expect_ok();
        assert_eq!(scene.stored(), "1");
        scene.wait_until_closed();
        assert!(scene.client.run("SELECT * FROM t").error.is_some());

        // The same rolled back: all is as before.
        let mut scene = Scene::new("");
        scene.client.run("BEGIN").expect_ok();
        scene.insert(1);
        scene.client.run(drop).expect_ok();
        scene.client.run("ROLLBACK").expect_ok();
        scene.insert(2);
        assert_eq!(scene.stored(), "2");

        // While it is idle.
        scene.client.run(drop).expect_ok();
        scene.wait_until_closed();
        assert!(scene.client.run(REMOTE).lines().is_empty());
    }
}

#[test]
fn a_connection_that_died_while_idle_is_replaced_silently() {
    let mut scene = Scene::new("");
    let kill = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
    scene.insert(1);
    for (id, statement) in [
        (2, "INSERT INTO t VALUES (2)"),
        (
            3,
            "BEGIN; SELECT count(*) FROM t; INSERT INTO t VALUES (3); COMMIT",
        ),
        (
            4,
            "BEGIN; SAVEPOINT a; INSERT INTO t VALUES (4); RELEASE a; COMMIT",
        ),
    ] {
        let pids = scene.pids();
        assert_eq!(scene.shard.value(kill), "t");
        let reply = scene.client.run(statement).expect_ok();
        assert!(reply.notices.is_empty(), "{:?}", reply.notices);
        assert_ne!(scene.pids(), pids);
        assert_eq!(scene.shard.value("SELECT max(id) FROM t"), id.to_string());
    }

    // Not in the middle of a transaction: what it has done is gone.
    scene.client.run("BEGIN").expect_ok();
    scene.insert(5);
    assert_eq!(scene.shard.value(kill), "t");
    let error = scene.client.run("INSERT INTO t VALUES (6)").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
    scene.client.run("BEGIN").expect_ok();
    scene.insert(7);
    assert_eq!(scene.shard.value(kill), "t");
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    scene.insert(8);
    assert_eq!(scene.stored(), "1,2,3,4,8");
}

#[test]
fn a_shard_that_restarts_is_found_again() {
    let mut scene = Scene::new("");
    scene.insert(1);
    scene.shard.restart();
    scene.insert(2);
    scene.shard.stop_immediately();
    let error = scene.client.run("INSERT INTO t VALUES (-1)").expect_error();
    assert_eq!(error.sqlstate(), "08001", "{error:?}");
    scene.client.run("BEGIN").expect_ok();
    scene.client.run("SELECT * FROM t").expect_error();
    scene.client.run("ROLLBACK").expect_ok();
    scene.shard.start_again();
    scene.insert(3);
    let pid = scene.pids()[0].parse().expect("a process id");
    scene.shard.kill_backend(pid);
    scene.insert(4);
    assert_eq!(scene.stored(), "1,2,3,4");

    // Restarted in the middle of a transaction.
    scene.client.run("BEGIN").expect_ok();
    scene.insert(5);
    scene.shard.restart();
    let error = scene.client.run("SELECT * FROM t").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    scene.client.run("ROLLBACK").expect_ok();
    scene.insert(6);
    assert_eq!(scene.stored(), "1,2,3,4,6");
}

#[test]
fn a_host_that_refuses_is_named() {
    let mut scene = Scene::new("");
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = free.local_addr().expect("its address").port();
    drop(free);
    let alter = format!("ALTER SERVER s OPTIONS (SET port '{port}')");
    scene.client.run(&alter).expect_ok();
    for statement in [
        "SELECT * FROM t",
        "INSERT INTO t VALUES (1)",
        "TRUNCATE t",
        "COPY t FROM PROGRAM 'echo 1'",
    ] {
        let error = scene.client.run(statement).expect_error();
        assert_eq!(error.sqlstate(), "08001", "{error:?}");
        assert_eq!(error.message(), "could not connect to server \"s\"");
        assert!(error.detail().contains(&port.to_string()), "{error:?}");
    }
    let alter = format!("ALTER SERVER s OPTIONS (SET port '{}')", scene.shard.port());
    scene.client.run(&alter).expect_ok();
    scene.insert(1);
}
