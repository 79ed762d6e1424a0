//! What a new session is checked for, and told, before its first use.

use super::{failed, Inputs};
use crate::model::error::{FdwError, Result};
use crate::model::option::{push_setting, ServerOptions};
use crate::model::socket::Interest;
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::version::WaitEvent;
use crate::pg::{backend, wait};
use crate::pq::{Answer, Connection, Flush, PgResult, PqError};
use std::ffi::CString;

/// Oldest PostgreSQL that may be a shard: batches and savepoints rely on nothing newer, and pipelines are tested
/// from here.
const OLDEST: i32 = 140_000;

/// Settings that the text form of values, and our statements, rely on. The last one keeps a session alive while the
/// local transaction is busy elsewhere.
const SETTINGS: [(&str, &str); 9] = [
    ("search_path", "pg_catalog"),
    ("timezone", "UTC"),
    ("datestyle", "ISO"),
    ("intervalstyle", "postgres"),
    ("extra_float_digits", "3"),
    ("bytea_output", "hex"),
    ("array_nulls", "on"),
    ("standard_conforming_strings", "on"),
    ("idle_in_transaction_session_timeout", "0"),
];

/// Behind a pooler a client's process id is the pooler's invention.
const BACKEND_PID: &str = "pg_catalog.pg_backend_pid()";

/// The shard's version, if it is a PostgreSQL that we know how to talk to (else 0A000).
pub fn check_version(server: &str, connection: &Connection) -> Result<i32> {
    let number = connection.server_version();
    let text = connection.parameter_status(c"server_version");
    let is_cockroach = connection.parameter_status(c"crdb_version").is_some();
    if number >= OLDEST && !is_cockroach && text.as_deref().is_some_and(is_postgresql) {
        return Ok(number);
    }
    let reported = match text {
        Some(text) => format!(
            "The server reports version \"{}\".",
            text::from_bytes(&backend::displayable(text))
        ),
        None => "The server reports no version.".to_owned(),
    };
    Err(
        FdwError::unsupported(format!("server \"{server}\" is not PostgreSQL 14 or later"))
            .with_detail(reported),
    )
}

/// Is this the version of PostgreSQL itself? Others that speak its protocol put their name there: YugabyteDB
/// (`15.2-YB-2.25.0`), the console of PgBouncer (`1.18.0/bouncer`).
fn is_postgresql(version: &[u8]) -> bool {
    let has = |part: &[u8]| version.windows(part.len()).any(|window| window == part);
    version.first().is_some_and(u8::is_ascii_digit) && !has(b"-YB-") && !has(b"/bouncer")
}

/// Makes the settings, in one message. An error of the option `session_settings` is the shard's own, with a CONTEXT
/// that names the setting.
///
/// Returns whether a pooler stands in between. Then other clients may get the server's session between two
/// transactions, and leave their settings there: [`of_transaction`] has to be sent in each.
pub fn run(inputs: &Inputs, connection: &mut Connection) -> Result<bool> {
    let server = inputs.server;
    let message = CString::new(message(inputs, connection.backend_pid()).into_bytes())
        .map_err(|_| FdwError::internal("a setting contains a NUL character"))?;
    connection
        .send_query(&message)
        .map_err(|error| failed(server, error))?;
    let results = answers(server, connection)?;
    for (position, result) in results.iter().enumerate() {
        if result.status().is_success() {
            continue;
        }
        if connection.is_bad() {
            return Err(failed(server, PqError::new(result.diag().message)));
        }
        let error = FdwError::Remote {
            server: server.to_owned(),
            diag: Box::new(result.diag()),
        };
        let setting = position
            .checked_sub(SETTINGS.len())
            .and_then(|place| inputs.options.session_settings.get(place));
        return Err(error.with_context(text::to_bytes(&match setting {
            Some(setting) => format!(
                "setting \"{}\" of option session_settings of server \"{server}\"",
                text::from_bytes(&setting.name)
            ),
            None => format!("first message to server \"{server}\""),
        })));
    }
    let expected = SETTINGS.len() + inputs.options.session_settings.len() + 1;
    match results.last().and_then(|result| result.value(0, 0)) {
        Some(pid) if results.len() == expected => {
            Ok(pid != connection.backend_pid().to_string().as_bytes())
        }
        _ => Err(failed(server, PqError::of(connection))),
    }
}

/// The settings once more, as commands that make them for the running transaction.
pub fn of_transaction(options: &ServerOptions) -> Vec<Sql> {
    calls(options, "true")
}

/// The settings, then the question who the backend is. A pooler's server connection keeps none of them: others use it
/// too, with settings of their own.
fn message(inputs: &Inputs, client_pid: i32) -> Sql {
    let pooled = format!("{BACKEND_PID} OPERATOR(pg_catalog.<>) ({client_pid})");
    let mut sql = Sql::new();
    for call in calls(inputs.options, &pooled) {
        sql.push_bytes(&call.into_bytes()).push("; ");
    }
    sql.push("SELECT ").push(BACKEND_PID);
    sql
}

fn calls(options: &ServerOptions, for_transaction: &str) -> Vec<Sql> {
    let ours = SETTINGS.iter().map(|(name, value)| {
        let mut sql = Sql::from("SELECT ");
        push_setting(&mut sql, name.as_bytes(), value.as_bytes(), for_transaction);
        sql
    });
    let given = options.session_settings.iter().map(|setting| {
        let mut sql = Sql::from("SELECT ");
        setting.push_call(&mut sql, for_transaction);
        sql
    });
    ours.chain(given).collect()
}

/// Sends what is in the output buffer, and waits for all answers of a simple query. Where the connection breaks, what
/// the shard said before is among the answers.
fn answers(server: &str, connection: &mut Connection) -> Result<Vec<PgResult>> {
    let mut results = Vec::new();
    loop {
        let flushed = connection.flush();
        loop {
            match connection.next_result() {
                Answer::Result(result) => results.push(result),
                Answer::End => return Ok(results),
                Answer::Pending => break,
            }
        }
        let interest = Interest {
            read: true,
            write: flushed.map_err(|error| failed(server, error))? == Flush::Pending,
        };
        let Some(socket) = connection.socket() else {
            return Err(failed(server, PqError::of(connection)));
        };
        let came = wait::for_socket(socket, interest, None, WaitEvent::Connect);
        if came.is_some_and(|came| came.read) {
            let consumed = connection.consume_input();
            if !connection.is_bad() {
                consumed.map_err(|error| failed(server, error))?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_products_are_told_apart() {
        for version in [
            "14.9",
            "15.13 (Debian 15.13-0+deb12u1)",
            "18beta1",
            "17.2+special",
        ] {
            assert!(is_postgresql(version.as_bytes()), "{version}");
        }
        for version in ["", "15.2-YB-2.25.0.0-b0", "1.18.0/bouncer", "unknown"] {
            assert!(!is_postgresql(version.as_bytes()), "{version}");
        }
    }
}
