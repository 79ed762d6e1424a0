//! Cancel, timeouts and termination at each wait, and the session afterwards.

mod common;

use common::*;
use std::net::{TcpListener, TcpStream};

/// A coordinator with foreign tables on a shard behind a proxy, which lets cancel requests through whatever else it holds back.
struct Scene {
    client: Simple,
    proxy: Proxy,
    shard: Cluster,
    coordinator: Cluster,
}

/// On the shard: `t`; `slow`, which sleeps when it is read; `sleepy`, which sleeps when it is written to.
const REMOTE: &str = "CREATE TABLE t (id int, note text);
    INSERT INTO t SELECT i, 'note ' || i FROM generate_series(1, 1000) AS i;
    CREATE VIEW slow AS SELECT id FROM t WHERE id = 1 AND pg_sleep(300) IS NOT NULL;
    CREATE TABLE sleepy (id int);
    CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_sleep(300); RETURN NEW; END';
    CREATE TRIGGER sleep BEFORE INSERT ON sleepy FOR EACH ROW EXECUTE FUNCTION sleep();";

impl Scene {
    fn new() -> Scene {
        let coordinator = Cluster::start();
        let shard = Cluster::start();
        shard.sql(REMOTE);
        let proxy = Proxy::to(shard.port());
        proxy.let_cancels_pass();
        let mut client = coordinator.simple();
        client
            .run(&format!(
                "CREATE EXTENSION shard_fdw; {}
                 CREATE FOREIGN TABLE t (id int, note text) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE slow (id int) SERVER s OPTIONS (schema_name 'public');
                 CREATE FOREIGN TABLE sleepy (id int) SERVER s OPTIONS (schema_name 'public')",
                create_server("s", proxy.port(), "")
            ))
            .expect_ok();
        client.run("SELECT count(*) FROM t").expect_ok();
        proxy.reset();
        Scene {
            client,
            proxy,
            shard,
            coordinator,
        }
    }

    /// Process id of the shard's backend for the connection, so that a new connection shows.
    fn remote_pid(&mut self) -> String {
        let pid = "SELECT remote_backend_pid FROM shard_fdw_connections()";
        self.client.value(pid)
    }

    /// Has the shard been sent a statement that begins with `text`?
    fn sent(&self, text: &str) -> bool {
        let queries = self.proxy.queries();
        queries.iter().any(|query| query.starts_with(text))
    }

    fn wait_until_sent(&self, text: &str) {
        wait_until(text, || self.sent(text));
    }

    /// Waits until `done`. False: a timeout came before, and the transaction is being rolled back.
    fn is_before_rollback(&self, what: &str, done: impl Fn() -> bool) -> bool {
        wait_until(what, || done() || self.sent("ROLLBACK"));
        !self.sent("ROLLBACK")
    }

    /// Is nothing on its way to the shard, and nothing being added?
    fn is_quiet(&self) -> bool {
        let before = self.proxy.traffic().bytes_from_client;
        std::thread::sleep(std::time::Duration::from_millis(200));
        self.proxy.traffic().bytes_from_client == before && !self.proxy.holds_back("")
    }

    fn wait_until_cancelled(&self) {
        wait_until("the cancel request to the shard", || {
            self.proxy.traffic().cancels > 0
        });
    }

    /// The client's backend is in one of our waits.
    fn wait_until_waiting(&self) {
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Extension'",
            self.client.pid()
        );
        wait_until("the wait", || self.coordinator.value(&waiting) == "1");
    }

    fn wait_until_asleep(&self) {
        wait_until("the sleep", || asleep(&self.shard));
    }

    /// Reading and writing work, and nothing of before has stayed.
    fn check_afterwards(&mut self) {
        let rows = "SELECT count(*), sum(id) FROM t";
        assert_eq!(self.client.run(rows).lines(), ["1000|500500"]);
        let write = "BEGIN; INSERT INTO t VALUES (0, 'more'); DELETE FROM t WHERE id = 0; COMMIT";
        assert_eq!(self.client.run(write).tag(), "COMMIT");
        assert_eq!(self.shard.run_rows(rows), ["1000|500500"]);
    }
}

trait RunRows {
    fn run_rows(&self, query: &str) -> Vec<String>;
}

