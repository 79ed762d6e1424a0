//! A COPY that is hit while its command, its data or its end is under way; what the shard sends meanwhile; and the memory
//! that waiting rows take.

mod common;

use common::*;
use std::time::Duration;

/// How far a COPY has come.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    /// The shard has not answered the command.
    Command,
    /// The shard does not read on, and the sockets between are full.
    Data,
    /// The same, and then nothing gets through any more.
    StalledData,
    /// The shard has not answered the end of the data.
    End,
}

const PHASES: [Phase; 4] = [Phase::Command, Phase::Data, Phase::StalledData, Phase::End];

#[derive(Clone, Copy, PartialEq, Debug)]
enum Hit {
    Cancel,
    TerminateLocal,
    TerminateShard,
    CutLine,
}

const HITS: [Hit; 4] = [
    Hit::Cancel,
    Hit::TerminateLocal,
    Hit::TerminateShard,
    Hit::CutLine,
];

/// A table whose check of row 500 waits for a lock that `holder` has.
struct Scene {
    client: Simple,
    holder: Simple,
    proxy: Proxy,
    shard: Cluster,
    coordinator: Cluster,
}

impl Scene {
    fn new() -> Scene {
        let (coordinator, shard) = (Cluster::start(), Cluster::start());
        shard.sql(
            "CREATE FUNCTION hold(i int) RETURNS boolean LANGUAGE plpgsql AS
                 'BEGIN IF i = 500 THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN true; END';
             CREATE TABLE t (id int CHECK (public.hold(id)), v text)",
        );
        let proxy = Proxy::to(shard.port());
        proxy.let_cancels_pass();
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE t (id int, v text) SERVER far OPTIONS (schema_name 'public')",
                create_server(
                    "far",
                    proxy.port(),
                    "transport 'copy', batch_size '1000000', batch_bytes '256MB'"
                )
            ))
            .expect_ok();
        Scene {
            client,
            holder: shard.simple(),
            proxy,
            shard,
            coordinator,
        }
    }

    fn remote_pid(&mut self) -> String {
        let pid = "SELECT remote_backend_pid FROM shard_fdw_connections()";
        self.client.value(pid)
    }

    /// Begins a statement, and returns when its COPY has come so far.
    fn send(&mut self, phase: Phase) {
        self.proxy.reset();
        let small = "INSERT INTO t SELECT g, 'x' FROM generate_series(401, 600) g";
        if phase == Phase::Command {
            self.proxy.stall_from(Side::Shard);
            self.client.send(small);
            wait_until("the command", || {
                let events = self.proxy.events();
                events
                    .iter()
                    .any(|event| event.text.starts_with("COPY") && event.arrived)
            });
            // Before it waits it may have all it needs once the line goes on, and not look for interrupts.
            self.wait_until_waiting();
            return;
        }
        self.holder.run("SELECT pg_advisory_lock(1)").expect_ok();
        // More than the sockets and the proxy hold.
        let large = "INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(401, 45000) g";
        self.client
            .send(if phase == Phase::End { small } else { large });
        let locks = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_until("the wait for the lock", || self.shard.value(locks) == "1");
        if phase == Phase::End {
            wait_until("the end of the data", || self.ends() == 1);
            return;
        }
        self.wait_until_waiting();
        assert_eq!(self.ends(), 0, "the sockets have taken all of it");
        if phase == Phase::StalledData {
            self.proxy.stall_from(Side::Client);
        }
    }

    /// Waits until the coordinator's backend waits for the shard.
    fn wait_until_waiting(&self) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Extension'",
            self.client.pid()
        );
        wait_until("the wait", || self.coordinator.value(&waiting) == "1");
    }

    /// How many COPYs the coordinator has ended.
    fn ends(&self) -> u64 {
        self.proxy.traffic().messages(Side::Client, 'c')
    }

    fn wait_until_cancelled(&self) {
        wait_until("the cancel request", || self.proxy.traffic().cancels > 0);
    }

    /// Hits it, and returns the SQLSTATE that the client got.
    fn hit(&mut self, hit: Hit) -> String {
        match hit {
            Hit::Cancel => {
                self.client.cancel();
                self.wait_until_cancelled();
            }
            Hit::TerminateLocal => {
                let terminate = format!("SELECT pg_terminate_backend({})", self.client.pid());
                assert_eq!(self.coordinator.value(&terminate), "t");
                // With the line open again, the statement might end before the signal is seen.
                self.wait_until_cancelled();
            }
            Hit::TerminateShard => {
                let terminate =
                    "SELECT bool_and(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity
                    WHERE application_name = 'shard_fdw'";
                assert_eq!(self.shard.value(terminate), "t");
            }
            Hit::CutLine => self.proxy.cut_all(How::Reset),
        }
        self.proxy.resume();
        let reply = self.client.receive();
        if hit == Hit::TerminateLocal {
            self.client = self.coordinator.simple();
        }
        self.holder
            .run("SELECT pg_advisory_unlock_all()")
            .expect_ok();
        reply.expect_error().sqlstate().to_string()
    }

    /// What is stored, once the shard has nothing under way.
    fn stored(&self) -> String {
        let busy = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'shard_fdw' AND state IS DISTINCT FROM 'idle'";
        wait_until("the end on the shard", || self.shard.value(busy) == "0");
        let ids = "SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM t";
        self.shard.value(ids)
    }

    fn works(&mut self) {
        let write = "BEGIN; INSERT INTO t VALUES (1, 'one'); DELETE FROM t WHERE id = 1; COMMIT";
        assert_eq!(self.client.run(write).tag(), "COMMIT");
    }
}

