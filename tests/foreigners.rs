//! Servers that speak PostgreSQL's protocol and are not PostgreSQL 14 or later.

mod common;

use common::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Answers one client as a server with these reported parameters does, until the client has gone. Returns the port, and
/// what the client sent after the start.
fn fake_server(
    parameters: Vec<(&'static str, &'static str)>,
) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let port = listener.local_addr().expect("its address").port();
    let thread = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        serve(&mut client, &parameters).expect("speak to the client")
    });
    (port, thread)
}

fn serve(client: &mut TcpStream, parameters: &[(&str, &str)]) -> std::io::Result<Vec<u8>> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
        client.read_exact(&mut body)?;
        if body[..4] == 196_608_u32.to_be_bytes() {
            break;
        }
        // No encryption of any kind.
        client.write_all(b"N")?;
    }
    let mut answer = message(b'R', &[0; 4]);
    for (name, value) in parameters {
        answer.extend(message(b'S', format!("{name}\0{value}\0").as_bytes()));
    }
    answer.extend(message(b'K', &[0, 0, 0, 7, 0, 0, 0, 9]));
    answer.extend(message(b'Z', b"I"));
    client.write_all(&answer)?;
    let mut rest = Vec::new();
    client.read_to_end(&mut rest)?;
    Ok(rest)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a short message");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}

fn coordinator() -> Cluster {
    let coordinator = Cluster::start();
    coordinator.sql(&format!(
        "CREATE EXTENSION shard_fdw; {} CREATE FOREIGN TABLE t (id int) SERVER s",
        create_server("s", 1, "")
    ));
    coordinator
}

#[test]
fn other_servers_are_refused_at_connect() {
    let coordinator = coordinator();
    let mut client = coordinator.simple();
    for (parameters, shown) in [
        (vec![("server_version", "9.6.24")], "9.6.24"),
        (
            vec![("server_version", "13.14 (Debian 13.14-1)")],
            "13.14 (Debian 13.14-1)",
        ),
        (vec![("server_version", "8.0.2")], "8.0.2"),
        (
            vec![
                ("server_version", "13.0.0"),
                ("crdb_version", "CockroachDB CCL v23.1.11"),
            ],
            "13.0.0",
        ),
        (
            vec![
                ("server_version", "15.0.0"),
                ("crdb_version", "CockroachDB CCL v30.1"),
            ],
            "15.0.0",
        ),
        (
            vec![("server_version", "15.2-YB-2.25.0.0-b0")],
            "15.2-YB-2.25.0.0-b0",
        ),
        (vec![("server_version", "1.22.0/bouncer")], "1.22.0/bouncer"),
        (vec![("server_version", "")], "\"\""),
        (vec![], "no version"),
    ] {
        for statement in ["SELECT * FROM t", "INSERT INTO t VALUES (1)"] {
            let (port, server) = fake_server(parameters.clone());
            let alter = format!("ALTER SERVER s OPTIONS (SET port '{port}')");
            client.run(&alter).expect_ok();
            let error = client.run(statement).expect_error();
            assert_eq!(error.sqlstate(), "0A000", "{error:?}");
            assert_eq!(
                error.message(),
                "server \"s\" is not PostgreSQL 14 or later"
            );
            assert!(error.detail().contains(shown), "{error:?}");
            // It was told nothing but farewell.
            assert_eq!(server.join().expect("the fake server"), message(b'X', b""));
        }
    }
}

#[test]
fn what_does_not_speak_the_protocol_cannot_be_connected_to() {
    let coordinator = coordinator();
    let mut client = coordinator.simple();
    for words in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\0\0\0\0\0\0\0\0",
        b"",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("its address").port();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            // The client may have gone before.
            let _ = client.write_all(words);
            let _ = client.shutdown(std::net::Shutdown::Write);
            let _ = client.read_to_end(&mut Vec::new());
        });
        let alter = format!("ALTER SERVER s OPTIONS (SET port '{port}')");
        client.run(&alter).expect_ok();
        let error = client.run("SELECT * FROM t").expect_error();
        assert_eq!(error.sqlstate(), "08001", "{error:?}");
        assert_eq!(error.message(), "could not connect to server \"s\"");
        assert!(!error.detail().is_empty());
        server.join().expect("the fake server");
    }
}

#[test]
fn a_real_server_is_not_mistaken() {
    let coordinator = coordinator();
    let shard = Cluster::start();
    shard.sql("CREATE TABLE t AS SELECT 1 AS id");
    let mut client = coordinator.simple();
    let alter = format!("ALTER SERVER s OPTIONS (SET port '{}')", shard.port());
    client.run(&alter).expect_ok();
    assert_eq!(client.value("SELECT id FROM t"), "1");
}