impl RunRows for Cluster {
    fn run_rows(&self, query: &str) -> Vec<String> {
        self.simple().run(query).lines()
    }
}

/// Does a backend of the shard sleep?
fn asleep(shard: &Cluster) -> bool {
    shard.value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
}

fn expect_canceled(reply: Reply) {
    let error = reply.expect_error();
    assert_eq!(error.sqlstate(), "57014", "{error:?}");
}

/// A port where connections are taken by the kernel, but nobody ever answers; or, when it is full, where not even that happens.
struct BlackHole {
    listener: TcpListener,
    fillers: Vec<TcpStream>,
}

impl BlackHole {
    fn silent() -> BlackHole {
        BlackHole {
            listener: TcpListener::bind("127.0.0.1:0").expect("bind"),
            fillers: Vec::new(),
        }
    }

    fn full() -> BlackHole {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("make a socket");
        let address: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        socket.bind(&address.into()).expect("bind");
        socket.listen(0).expect("listen");
        let mut hole = BlackHole {
            listener: socket.into(),
            fillers: Vec::new(),
        };
        let address = hole.listener.local_addr().expect("its address");
        let patience = std::time::Duration::from_millis(300);
        while let Ok(filler) = TcpStream::connect_timeout(&address, patience) {
            hole.fillers.push(filler);
            assert!(hole.fillers.len() < 100, "the port never gets full");
        }
        hole
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().expect("its address").port()
    }
}

#[test]
fn while_connecting() {
    let mut scene = Scene::new();
    for hole in [BlackHole::silent(), BlackHole::full()] {
        let port = format!("ALTER SERVER s OPTIONS (SET port '{}')", hole.port());
        scene.client.run(&port).expect_ok();
        scene
            .client
            .run("SET statement_timeout = '300ms'")
            .expect_ok();
        expect_canceled(scene.client.run("SELECT * FROM t"));
        expect_canceled(scene.client.run("INSERT INTO t VALUES (-1)"));
        scene.client.run("RESET statement_timeout").expect_ok();

        let pid = scene.client.pid();
        scene.client.send("SELECT * FROM t");
        scene.wait_until_waiting();
        scene.client.cancel();
        expect_canceled(scene.client.receive());

        // In a block that catches it, the transaction goes on.
        let caught = "DO $$ BEGIN
                PERFORM * FROM t;
            EXCEPTION WHEN query_canceled THEN RAISE NOTICE 'caught'; END $$";
        scene.client.send(caught);
        scene.wait_until_waiting();
        scene.coordinator.cancel_backend(pid);
        assert_eq!(
            scene.client.receive().expect_ok().notices[0].message(),
            "caught"
        );

        scene.client.send("SELECT * FROM t");
        scene.wait_until_waiting();
        let terminate = format!("SELECT pg_terminate_backend({pid}, 60000)");
        assert_eq!(scene.coordinator.value(&terminate), "t");
        assert_eq!(scene.client.receive().expect_error().sqlstate(), "57P01");
        scene.client = scene.coordinator.simple();

        let port = format!("ALTER SERVER s OPTIONS (SET port '{}')", scene.proxy.port());
        scene.client.run(&port).expect_ok();
        scene.check_afterwards();
    }
}

