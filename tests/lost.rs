//! Sessions that a shard ends: what a client is told, at whatever moment of its transaction.

mod common;

use common::*;

/// A coordinator with foreign tables on a shard.
struct Scene {
    client: Simple,
    coordinator: Cluster,
    shard: Cluster,
}

const REMOTE: &str = "CREATE TABLE t (id int, note text);
    INSERT INTO t SELECT i, 'note' FROM generate_series(1, 500) AS i;
    CREATE TABLE fresh (id int);
    CREATE VIEW slow AS SELECT id FROM t WHERE id = 1 AND pg_sleep(300) IS NOT NULL;
    CREATE SEQUENCE ids;";

/// What a shard says when a backend is terminated, or the server shut down.
const TERMINATED: &str = "terminating connection due to administrator command (SQLSTATE 57P01)";

impl Scene {
    fn new(options: &str) -> Scene {
        let coordinator = Cluster::start();
        let mut shard = Cluster::start();
        shard.expect_kills();
        shard.sql(REMOTE);
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE t (id int, note text) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE fresh (id int) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE slow (id int) SERVER s OPTIONS (schema_name 'public')",
                create_server("s", shard.port(), options)
            ))
            .expect_ok();
        Scene {
            client,
            coordinator,
            shard,
        }
    }

    /// From now on a proxy stands in between. (What a shard says last might not get through it in time.)
    fn use_proxy(&mut self) -> Proxy {
        let proxy = Proxy::to(self.shard.port());
        self.ok(&format!(
            "ALTER SERVER s OPTIONS (SET port '{}')",
            proxy.port()
        ));
        proxy
    }

    fn ok(&mut self, sql: &str) {
        self.client.run(sql).expect_ok();
    }

    /// Ends the sessions on the shard, and waits until they are gone.
    fn terminate(&self) {
        let terminate = "SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
            WHERE application_name = 'shard_fdw'";
        assert_eq!(self.shard.value(terminate), "t");
    }

    /// Waits until the shard has ended the sessions by itself.
    fn wait_until_ended(&self) {
        let backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
        wait_until("the end of the session", || {
            self.shard.value(backends) == "0"
        });
    }

    /// Waits until the session on the shard reads its next message: one that has to exit while it writes says nothing.
    fn wait_until_idle(&self) {
        let idle = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'shard_fdw' AND wait_event = 'ClientRead'";
        wait_until("the session to be idle", || self.shard.value(idle) == "1");
    }

    fn stored(&self) -> String {
        self.shard.value("SELECT count(*) FROM t")
    }
}

/// The error of a connection that the shard has ended with these words, before anything can have been committed.
#[track_caller]
fn lost(error: &Fields, said: &str) {
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    assert_eq!(error.message(), "connection to server \"s\" was lost");
    let detail = format!("The server ended the session: {said}.");
    assert_eq!(error.detail(), detail, "{error:?}");
    assert!(!error.context().contains("FROM pg_catalog"), "{error:?}");
}

/// Each with what CONTEXT names of it.
const STATEMENTS: [(&str, &str, &str); 9] = [
    ("SELECT count(*) FROM t", "t", "SELECT NULL FROM"),
    ("INSERT INTO t VALUES (1001, '')", "t", "INSERT INTO"),
    (
        "INSERT INTO t VALUES (1001, '') RETURNING id",
        "t",
        "INSERT INTO",
    ),
    ("UPDATE t SET note = '' WHERE id = 1", "t", "UPDATE"),
    ("DELETE FROM t WHERE id = 1 AND random() < 2", "t", "SELECT"),
    ("COPY t FROM PROGRAM 'echo 1'", "t", ""),
    ("TRUNCATE fresh", "fresh", "TRUNCATE"),
    // The shard has not been asked for the columns before: that is no statement to name.
    ("INSERT INTO fresh VALUES (1)", "fresh", ""),
    ("FETCH 300 FROM c", "t", "SELECT"),
];

#[test]
fn between_two_statements() {
    let mut scene = Scene::new("");
    for (statement, table, sql) in STATEMENTS {
        for savepoint in [false, true] {
            println!("{statement}, {savepoint}");
            scene.ok("BEGIN; INSERT INTO t VALUES (1000, ''); DECLARE c CURSOR FOR SELECT * FROM t; FETCH 1 FROM c");
            if savepoint {
                scene.ok("SAVEPOINT a");
            }
            scene.terminate();
            let error = scene.client.run(statement).expect_error();
            lost(&error, TERMINATED);
            let place = format!("server \"s\", foreign table \"{table}\"");
            assert!(error.context().starts_with(&place), "{error:?}");
            assert!(error.context().contains(sql), "{error:?}");
            if savepoint {
                // What was done outside is gone, and nobody can say that it is not.
                scene.ok("ROLLBACK TO a");
                let later = scene.client.run("SELECT * FROM t").expect_error();
                lost(&later, TERMINATED);
                // That was another statement.
                assert_eq!(later.context(), "");
            }
            assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
            assert_eq!(scene.stored(), "500");
        }
    }
}

