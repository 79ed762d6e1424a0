//! Cancel requests, timeouts and terminations in the middle of work leave a session that works. (Each kind of wait has
//! its test in `interrupts.rs`.)

mod common;

use common::*;
use std::time::Duration;

struct Scene {
    coordinator: Cluster,
    shard: Cluster,
    proxy: Proxy,
    client: Simple,
}

impl Scene {
    /// A foreign table `t` behind a proxy; nothing has connected yet.
    fn new() -> Scene {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        shard.sql("CREATE TABLE t (id int, v text)");
        let proxy = Proxy::to(shard.port());
        let mut client = coordinator.simple();
        client.run("CREATE EXTENSION shard_fdw").expect_ok();
        client
            .run(&create_server("far", proxy.port(), ""))
            .expect_ok();
        client
            .run(
                "CREATE FOREIGN TABLE t (id int, v text) SERVER far OPTIONS (schema_name 'public')",
            )
            .expect_ok();
        Scene {
            coordinator,
            shard,
            proxy,
            client,
        }
    }

    /// The statement that was sent ends with the given SQLSTATE.
    fn ends_with(&mut self, sqlstate: &str) {
        let error = self.client.receive().expect_error();
        assert_eq!(error.sqlstate(), sqlstate, "{error:?}");
    }

    /// The session is as good as new, and holds `rows` rows and one more.
    fn works(&mut self, rows: u32) {
        self.client.run("RESET statement_timeout").expect_ok();
        let insert = self.client.run("INSERT INTO t VALUES (0, 'after')");
        assert_eq!(insert.tag(), "INSERT 0 1");
        let count = self.client.value("SELECT count(*) FROM t");
        assert_eq!(count, (rows + 1).to_string());
        self.shard.sql("TRUNCATE t");
    }
}

/// Does a backend of the shard sleep?
fn asleep(shard: &Cluster) -> bool {
    shard.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
}

const LARGE: &str = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 60000) g";

#[test]
fn while_the_shard_works() {
    let mut scene = Scene::new();
    scene.shard.sql(
        "CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN IF NEW.id >= 0 AND NEW.v <> ''after'' THEN PERFORM pg_sleep(600); END IF; RETURN NEW; END';
         CREATE TRIGGER sleep BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION sleep();
         CREATE VIEW slow AS SELECT 1 AS id FROM pg_sleep(600)",
    );
    scene
        .client
        .run("CREATE FOREIGN TABLE slow (id int) SERVER far OPTIONS (schema_name 'public')")
        .expect_ok();
    for statement in [
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "INSERT INTO t SELECT g, 'g' FROM generate_series(1, 5000) g",
        "INSERT INTO t VALUES (1, 'a') RETURNING id",
        "SELECT * FROM slow",
        "BEGIN; INSERT INTO t VALUES (-1, 'x'); SAVEPOINT s; INSERT INTO t VALUES (1, 'a')",
    ] {
        scene.client.send(statement);
        wait_until("the shard's sleep", || asleep(&scene.shard));
        scene.client.cancel();
        scene.ends_with("57014");
        wait_until("the end of the shard's sleep", || !asleep(&scene.shard));
        scene.client.run("ROLLBACK").expect_ok();
        scene.works(0);
    }
    // COPY and a timeout.
    scene
        .client
        .run("SET statement_timeout = '500ms'")
        .expect_ok();
    let error = scene
        .client
        .copy_in("COPY t FROM STDIN", b"1\ta\n2\tb\n")
        .expect_error();
    assert_eq!(error.sqlstate(), "57014", "{error:?}");
    scene.works(0);
    // Caught by the transaction's own block: the rows before it stay.
    let block = "DO $$ BEGIN
        INSERT INTO t VALUES (-1, 'kept');
        BEGIN INSERT INTO t VALUES (1, 'a'); EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'cancelled'; END;
        INSERT INTO t VALUES (-2, 'kept'); END $$";
    with_growing_timeout(&mut scene, |scene, timeout| {
        let set = format!("SET statement_timeout = '{timeout}'");
        scene.client.run(&set).expect_ok();
        scene.client.send(block);
        let in_time = scene.client.waits_until(|| asleep(&scene.shard));
        let reply = scene.client.receive();
        if in_time {
            assert_eq!(reply.tag(), "DO");
            assert_eq!(reply.notices[0].message(), "cancelled");
            scene.works(2);
        } else {
            assert_eq!(reply.expect_error().sqlstate(), "57014");
            scene.works(0);
        }
        in_time
    });
}

/// The line swallows everything: the cancel request as well, until it works again.
#[test]
fn while_the_line_is_stalled() {
    let mut scene = Scene::new();
    for side in [Side::Client, Side::Shard] {
        for statement in [
            LARGE,
            "SELECT count(*) FROM t",
            "BEGIN; INSERT INTO t VALUES (1, 'a'); SELECT count(*) FROM t",
        ] {
            // Connected before.
            scene.client.value("SELECT count(*) FROM t");
            scene.proxy.reset();
            scene.proxy.stall_from(side);
            scene.client.send(statement);
            wait_until("something that is held back", || {
                scene.proxy.traffic().bytes_from_client > 0
            });
            scene.client.cancel();
            // A request to the shard is as blocked as all the rest. Without one, the line was given up at once.
            while scene.proxy.traffic().connections == 0
                && !scene.client.answers_within(Duration::from_millis(5))
            {}
            scene.proxy.resume();
            scene.ends_with("57014");
            scene.client.run("ROLLBACK").expect_ok();
            scene.works(0);
        }
    }
}

#[test]
fn a_load_is_cancelled_at_any_moment() {
    let mut scene = Scene::new();
    scene.proxy.set_delay(Duration::from_millis(1));
    let rows = if long() { 40 } else { 8 };
    for step in 0..rows {
        scene.client.send(LARGE);
        std::thread::sleep(Duration::from_millis(10 * step));
        scene.client.cancel();
        let reply = scene.client.receive();
        match reply.error {
            Some(error) => {
                assert_eq!(error.sqlstate(), "57014", "{error:?}");
                scene.works(0);
            }
            None => scene.works(60_000),
        }
    }
}

#[test]
fn termination_ends_every_wait() {
    for stalled in [true, false] {
        let mut scene = Scene::new();
        if stalled {
            scene.proxy.stall();
        } else {
            scene
                .shard
                .sql("CREATE VIEW slow AS SELECT 1 AS id, ''::text AS v FROM pg_sleep(600)");
            scene
                .client
                .run("ALTER FOREIGN TABLE t OPTIONS (ADD table_name 'slow')")
                .expect_ok();
        }
        scene.client.send("SELECT * FROM t");
        wait_until("bytes on the line", || {
            scene.proxy.traffic().bytes_from_client > 0
        });
        let terminate = format!("SELECT pg_terminate_backend({}, 60000)", scene.client.pid());
        assert_eq!(scene.coordinator.value(&terminate), "t");
        let error = scene.client.receive().expect_error();
        assert_eq!(error.sqlstate(), "57P01", "{error:?}");
        scene.proxy.resume();
        // The shard is left in peace, too.
        wait_until("the end of the shard's backend", || {
            scene
                .shard
                .value("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'")
                == "0"
        });
    }
}