#[test]
fn while_the_shard_is_busy() {
    let mut scene = Scene::new();
    for statement in [
        "SELECT * FROM slow",
        "INSERT INTO sleepy VALUES (1), (2)",
        "COPY sleepy FROM PROGRAM 'echo 1'",
    ] {
        let pid = scene.remote_pid();
        scene.client.send(statement);
        scene.wait_until_asleep();
        scene.client.cancel();
        expect_canceled(scene.client.receive());
        assert!(!asleep(&scene.shard));
        // The shard was asked to stop, and did: there was no need for another connection.
        assert_eq!(scene.remote_pid(), pid);

        with_growing_timeout(&mut scene, |scene, timeout| {
            let set = format!("SET statement_timeout = '{timeout}'");
            scene.client.run(&set).expect_ok();
            scene.client.send(statement);
            let in_time = scene.client.waits_until(|| asleep(&scene.shard));
            expect_canceled(scene.client.receive());
            assert!(!asleep(&scene.shard));
            scene.client.run("RESET statement_timeout").expect_ok();
            scene.check_afterwards();
            in_time
        });
    }

    // Only the savepoint is undone.
    let pid = scene.remote_pid();
    scene
        .client
        .run("BEGIN; INSERT INTO t VALUES (2000, 'kept'); SAVEPOINT a; INSERT INTO t VALUES (2001, 'lost')")
        .expect_ok();
    scene.client.send("SELECT * FROM slow");
    scene.wait_until_asleep();
    scene.client.cancel();
    expect_canceled(scene.client.receive());
    scene.client.run("ROLLBACK TO a; COMMIT").expect_ok();
    assert_eq!(
        scene.shard.run_rows("SELECT note FROM t WHERE id >= 2000"),
        ["kept"]
    );
    assert_eq!(scene.remote_pid(), pid);

    // A backend that ends leaves nothing running on the shard for long.
    scene.client.send("INSERT INTO sleepy VALUES (1)");
    scene.wait_until_asleep();
    let terminate = format!("SELECT pg_terminate_backend({}, 60000)", scene.client.pid());
    assert_eq!(scene.coordinator.value(&terminate), "t");
    assert_eq!(scene.client.receive().expect_error().sqlstate(), "57P01");
    wait_until("the end of the sleep", || !asleep(&scene.shard));
}

#[test]
fn while_fetching_over_a_stalled_line() {
    /// Cancels where no timeout is given. False: the timeout came too early.
    fn fetch(scene: &mut Scene, timeout: Option<&str>) -> bool {
        let pid = scene.remote_pid();
        scene
            .client
            .run(&format!(
                "BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 10 FROM c; SET LOCAL statement_timeout = '{}'",
                timeout.unwrap_or("0")
            ))
            .expect_ok();
        scene.proxy.reset();
        scene.proxy.stall_from(Side::Shard);
        scene.client.send("FETCH ALL FROM c");
        let in_time = scene.is_before_rollback("FETCH", || scene.sent("FETCH"));
        if timeout.is_none() {
            scene.client.cancel();
        }
        if in_time {
            scene.wait_until_cancelled();
        }
        scene.proxy.resume();
        expect_canceled(scene.client.receive());
        assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
        scene.check_afterwards();
        assert_eq!(scene.remote_pid(), pid);
        in_time
    }

    let mut scene = Scene::new();
    assert!(fetch(&mut scene, None));
    with_growing_timeout(&mut scene, |scene, timeout| fetch(scene, Some(timeout)));
}

/// Loads of 40 MB, more than the sockets and the proxy hold. Most of COPY's comes once the file GO is there, as COPY has a
/// question for the shard before its first rows.
const LOADS: [&str; 2] = [
    "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 40000) AS i",
    "COPY t FROM PROGRAM 'row=$(printf \"1\\t%01000d\"); yes \"$row\" | head -n 3000;
         until [ -e GO ]; do sleep 0.1; done; yes \"$row\" | head -n 40000'",
];

#[test]
fn while_flushing_over_a_stalled_line() {
    /// Cancels where no timeout is given. False: the timeout came too early.
    fn flush(scene: &mut Scene, load: &str, timeout: Option<&str>) -> bool {
        let go = scene.coordinator.dir().join("go");
        let pid = scene.remote_pid();
        // The remote transaction and the column types are there before, so that only rows are left to send.
        let begin = format!(
            "BEGIN; INSERT INTO t VALUES (1, ''); SET LOCAL statement_timeout = '{}'",
            timeout.unwrap_or("0")
        );
        scene.client.run(&begin).expect_ok();
        scene.proxy.reset();
        let copies = load.contains("GO");
        if !copies {
            scene.proxy.stall_from(Side::Client);
        }
        scene
            .client
            .send(&load.replace("GO", &go.display().to_string()));
        let mut has_begun = scene.is_before_rollback("INSERT", || scene.sent("INSERT"));
        if copies {
            // Not in the middle of a message, whose rest might be all that the line takes.
            has_begun &= scene.is_before_rollback("a quiet line", || scene.is_quiet());
            scene.proxy.stall_from(Side::Client);
            std::fs::write(&go, "").expect("write the file");
        }
        // As long as the shard has not got these rows, there is something to cancel.
        let held_back = || {
            ["INSERT", "COPY"]
                .iter()
                .any(|text| scene.proxy.holds_back(text))
        };
        let in_time = has_begun && scene.is_before_rollback("rows held back", held_back);
        if timeout.is_none() {
            scene.wait_until_waiting();
            scene.client.cancel();
        }
        if in_time {
            scene.wait_until_cancelled();
        }
        scene.proxy.resume();
        expect_canceled(scene.client.receive());
        assert_eq!(scene.client.run("COMMIT").tag(), "ROLLBACK");
        scene.check_afterwards();
        std::fs::remove_file(&go).unwrap_or_else(|e| assert!(!copies, "{e}"));
        assert_eq!(scene.remote_pid(), pid);
        in_time
    }

    let mut scene = Scene::new();
    for load in LOADS {
        assert!(flush(&mut scene, load, None));
        with_growing_timeout(&mut scene, |scene, timeout| {
            flush(scene, load, Some(timeout))
        });
    }
}