fn expected(hit: Hit) -> &'static str {
    match hit {
        Hit::Cancel => "57014",
        Hit::TerminateLocal => "57P01",
        Hit::TerminateShard | Hit::CutLine => "08006",
    }
}

#[test]
fn nothing_stays_of_a_copy_that_is_hit() {
    let mut scene = Scene::new();
    for phase in PHASES {
        for hit in HITS {
            let what = format!("{phase:?}, {hit:?}");
            println!("{what}");
            scene.works();
            let pid = scene.remote_pid();
            scene
                .client
                .run("BEGIN; INSERT INTO t VALUES (2, 'two')")
                .expect_ok();
            scene.send(phase);
            let sqlstate = scene.hit(hit);
            assert_eq!(sqlstate, expected(hit), "{what}");
            if hit != Hit::TerminateLocal {
                assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK", "{what}");
            }
            assert_eq!(scene.stored(), "", "{what}");
            scene.works();
            if hit == Hit::Cancel {
                assert_eq!(scene.remote_pid(), pid, "{what}");
            }
        }
    }
}

#[test]
fn only_the_savepoint_of_a_copy_that_is_canceled_is_undone() {
    let mut scene = Scene::new();
    for phase in PHASES {
        let what = format!("{phase:?}");
        scene
            .client
            .run("BEGIN; INSERT INTO t VALUES (2, 'two'); SAVEPOINT a; INSERT INTO t VALUES (3, 'three')")
            .expect_ok();
        let pid = scene.remote_pid();
        scene.send(phase);
        assert_eq!(scene.hit(Hit::Cancel), "57014", "{what}");
        scene
            .client
            .run("ROLLBACK TO a; INSERT INTO t VALUES (4, 'four'); COMMIT")
            .expect_ok();
        assert_eq!(scene.stored(), "2,4", "{what}");
        assert_eq!(scene.remote_pid(), pid, "{what}");
        scene.client.run("DELETE FROM t").expect_ok();
    }
    // Of a lost connection nothing survives, and the transaction knows.
    for phase in [Phase::Command, Phase::Data, Phase::End] {
        scene
            .client
            .run("BEGIN; INSERT INTO t VALUES (2, 'two'); SAVEPOINT a; INSERT INTO t VALUES (3, 'three')")
            .expect_ok();
        scene.send(phase);
        assert_eq!(scene.hit(Hit::CutLine), "08006");
        scene.client.run("ROLLBACK TO a").expect_ok();
        let error = scene
            .client
            .run("INSERT INTO t VALUES (4, '')")
            .expect_error();
        assert_eq!(error.sqlstate(), "08006", "{error:?}");
        assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
        assert_eq!(scene.stored(), "");
        scene.works();
    }
}

#[test]
fn a_timeout_ends_each_phase() {
    let mut scene = Scene::new();
    scene.works();
    for phase in PHASES {
        let pid = scene.remote_pid();
        scene
            .client
            .run("BEGIN; INSERT INTO t VALUES (2, 'two'); SET LOCAL statement_timeout = '3s'")
            .expect_ok();
        scene.send(phase);
        scene.wait_until_cancelled();
        scene.proxy.resume();
        let error = scene.client.receive().expect_error();
        assert_eq!(error.sqlstate(), "57014", "{phase:?}: {error:?}");
        scene
            .holder
            .run("SELECT pg_advisory_unlock_all()")
            .expect_ok();
        scene.client.run("ROLLBACK").expect_ok();
        assert_eq!(scene.stored(), "", "{phase:?}");
        assert_eq!(scene.remote_pid(), pid, "{phase:?}");
    }
}

