//! Tests that connect to the cluster they run in. What they do there commits at once, so they leave nothing behind.

mod connecting;
mod messages;

use crate::model::error::FdwError;
use crate::model::option::{MappingOptions, ServerOptions};
use crate::model::socket::Interest;
use crate::pg::version::WaitEvent;
use crate::pg::wait;
use crate::pq::conninfo;
use crate::pq::{Answer, Connection, Flush, Param, PgResult, ResultStatus};
use crate::remote::connect::{connect, Established, Inputs};
use pgrx::Spi;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn ask(sql: &str) -> String {
    Spi::get_one::<String>(sql)
        .expect("the query works")
        .expect("the answer is not null")
}

pub(super) fn pairs(options: &[(&str, &str)]) -> Pairs {
    options
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

/// Connects to `port` of this host.
pub(super) fn connect_to(
    port: &str,
    server: &[(&str, &str)],
    mapping: &[(&str, &str)],
    superuser: bool,
) -> Result<Established, FdwError> {
    let libpq = conninfo::options().expect("libpq has options");
    let database = ask("SELECT current_database()::text");
    let usual = [("host", "127.0.0.1"), ("port", port), ("dbname", &database)];
    // The first of two options with the same name counts.
    let of_server = [pairs(server), pairs(&usual)].concat();
    let mut of_mapping = pairs(&[("user", &ask("SELECT current_user::text"))]);
    of_mapping.extend(pairs(mapping));
    connect(&Inputs {
        server: "loopback",
        options: &ServerOptions::new(&of_server, libpq).expect("valid server options"),
        mapping: &MappingOptions::new(&of_mapping, libpq).expect("valid mapping options"),
        superuser,
        application_name: b"",
    })
}

pub(super) fn own_port() -> String {
    ask("SELECT current_setting('port')")
}

pub(super) fn established() -> Established {
    connect_to(&own_port(), &[], &[], true).expect("the cluster takes connections")
}

pub(super) fn error_of(outcome: Result<Established, FdwError>) -> FdwError {
    match outcome {
        Ok(_) => panic!("the connection should have failed"),
        Err(error) => error,
    }
}

/// The next answer, sending and receiving as the socket allows.
pub(super) fn answer(connection: &mut Connection) -> Option<PgResult> {
    loop {
        let flush = connection.flush().expect("the connection lives");
        match connection.next_result() {
            Answer::Result(result) => return Some(result),
            Answer::End => return None,
            Answer::Pending => {}
        }
        let interest = Interest {
            read: true,
            write: flush == Flush::Pending,
        };
        let socket = connection.socket().expect("an open socket");
        let came = wait::for_socket(socket, interest, None, WaitEvent::Result);
        if came.is_some_and(|came| came.read) {
            connection.consume_input().expect("the connection lives");
        }
    }
}

/// The one answer to a statement, without the end that follows it.
pub(super) fn answer_of_statement(connection: &mut Connection) -> PgResult {
    let result = answer(connection).expect("an answer");
    assert!(answer(connection).is_none(), "one answer to a statement");
    result
}

pub(super) fn expect_sync(connection: &mut Connection) {
    let result = answer(connection).expect("an answer");
    assert_eq!(result.status(), ResultStatus::PipelineSync);
}

/// Runs one statement as a message of its own.
pub(super) fn run(connection: &mut Connection, sql: &std::ffi::CStr, params: &[Param]) -> PgResult {
    connection
        .send_query_params(sql, params)
        .expect("the statement is sent");
    connection.pipeline_sync().expect("the sync is sent");
    let result = answer_of_statement(connection);
    expect_sync(connection);
    result
}