#[test]
fn a_block_that_catches_the_loss_leaves_its_statement_behind() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t VALUES (1000, '')");
    scene.terminate();
    scene.ok("DO $$ BEGIN INSERT INTO t VALUES (1001, ''); EXCEPTION WHEN connection_failure THEN NULL; END $$");
    let error = scene.client.run("COMMIT").expect_error();
    lost(&error, TERMINATED);
    assert_eq!(error.context(), "");
    assert_eq!(scene.stored(), "500");
}

#[test]
fn while_a_statement_runs() {
    let mut scene = Scene::new("");
    scene.client.send("SELECT * FROM slow");
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    wait_until("the sleep", || scene.shard.value(asleep) == "1");
    scene.terminate();
    let error = scene.client.receive().expect_error();
    lost(&error, TERMINATED);
    assert!(
        error
            .context()
            .starts_with("server \"s\", foreign table \"slow\"\nremote SQL command: SELECT"),
        "{error:?}"
    );
}

#[test]
fn before_the_end_of_the_transaction() {
    for policy in ["statement", "transaction"] {
        let mut scene = Scene::new("");
        scene.ok(&format!("SET shard_fdw.flush_policy = {policy}"));
        scene.ok("BEGIN; INSERT INTO t VALUES (1000, '')");
        scene.terminate();
        lost(&scene.client.run("COMMIT").expect_error(), TERMINATED);
        // The end of a subtransaction finds it, or that of the transaction.
        scene.ok(
            "BEGIN; INSERT INTO t VALUES (1000, ''); SAVEPOINT a; INSERT INTO t VALUES (1001, '')",
        );
        scene.terminate();
        let reply = scene.client.run("RELEASE a");
        let error = match reply.error {
            Some(error) => {
                assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
                error
            }
            None => scene.client.run("COMMIT").expect_error(),
        };
        lost(&error, TERMINATED);
        // Nobody wanted that to be kept.
        for sql in ["", "SAVEPOINT a; INSERT INTO t VALUES (1001, '')"] {
            scene.ok(&format!("BEGIN; INSERT INTO t VALUES (1000, ''); {sql}"));
            scene.terminate();
            if !sql.is_empty() {
                let reply = scene.client.run("ROLLBACK TO a").expect_ok();
                assert!(reply.notices.is_empty(), "{:?}", reply.notices);
            }
            let reply = scene.client.run("ROLLBACK").expect_ok();
            assert!(reply.notices.is_empty(), "{:?}", reply.notices);
        }
        assert_eq!(scene.stored(), "500");
        scene.ok("INSERT INTO t VALUES (1000, '')");
        assert_eq!(scene.stored(), "501");
    }
}

#[test]
fn by_a_time_limit() {
    let mut limits = vec![(
        "idle_in_transaction_session_timeout",
        "terminating connection due to idle-in-transaction timeout (SQLSTATE 25P03)",
    )];
    if major() >= 17 {
        limits.push((
            "transaction_timeout",
            "terminating connection due to transaction timeout (SQLSTATE 25P04)",
        ));
    }
    for (setting, said) in limits {
        let mut scene = Scene::new(&format!("session_settings '{setting}=300ms'"));
        for statement in [
            "SELECT * FROM t",
            "INSERT INTO t VALUES (1001, '')",
            "COMMIT",
        ] {
            scene.ok("BEGIN; INSERT INTO t VALUES (1000, '')");
            scene.wait_until_ended();
            lost(&scene.client.run(statement).expect_error(), said);
            assert_eq!(scene.client.run("ROLLBACK").tag(), "ROLLBACK");
        }
        assert_eq!(scene.stored(), "500");
    }
}

/// Outside of a transaction nothing is lost with a session.
#[test]
fn by_the_limit_for_idle_sessions() {
    let mut scene = Scene::new("session_settings 'idle_session_timeout=300ms'");
    for statement in [
        "SELECT count(*) FROM t",
        "SELECT shard_fdw_nextval('s', 'ids')",
    ] {
        scene.ok("SET shard_fdw.sequence_range = 1");
        scene.ok(statement);
        scene.wait_until_ended();
        let reply = scene.client.run(statement).expect_ok();
        assert!(reply.notices.is_empty(), "{:?}", reply.notices);
    }
}