/// Nothing is known of a connection that does not answer BEGIN, so it is closed at once, without a clean-up that would wait.
#[test]
fn while_beginning_over_a_stalled_line() {
    let mut scene = Scene::new();
    for side in [Side::Client, Side::Shard] {
        let pid = scene.remote_pid();
        scene.proxy.reset();
        scene.proxy.stall_from(side);
        scene.client.send("SELECT count(*) FROM t");
        scene.wait_until_sent("START TRANSACTION");
        assert!(!scene
            .client
            .answers_within(std::time::Duration::from_millis(100)));
        scene.client.cancel();
        expect_canceled(scene.client.receive());
        scene.proxy.resume();
        scene.check_afterwards();
        assert_ne!(scene.remote_pid(), pid);
    }
}

#[test]
fn while_waiting_for_commit() {
    let mut scene = Scene::new();
    // The answer is lost, or the question: nobody can tell the difference from here.
    for (side, rows) in [(Side::Shard, "1"), (Side::Client, "0")] {
        scene
            .client
            .run("BEGIN; INSERT INTO t VALUES (5000, '')")
            .expect_ok();
        scene.proxy.reset();
        scene.proxy.stall_from(side);
        scene.client.send("COMMIT");
        scene.wait_until_sent("COMMIT");
        let stored = "SELECT count(*) FROM t WHERE id = 5000";
        wait_until("the commit, if it gets through", || {
            scene.shard.value(stored) == rows
        });
        assert!(!scene
            .client
            .answers_within(std::time::Duration::from_millis(100)));
        scene.client.cancel();
        let error = scene.client.receive().expect_error();
        assert_eq!(error.sqlstate(), "08007", "{error:?}");
        assert!(
            error.detail().starts_with("Server \"s\": unknown: "),
            "{error:?}"
        );
        scene.proxy.cut_all(How::Reset);
        scene.proxy.resume();
        scene.shard.sql("BEGIN; LOCK t; COMMIT");
        assert_eq!(scene.shard.value(stored), rows);
        scene
            .client
            .run("DELETE FROM t WHERE id = 5000")
            .expect_ok();
        scene.check_afterwards();
    }
}

/// Nobody lets the line go on: cleaning up ends with its own limit, and the connection is closed.
#[test]
fn while_the_line_stays_stalled() {
    let mut scene = Scene::new();
    let pid = scene.remote_pid();
    scene
        .client
        .run("BEGIN; INSERT INTO t VALUES (1, '')")
        .expect_ok();
    scene.proxy.reset();
    scene.proxy.stall_from(Side::Shard);
    scene.client.send("SELECT count(*) FROM t");
    scene.wait_until_sent("DECLARE");
    scene.client.cancel();
    expect_canceled(scene.client.receive());
    // Still stalled, so nothing but closing it can have ended the wait.
    let open = "SELECT count(*) FROM shard_fdw_connections()";
    assert_eq!(scene.client.run("ROLLBACK").tag(), "ROLLBACK");
    assert_eq!(scene.client.value(open), "0");
    scene.proxy.resume();
    scene.check_afterwards();
    assert_ne!(scene.remote_pid(), pid);
}
