//! The tests' own tools: do they see what they are meant to see?

mod common;

use common::*;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A query on a connection through the proxy.
fn through(proxy: &Proxy) -> Simple {
    Simple::connect(proxy.port(), "postgres", "postgres").expect("connect through the proxy")
}

#[test]
fn server_under_test_is_the_one_built_for() {
    let cluster = Cluster::start();
    let number: u32 = cluster.value("SHOW server_version_num").parse().unwrap();
    assert_eq!(number / 10_000, u32::from(major()));
    assert_eq!(
        cluster
            .connect()
            .query_one("SELECT 1", &[])
            .unwrap()
            .get::<_, i32>(0),
        1
    );
    let output = cluster.psql(&["-At"], "SELECT 40 + 2;\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n");
}

#[test]
fn server_survives_stop_and_crash_and_keeps_its_data() {
    let mut cluster = Setup::new().set("work_mem", "5MB").start();
    cluster.sql("CREATE TABLE t AS SELECT 1 AS a");
    cluster.restart();
    assert_eq!(cluster.value("SHOW work_mem"), "5MB");
    cluster.stop_immediately();
    cluster.start_again();
    let mut client = cluster.simple();
    cluster.kill_backend(client.pid());
    assert_eq!(client.run("SELECT 1").status, '-');
    assert_eq!(cluster.value("SELECT a FROM t"), "1");
}

#[test]
fn suspicious_log_lines_are_found() {
    let log = "\
x [1] LOG:  database system is ready\n\
x [2] a@b PANIC:  could not open file\n\
TRAP: failed Assert(\"x\")\n\
x [3] a@b WARNING:  snapshot 0x1 still active, leaked\n\
x [4] LOG:  server process (PID 5) was terminated by signal 11: Segmentation fault\n\
x [4] LOG:  server process (PID 6) was terminated by signal 9: Killed\n\
x [5] a@b WARNING:  there is already a transaction in progress\n";
    assert_eq!(suspicious(log, false).len(), 5);
    assert_eq!(suspicious(log, true).len(), 4);
    assert!(suspicious("x [1] LOG:  all is well, no leak\n", false).is_empty());
}

#[test]
#[should_panic(expected = "must not hold")]
fn suspicious_log_fails_its_test() {
    let cluster = Cluster::start();
    cluster.sql("DO $$ BEGIN RAISE WARNING 'this is a leak'; END $$");
}

#[test]
fn simple_client_reports_tags_values_errors_and_notices() {
    let cluster = Cluster::start();
    let mut client = cluster.simple();
    let reply = client.run(
        "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, NULL), (2, 'x');\
         SELECT b, a FROM t ORDER BY a;",
    );
    let tags: Vec<&str> = reply.statements.iter().map(|s| s.tag.as_str()).collect();
    assert_eq!(tags, ["CREATE TABLE", "INSERT 0 2", "SELECT 2"]);
    assert_eq!(reply.statements[2].columns, ["b", "a"]);
    assert_eq!(reply.lines(), ["|1", "x|2"]);
    assert_eq!(reply.rows()[0], [None, Some("1".to_string())]);

    assert_eq!(
        client.copy_in("COPY t FROM STDIN", b"3\ty\n4\tz\n").tag(),
        "COPY 2"
    );
    assert_eq!(
        client.run("COPY t TO STDOUT").copied,
        b"1\t\\N\n2\tx\n3\ty\n4\tz\n"
    );

    let error = client
        .run("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23505', DETAIL = 'd', CONSTRAINT = 'k'; END $$")
        .expect_error();
    assert_eq!(
        (
            error.sqlstate(),
            error.message(),
            error.detail(),
            error.constraint()
        ),
        ("23505", "no", "d", "k")
    );
    assert_eq!(client.run("BEGIN").status, 'T');
    assert_eq!(client.run("SELECT 1/0").status, 'E');
    let reply = client.run("ROLLBACK; ROLLBACK").expect_ok();
    assert_eq!(reply.notices[0].severity(), "WARNING");

    client.send("SELECT pg_sleep(100)");
    assert!(!client.answers_within(Duration::from_millis(100)));
    client.cancel();
    assert_eq!(client.receive().expect_error().sqlstate(), "57014");
}