#[test]
fn by_the_end_of_the_server() {
    let mut scene = Scene::new("");
    scene.ok("BEGIN; INSERT INTO t VALUES (1000, '')");
    scene.shard.restart();
    lost(
        &scene.client.run("SELECT * FROM t").expect_error(),
        TERMINATED,
    );
    scene.ok("ROLLBACK; BEGIN; INSERT INTO t VALUES (1000, '')");
    scene.wait_until_idle();
    scene.shard.stop_immediately();
    let said = "terminating connection due to immediate shutdown command (SQLSTATE 57P01)";
    lost(&scene.client.run("SELECT * FROM t").expect_error(), said);
    scene.shard.start_again();
    // Another backend crashes, and takes all others with it.
    scene.ok("ROLLBACK; BEGIN; INSERT INTO t VALUES (1000, '')");
    scene.wait_until_idle();
    let victim = scene.shard.simple();
    process_signal(victim.pid(), libc::SIGKILL);
    wait_until("the restart", || {
        Simple::connect(scene.shard.port(), "postgres", "postgres").is_ok_and(|mut client| {
            let started =
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shard_fdw'";
            let reply = client.run(started);
            reply.error.is_none() && reply.value() == "0"
        })
    });
    let said = "terminating connection because of crash of another server process (SQLSTATE 57P02)";
    lost(&scene.client.run("SELECT * FROM t").expect_error(), said);
    scene.ok("ROLLBACK");
    assert_eq!(scene.stored(), "500");
}

#[test]
fn without_a_word() {
    let mut scene = Scene::new("");
    let proxy = scene.use_proxy();
    scene.ok("SELECT count(*) FROM t");
    scene.ok("BEGIN; SELECT count(*) FROM t");
    proxy.cut_all(How::Reset);
    let error = scene
        .client
        .run("INSERT INTO fresh VALUES (1)")
        .expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    assert!(!error.detail().is_empty(), "{error:?}");
    assert_eq!(error.context(), "server \"s\", foreign table \"fresh\"");
    scene.ok("ROLLBACK");
}

#[test]
fn while_it_is_made() {
    let mut scene = Scene::new("");
    let proxy = scene.use_proxy();
    // The first message comes after the shard has let us in.
    proxy.cut_before(Side::Client, "SELECT pg_catalog.set_config", How::Reset);
    let error = scene.client.run("SELECT * FROM t").expect_error();
    assert_eq!(error.sqlstate(), "08001", "{error:?}");
    assert_eq!(error.message(), "could not connect to server \"s\"");
    proxy.cut_before(Side::Client, "START TRANSACTION", How::Reset);
    let error = scene.client.run("SELECT * FROM t").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    // In a savepoint, that is over with it.
    scene.ok("BEGIN; SELECT shard_fdw_disconnect('s'); SAVEPOINT a");
    proxy.cut_before(Side::Client, "START TRANSACTION", How::Reset);
    let error = scene.client.run("SELECT * FROM t").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    scene.ok("ROLLBACK TO a; INSERT INTO t VALUES (1000, ''); COMMIT");
    assert_eq!(scene.stored(), "501");
}

/// A sequence's values are drawn outside of the transaction.
#[test]
fn while_values_are_drawn() {
    let mut scene = Scene::new("");
    scene.shard.sql("ALTER SEQUENCE ids CACHE 1");
    let mut holder = scene.shard.simple();
    holder.run("BEGIN; ALTER SEQUENCE ids CACHE 3").expect_ok();
    scene.client.send("SELECT shard_fdw_nextval('s', 'ids')");
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    wait_until("the wait", || scene.shard.value(waiting) == "1");
    scene.terminate();
    let error = scene.client.receive().expect_error();
    lost(&error, TERMINATED);
    holder.run("ROLLBACK").expect_ok();
    scene.ok("SELECT shard_fdw_nextval('s', 'ids')");
}

/// Whoever had sent COMMIT cannot know.
#[test]
fn while_the_shard_commits() {
    let mut scene = Scene::new("");
    scene.shard.sql(
        "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION hold();",
    );
    let mut holder = scene.shard.simple();
    holder.run("SELECT pg_advisory_lock(1)").expect_ok();
    scene.ok("BEGIN; INSERT INTO t VALUES (1000, '')");
    scene.client.send("COMMIT");
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    wait_until("the wait", || scene.shard.value(waiting) == "1");
    scene.terminate();
    let error = scene.client.receive().expect_error();
    assert_eq!(error.sqlstate(), "08007", "{error:?}");
    let detail =
        format!("Server \"s\": unknown: connection to server \"s\" was lost: {TERMINATED}");
    assert_eq!(error.detail(), detail);
    assert_eq!(scene.stored(), "500");
    assert_eq!(scene.coordinator.value("SELECT 1"), "1");
}
