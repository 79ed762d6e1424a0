//! What a client is told when COMMIT does not go well on all shards.

mod common;

use common::*;

/// A coordinator with foreign tables `t1`, `t2` on two shards, each behind a proxy.
struct Scene {
    coordinator: Cluster,
    client: Simple,
    shards: Shards,
    proxies: [Proxy; 2],
}

impl Scene {
    fn new(options: &str) -> Scene {
        let coordinator = Cluster::start();
        let shards = Shards::start(2);
        shards.sql("CREATE TABLE t (id int)");
        let proxies = [Proxy::to(shards[0].port()), Proxy::to(shards[1].port())];
        let mut script = "CREATE EXTENSION shard_fdw;".to_string();
        for (number, proxy) in (1..).zip(&proxies) {
            script.push_str(&create_server(&format!("s{number}"), proxy.port(), options));
            script.push_str(&format!(
                "CREATE FOREIGN TABLE t{number} (id int) SERVER s{number}
                     OPTIONS (schema_name 'public', table_name 't');
                 SELECT count(*) FROM t{number};"
            ));
        }
        let mut client = coordinator.simple();
        client.run(&script).expect_ok();
        Scene {
            coordinator,
            client,
            shards,
            proxies,
        }
    }

    /// Begins a transaction that inserts a row on each of these shards.
    fn insert(&mut self, shards: &[usize]) {
        self.client.run("BEGIN").expect_ok();
        for shard in shards {
            let insert = format!("INSERT INTO t{} VALUES (1)", shard + 1);
            assert_eq!(self.client.run(&insert).tag(), "INSERT 0 1");
        }
    }

    /// Rows on a shard, once nobody has a transaction open there.
    fn rows(&self, shard: usize) -> String {
        self.shards[shard].sql("BEGIN; LOCK t; COMMIT");
        self.shards[shard].value("SELECT count(*) FROM t")
    }

    /// From now on, whoever has inserted rows on a shard waits at COMMIT or SET CONSTRAINTS, until the value is dropped.
    fn hold_up(&self, shard: usize) -> Simple {
        self.shards[shard].sql(
            "CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
             CREATE CONSTRAINT TRIGGER held_up AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION held_up();",
        );
        let mut holder = self.shards[shard].simple();
        holder.run("SELECT pg_advisory_lock(1)").expect_ok();
        holder
    }

    fn wait_until_held_up(&self, shard: usize) {
        wait_until("the wait of the trigger", || {
            let waiting =
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            self.shards[shard].value(waiting) == "1"
        });
    }

    /// The session must be as good as new.
    fn check_afterwards(&mut self) {
        self.insert(&[0, 1]);
        assert_eq!(self.client.run("COMMIT").tag(), "COMMIT");
    }
}

fn unknown(error: &Fields) {
    assert_eq!(error.sqlstate(), "08007", "{error:?}");
    assert_eq!(
        error.message(),
        "could not commit the transaction on all servers"
    );
}

#[test]
fn one_server_whose_answer_is_lost() {
    let mut scene = Scene::new("");
    for (cut_answer, stored) in [(false, "0"), (true, "1")] {
        scene.insert(&[0]);
        if cut_answer {
            scene.proxies[0].cut_before(Side::Shard, "COMMIT", How::Reset);
        } else {
            scene.proxies[0].cut_before(Side::Client, "COMMIT", How::Reset);
        }
        let error = scene.client.run("COMMIT").expect_error();
        unknown(&error);
        assert!(
            error.detail().starts_with("Server \"s1\": unknown: "),
            "{error:?}"
        );
        assert_eq!(scene.rows(0), stored);
    }
    scene.check_afterwards();
}

#[test]
fn a_loss_before_the_first_commit_undoes_all() {
    let mut scene = Scene::new("");
    scene.insert(&[0, 1]);
    scene.proxies[1].cut_before(Side::Client, "SET CONSTRAINTS", How::Reset);
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "08006", "{error:?}");
    assert_eq!((scene.rows(0), scene.rows(1)), ("0".into(), "0".into()));
    scene.check_afterwards();
}

#[test]
fn deferred_constraints_fail_before_anybody_commits() {
    let mut scene = Scene::new("");
    scene.shards[1].sql(
        "ALTER TABLE t ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED; INSERT INTO t VALUES (1)",
    );
    scene.insert(&[0, 1]);
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "23505", "{error:?}");
    assert_eq!((scene.rows(0), scene.rows(1)), ("0".into(), "1".into()));
    scene.insert(&[1]);
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "23505", "{error:?}");
    assert_eq!(scene.rows(1), "1");
}