#[test]
fn every_shard_version_starts() {
    for major in shard_majors() {
        let shard = Setup::of_major(major).start();
        let number: u32 = shard.value("SHOW server_version_num").parse().unwrap();
        assert_eq!(number / 10_000, u32::from(major));
    }
}

#[test]
fn pooler_shares_one_server_connection() {
    let cluster = Cluster::start();
    let pooler = PgBouncer::start(&cluster, 1);
    let mut first = Simple::connect(pooler.port(), "postgres", "postgres").unwrap();
    let mut second = Simple::connect(pooler.port(), "postgres", "postgres").unwrap();
    let pid = first.value("SELECT pg_backend_pid()");
    assert_eq!(second.value("SELECT pg_backend_pid()"), pid);
}

#[test]
fn proxy_counts_round_trips_bytes_and_messages() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    let mut client = through(&proxy);
    assert_eq!(proxy.traffic().round_trips, 1);
    proxy.reset();

    client.run("SELECT 1").expect_ok();
    client
        .run("SELECT 2; SELECT repeat('x', 300000)")
        .expect_ok();
    let traffic = proxy.traffic();
    assert_eq!(traffic.round_trips, 2);
    assert!(traffic.bytes_from_shard > 300_000);
    // type byte, length and terminating zero
    let text = "SELECT 1".len() + "SELECT 2; SELECT repeat('x', 300000)".len();
    assert_eq!(traffic.bytes_from_client, text as u64 + 2 * 6);
    assert_eq!(traffic.messages(Side::Client, 'Q'), 2);
    assert_eq!(traffic.messages(Side::Shard, 'D'), 3);
    assert_eq!(traffic.connections, 0);
    assert_eq!(
        proxy.queries(),
        ["SELECT 1", "SELECT 2; SELECT repeat('x', 300000)"]
    );

    // Two queries in one go are one round trip only if the second was sent before the first answer.
    proxy.reset();
    proxy.stall_from(Side::Client);
    client.send("SELECT 3");
    client.send("SELECT 4");
    while proxy.traffic().messages(Side::Client, 'Q') < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    proxy.resume();
    client.receive().expect_ok();
    client.receive().expect_ok();
    assert_eq!(proxy.traffic().round_trips, 1);
}

#[test]
fn proxy_reads_the_extended_protocol() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    let mut client = postgres::Config::new()
        .host("127.0.0.1")
        .port(proxy.port())
        .user("postgres")
        .dbname("postgres")
        .connect(postgres::NoTls)
        .unwrap();
    proxy.reset();
    client.query("SELECT $1::int4", &[&7]).unwrap();
    assert_eq!(proxy.queries(), ["SELECT $1::int4"]);
    let traffic = proxy.traffic();
    // prepare, then execute
    assert_eq!(traffic.round_trips, 2);
    assert_eq!(traffic.messages(Side::Client, 'E'), 1);
    assert_eq!(traffic.messages(Side::Shard, 'D'), 1);
}

#[test]
fn proxy_delays_each_direction() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    let mut client = through(&proxy);
    proxy.set_delay(Duration::from_millis(40));
    let begin = Instant::now();
    client.run("SELECT 1").expect_ok();
    assert!(begin.elapsed() >= Duration::from_millis(80));
}

#[test]
fn proxy_stalls_and_resumes() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    let mut client = through(&proxy);
    proxy.stall_from(Side::Shard);
    client.send("CREATE TABLE stalled ()");
    while proxy.traffic().messages(Side::Shard, 'C') == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!client.answers_within(Duration::from_millis(100)));
    assert_eq!(cluster.value("SELECT count(*) FROM stalled"), "0");
    proxy.resume();
    assert_eq!(client.receive().tag(), "CREATE TABLE");
}