/// Neither side waits for the other one to read, and what the shard says is told.
#[test]
fn a_shard_that_talks_during_a_copy_is_listened_to() {
    let mut scene = Scene::new();
    scene.shard.sql(
        "CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS
             'BEGIN RAISE NOTICE ''% %'', NEW.id, repeat(''!'', 1500); RETURN NULL; END';
         CREATE FUNCTION talk(i int) RETURNS boolean LANGUAGE plpgsql AS
             'BEGIN RAISE NOTICE ''% %'', i, repeat(''!'', 1500); RETURN true; END';
         CREATE TABLE after_row (id int, v text); CREATE TABLE checked (id int CHECK (public.talk(id)), v text);
         CREATE TRIGGER shout AFTER INSERT ON after_row FOR EACH ROW EXECUTE FUNCTION shout()",
    );
    for table in ["after_row", "checked"] {
        scene
            .client
            .run(&format!("CREATE FOREIGN TABLE {table} (id int, v text) SERVER far OPTIONS (schema_name 'public')"))
            .expect_ok();
        scene.proxy.reset();
        scene.client.set_limit(Duration::from_secs(60));
        let load = format!(
            "INSERT INTO {table} SELECT g, repeat('x', 1500) FROM generate_series(1, 20000) g"
        );
        let reply = scene.client.run(&load);
        assert_eq!(reply.tag(), "INSERT 0 20000", "{table}");
        let traffic = scene.proxy.traffic();
        assert!(traffic.bytes_from_client > 30_000_000, "{traffic:?}");
        assert!(traffic.bytes_from_shard > 30_000_000, "{traffic:?}");
        // The newest ones, at least.
        let last = reply
            .notices
            .last()
            .map(|notice| notice.message().to_string());
        let last = last.unwrap_or_default();
        assert!(last.starts_with("20000 !!!"), "{table}: {last}");
        assert!(reply.notices.len() > 100, "{}", reply.notices.len());
    }
}

/// Rows of 64 tables on two shards are held in no more than `buffer_memory`.
#[test]
fn the_memory_for_rows_is_bounded() {
    let coordinator = Cluster::start();
    let shards = Shards::start(2);
    shards.attach(&coordinator, "batch_size '100000', transport 'auto'");
    let mut script = "CREATE TABLE t (k int, id int, v text) PARTITION BY LIST (k);".to_string();
    for k in 0..64 {
        let shard = k % 2;
        shards[shard].sql(&format!("CREATE TABLE t{k} (k int, id int, v text)"));
        script.push_str(&format!(
            "CREATE FOREIGN TABLE t{k} PARTITION OF t FOR VALUES IN ({k}) SERVER shard{} OPTIONS (schema_name 'public');",
            shard + 1
        ));
    }
    coordinator.sql(&script);
    let limit = 1024 * 1024;
    for transport in ["insert", "copy", "auto"] {
        for server in ["shard1", "shard2"] {
            coordinator.sql(&format!(
                "ALTER SERVER {server} OPTIONS (SET transport '{transport}')"
            ));
        }
        shards.sql(
            "DO $$ DECLARE t regclass; BEGIN FOR t IN SELECT oid FROM pg_class WHERE relname ~ '^t[0-9]' LOOP
                EXECUTE format('TRUNCATE %s', t); END LOOP; END $$",
        );
        let mut client = coordinator.simple();
        client
            .run("SET shard_fdw.buffer_memory = '1MB'; SET shard_fdw.copy_rows = 1")
            .expect_ok();
        let load =
            "INSERT INTO t SELECT g % 64, g, repeat('v', 100) FROM generate_series(1, 100000) g";
        assert_eq!(client.run(load).tag(), "INSERT 0 100000", "{transport}");
        let all = client.run("SELECT * FROM shard_fdw_stats()");
        let stats = format!("SELECT max(peak_buffered_bytes) BETWEEN {limit} / 2 AND {limit}, sum(flushes_memory) > 10,
            sum(buffered_bytes), sum(rows) FROM shard_fdw_stats()");
        assert_eq!(
            client.run(&stats).lines(),
            ["t|t|0|100000"],
            "{transport}: {all:?}"
        );
        // A row that is larger passes.
        let huge =
            "INSERT INTO t SELECT g % 4, g, repeat('w', 3000000) FROM generate_series(1, 12) g";
        assert_eq!(client.run(huge).tag(), "INSERT 0 12", "{transport}");
        let stats = "SELECT max(peak_buffered_bytes), sum(buffered_bytes) FROM shard_fdw_stats()";
        let lines = client.run(stats).lines();
        let peak: usize = lines[0].trim_end_matches("|0").parse().expect("a number");
        assert!(
            peak > 3_000_000 && peak < 3_000_000 + limit,
            "{transport}: {peak}"
        );
        let sums = "SELECT count(*), sum(length(v)) FROM t";
        assert_eq!(
            client.run(sums).lines(),
            [format!("100012|{}", 10_000_000 + 36_000_000)]
        );
    }
}