#[test]
fn one_of_two_servers_is_lost_at_its_commit() {
    let mut scene = Scene::new("");
    scene.insert(&[0, 1]);
    scene.proxies[1].cut_before(Side::Client, "COMMIT", How::Close);
    let error = scene.client.run("COMMIT").expect_error();
    unknown(&error);
    let lines: Vec<&str> = error.detail().lines().collect();
    assert_eq!(lines[0], "Server \"s1\": committed.");
    assert!(
        lines[1].starts_with("Server \"s2\": unknown: "),
        "{lines:?}"
    );
    assert!(lines[1].ends_with(" (SQLSTATE 08006)"), "{lines:?}");
    assert_eq!((scene.rows(0), scene.rows(1)), ("1".into(), "0".into()));
    scene.check_afterwards();
}

#[test]
fn servers_that_commit_one_by_one_stop_at_the_first_failure() {
    let mut scene = Scene::new("parallel_commit 'false'");
    scene.insert(&[0, 1]);
    scene.proxies[0].cut_before(Side::Shard, "COMMIT", How::Reset);
    let error = scene.client.run("COMMIT").expect_error();
    unknown(&error);
    let lines: Vec<&str> = error.detail().lines().collect();
    assert!(
        lines[0].starts_with("Server \"s1\": unknown: "),
        "{lines:?}"
    );
    assert_eq!(lines[1], "Server \"s2\": rolled back, COMMIT was not sent.");
    assert_eq!((scene.rows(0), scene.rows(1)), ("1".into(), "0".into()));
    scene.check_afterwards();
}

#[test]
fn a_cancel_before_the_first_commit_undoes_all() {
    let mut scene = Scene::new("");
    let _holder = scene.hold_up(1);
    scene.insert(&[0, 1]);
    scene.client.send("COMMIT");
    scene.wait_until_held_up(1);
    scene.client.cancel();
    let error = scene.client.receive().expect_error();
    assert_eq!(error.sqlstate(), "57014", "{error:?}");
    assert_eq!((scene.rows(0), scene.rows(1)), ("0".into(), "0".into()));
}

#[test]
fn a_cancel_while_waiting_for_commit_says_that_its_outcome_is_unknown() {
    let mut scene = Scene::new("");
    let holder = scene.hold_up(0);
    scene.insert(&[0]);
    scene.client.send("COMMIT");
    scene.wait_until_held_up(0);
    scene.client.cancel();
    let error = scene.client.receive().expect_error();
    unknown(&error);
    assert!(error.detail().contains("\"s1\": unknown: "), "{error:?}");
    drop(holder);
    assert_eq!(scene.rows(0), "1");
    scene.check_afterwards();
}

#[test]
fn a_termination_while_waiting_for_commit_says_that_its_outcome_is_unknown() {
    let mut scene = Scene::new("");
    let holder = scene.hold_up(0);
    scene.insert(&[0]);
    scene.client.send("COMMIT");
    scene.wait_until_held_up(0);
    let pid = scene.client.pid();
    let terminate = format!("SELECT pg_terminate_backend({pid}, 20000)");
    assert_eq!(scene.coordinator.value(&terminate), "t");
    // The farewell of the backend comes after that.
    let error = scene.client.receive().expect_error();
    unknown(&error);
    assert!(error.detail().contains("\"s1\": unknown: "), "{error:?}");
    assert_eq!(scene.client.run("SELECT 1").status, '-');
    drop(holder);
    assert_eq!(scene.rows(0), "1");
}

#[test]
fn a_local_serialization_failure_comes_before_anybody_commits() {
    let mut scene = Scene::new("");
    scene
        .coordinator
        .sql("CREATE TABLE x (); CREATE TABLE y ()");
    let serializable = "BEGIN ISOLATION LEVEL SERIALIZABLE";
    scene
        .client
        .run(&format!("{serializable}; SELECT count(*) FROM x; INSERT INTO y DEFAULT VALUES; INSERT INTO t1 VALUES (1)"))
        .expect_ok();
    // Sees nothing of the other, and is not seen: only one of them can commit.
    scene.coordinator.sql(&format!(
        "{serializable}; SELECT count(*) FROM y; INSERT INTO x DEFAULT VALUES; COMMIT"
    ));
    let error = scene.client.run("COMMIT").expect_error();
    assert_eq!(error.sqlstate(), "40001", "{error:?}");
    assert_eq!(scene.rows(0), "0");
    scene.check_afterwards();
}

#[test]
fn a_terminated_backend_leaves_nothing_behind() {
    let mut scene = Scene::new("");
    let _holder = scene.hold_up(1);
    scene.insert(&[0, 1]);
    scene.client.send("COMMIT");
    scene.wait_until_held_up(1);
    let pid = scene.client.pid();
    let terminate = format!("SELECT pg_terminate_backend({pid}, 20000)");
    assert_eq!(scene.coordinator.value(&terminate), "t");
    assert_eq!((scene.rows(0), scene.rows(1)), ("0".into(), "0".into()));
}