#[test]
fn proxy_lets_cancel_requests_pass_a_stall() {
    use std::io::{Read, Write};
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    proxy.let_cancels_pass();
    proxy.stall();
    // libpq asks for encryption first. The request itself is one for a backend that does not exist.
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connect");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("set the limit");
    let mut answer = [0];
    stream
        .write_all(&[0, 0, 0, 8, 4, 210, 22, 47])
        .expect("ask");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"N");
    stream
        .write_all(&[0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 0])
        .expect("cancel");
    assert_eq!(stream.read(&mut answer).expect("its end"), 0);
    assert_eq!(proxy.traffic().cancels, 1);

    // Sessions are stalled as ever.
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connect");
    let limit = Some(Duration::from_millis(100));
    stream.set_read_timeout(limit).expect("set the limit");
    let startup = b"\0\0\0\x1d\0\x03\0\0user\0postgres\0\0";
    stream.write_all(startup).expect("start");
    assert!(stream.read(&mut answer).is_err());
    proxy.resume();
}

#[test]
#[should_panic(expected = "held back: Q \"SELECT 'never sent'\"")]
fn what_never_comes_is_explained() {
    let cluster = Cluster::start();
    let proxy = Proxy::to(cluster.port());
    let mut client = through(&proxy);
    proxy.stall();
    client.send("SELECT 'never sent'");
    let limit = Duration::from_millis(300);
    wait_at_most(limit, "an answer", || client.answers_within(limit / 10));
}

#[test]
fn proxy_cuts_one_all_and_refuses() {
    let cluster = Setup::new()
        .set("client_connection_check_interval", "100")
        .start();
    let proxy = Proxy::to(cluster.port());
    let mut first = through(&proxy);
    let mut second = through(&proxy);
    proxy.cut(0, How::Close);
    assert_eq!(first.run("SELECT 1").status, '-');
    assert_eq!(second.value("SELECT 1"), "1");
    assert_eq!(proxy.open_connections(), [1]);

    second.send("SELECT pg_sleep(100)");
    proxy.cut_all(How::Reset);
    let lost = second.receive().expect_error();
    assert!(lost.message().contains("reset"), "{lost:?}");

    proxy.refuse(true);
    assert!(Simple::connect(proxy.port(), "postgres", "postgres").is_err());
    proxy.refuse(false);
    assert_eq!(through(&proxy).value("SELECT 1"), "1");
    // The server has noticed as well: all its backends but ours are gone in the end.
    let backends = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    while cluster.value(backends) != "1" {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Opens a transaction that inserts a row, and tries to commit it through the proxy.
fn commit_through(proxy: &Proxy) -> Reply {
    let mut client = through(proxy);
    proxy.reset();
    client.run("BEGIN; INSERT INTO t VALUES (1)").expect_ok();
    client.run("COMMIT")
}

#[test]
fn proxy_cuts_around_a_commit_and_knows_its_fate() {
    for how in [How::Close, How::Reset] {
        let cluster = Cluster::start();
        cluster.sql("CREATE TABLE t (a int)");
        let proxy = Proxy::to(cluster.port());

        // Connections are numbered in the order of their beginning.
        proxy.cut_before(Side::Client, "COMMIT", how);
        assert_eq!(commit_through(&proxy).status, '-');
        assert_eq!(proxy.commit(0), Commit::NotSent);
        assert_eq!(proxy.triggered(), 1);
        // Its transaction is gone once the lock is.
        cluster.sql("BEGIN; LOCK t; COMMIT");
        assert_eq!(cluster.value("SELECT count(*) FROM t"), "0");

        proxy.cut_after(Side::Client, "commit", how);
        assert_eq!(commit_through(&proxy).status, '-');
        assert_eq!(proxy.commit(1), Commit::Unanswered);
        cluster.sql("BEGIN; LOCK t; COMMIT");
        assert_eq!(cluster.value("SELECT count(*) FROM t"), "1");

        proxy.cut_before(Side::Shard, "COMMIT", how);
        assert_eq!(commit_through(&proxy).status, '-');
        assert_eq!(proxy.commit(2), Commit::Unanswered);
        assert_eq!(cluster.value("SELECT count(*) FROM t"), "2");

        assert_eq!(commit_through(&proxy).tag(), "COMMIT");
        assert_eq!(proxy.commit(3), Commit::Committed);

        let mut client = through(&proxy);
        proxy.reset();
        client.run("BEGIN");
        client.run("SELECT 1/0").expect_error();
        assert_eq!(client.run("COMMIT").tag(), "ROLLBACK");
        assert_eq!(proxy.commit(4), Commit::Refused);
    }
}
