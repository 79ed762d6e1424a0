//! What a new session is checked for, told and asked, before its first use.

use super::{failed, settings, Inputs};
use crate::model::error::{FdwError, Result};
use crate::model::locale::{DatabaseLocale, Facts};
use crate::model::lock_timeout;
use crate::model::socket::Interest;
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::version::WaitEvent;
use crate::pg::{backend, wait};
use crate::pq::{Answer, Connection, Flush, PgResult, PqError, ResultStatus};
use std::rc::Rc;

/// Oldest PostgreSQL that may be a shard: batches and savepoints rely on nothing newer, and pipelines are tested
/// from here.
const OLDEST: i32 = 140_000;

/// Behind a pooler a client's process id is the pooler's invention.
const BACKEND_PID: &str = "pg_catalog.pg_backend_pid()";
/// In microseconds, a number that no setting writes in another way.
const SERVER_START: &str =
    "(pg_catalog.date_part('epoch', pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8";

const LOCK_TIMEOUT: &str = "pg_catalog.current_setting('lock_timeout')";

/// The shard's version, if it is a PostgreSQL that we know how to talk to (else 0A000).
pub fn check_version(server: &str, connection: &Connection) -> Result<i32> {
    let number = connection.server_version();
    let text = connection.parameter_status(c"server_version");
    let is_cockroach = connection.parameter_status(c"crdb_version").is_some();
    if number >= OLDEST && !is_cockroach && text.is_some_and(is_postgresql) {
        return Ok(number);
    }
    let reported = match text {
        Some(text) => format!(
            "The server reports version \"{}\".",
            text::from_bytes(&backend::displayable(text.to_vec()))
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

/// What the first messages have found out.
pub struct Found {
    /// Does a pooler stand in between? Then other clients may get the server's session between two transactions, and leave
    /// their settings there: ours have to be made in each.
    pub pooled: bool,
    /// `lock_timeout` in milliseconds, as the server, the role and the option `session_settings` have it.
    pub lock_timeout: i32,
    /// When the server has started, in microseconds.
    pub server_start: Option<Rc<[u8]>>,
    /// Of a database that the remote user may not look at, the encoding alone.
    pub locale: DatabaseLocale,
}

/// Makes the settings and asks for the database's locale, in two messages that are sent together. The connection is in
/// pipeline mode. An error of the option `session_settings` is the shard's own, with a CONTEXT that names the setting.
pub fn run(inputs: &Inputs, connection: &mut Connection) -> Result<Found> {
    let server = inputs.server;
    let version = connection.server_version();
    let told = statements(inputs, connection.backend_pid());
    for statement in &told {
        send(server, connection, statement)?;
    }
    sync(server, connection)?;
    send(server, connection, &Sql::from(question_of_locale(version)))?;
    sync(server, connection)?;
    let results = answers(server, connection)?;
    let is_end = |result: &PgResult| result.status() == ResultStatus::PipelineSync;
    let end = results.iter().position(is_end).unwrap_or(results.len());
    let (results, locale) = results.split_at(end);
    for (position, result) in results.iter().enumerate() {
        if result.status().is_success() {
            continue;
        }
        if result.is_farewell() || connection.is_bad() {
            return Err(failed(server, PqError::new(result.diag().summary())));
        }
        let error = FdwError::Remote {
            server: server.to_owned(),
            diag: Box::new(result.diag()),
        };
        let setting = position
            .checked_sub(1)
            .and_then(|place| inputs.options.session_settings.get(place));
        return Err(error.with_context(text::to_bytes(&match setting {
            Some(setting) => format!(
                "setting \"{}\" of option session_settings of server \"{server}\"",
                text::from_bytes(&setting.name)
            ),
            None => format!("first message to server \"{server}\""),
        })));
    }
    match results.last().and_then(|result| result.value(0, 0)) {
        Some(pid) if results.len() == told.len() => Ok(Found {
            pooled: pid != connection.backend_pid().to_string().as_bytes(),
            lock_timeout: results
                .last()
                .and_then(|result| lock_timeout::parse(result.value(0, 1)?))
                .unwrap_or_default(),
            server_start: results
                .last()
                .and_then(|result| Some(Rc::from(result.value(0, 2)?))),
            locale: locale
                .get(1)
                .and_then(|answer| read_locale(answer, version))
                .unwrap_or_else(|| {
                    let encoding = connection.parameter_status(c"server_encoding");
                    DatabaseLocale::with_encoding(encoding.unwrap_or_default())
                }),
        }),
        _ => Err(gone(server, connection)),
    }
}

/// Our settings, those of the option, and the question who the backend is and how long it waits for locks. A pooler's server connection keeps none of them:
/// others use it too, with settings of their own.
fn statements(inputs: &Inputs, client_pid: i32) -> Vec<Sql> {
    let pooled = format!("{BACKEND_PID} OPERATOR(pg_catalog.<>) ({client_pid})");
    let mut statements = settings::first(inputs.options, &pooled);
    statements.push(Sql::from(
        format!("SELECT {BACKEND_PID}, {LOCK_TIMEOUT}, {SERVER_START}").as_str(),
    ));
    statements
}

/// Encoding, provider, order, character classes, locale, rules and version of the provider's data, for the database we are
/// connected to. Before 15 a database has no version, but all locales of the C library have the same one.
fn question_of_locale(version: i32) -> &'static str {
    match version {
        ..150_000 => {
            "SELECT pg_catalog.getdatabaseencoding(), 'c', d.datcollate, d.datctype, NULL, NULL, (\
             SELECT pg_catalog.pg_collation_actual_version(c.oid) FROM pg_catalog.pg_collation c \
             WHERE c.collprovider OPERATOR(pg_catalog.=) 'c' \
             AND c.collcollate::pg_catalog.text OPERATOR(pg_catalog.!~) '^(C|POSIX|C[.].*)$' LIMIT 1) \
             FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
        }
        150_000..160_000 => {
            "SELECT pg_catalog.getdatabaseencoding(), datlocprovider, datcollate, datctype, daticulocale, NULL, \
             pg_catalog.pg_database_collation_actual_version(oid) \
             FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
        }
        160_000..170_000 => {
            "SELECT pg_catalog.getdatabaseencoding(), datlocprovider, datcollate, datctype, daticulocale, daticurules, \
             pg_catalog.pg_database_collation_actual_version(oid) \
             FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
        }
        _ => {
            "SELECT pg_catalog.getdatabaseencoding(), datlocprovider, datcollate, datctype, datlocale, daticurules, \
             pg_catalog.pg_database_collation_actual_version(oid) \
             FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
        }
    }
}

fn read_locale(answer: &PgResult, server_version: i32) -> Option<DatabaseLocale> {
    Some(DatabaseLocale::new(&Facts {
        encoding: answer.value(0, 0)?,
        provider: answer.value(0, 1)?,
        collate: answer.value(0, 2)?,
        ctype: answer.value(0, 3)?,
        locale: answer.value(0, 4),
        rules: answer.value(0, 5),
        version: answer.value(0, 6),
        server_version,
    }))
}

fn send(server: &str, connection: &mut Connection, statement: &Sql) -> Result<()> {
    let statement = statement
        .to_c_string()
        .map_err(|_| FdwError::internal("a setting contains a NUL character"))?;
    connection
        .send_query_params(&statement, &[])
        .map_err(|error| failed(server, error))
}

fn sync(server: &str, connection: &mut Connection) -> Result<()> {
    connection
        .pipeline_sync()
        .map_err(|error| failed(server, error))
}

/// Sends what is in the output buffer, and waits for all answers to two messages, of which the ends are part. Where the
/// connection breaks, what the shard said before is among the answers.
fn answers(server: &str, connection: &mut Connection) -> Result<Vec<PgResult>> {
    let mut results = Vec::new();
    let mut messages = 2;
    // libpq says that a statement has no more answers; a second time in a row, that it has nothing at all.
    let mut has_ended = false;
    loop {
        let flushed = connection.flush();
        loop {
            let answer = connection.next_result();
            let was_end = std::mem::replace(&mut has_ended, matches!(answer, Answer::End));
            match answer {
                Answer::Result(result) => {
                    let is_end = result.status() == ResultStatus::PipelineSync;
                    results.push(result);
                    messages -= u32::from(is_end);
                    if messages == 0 {
                        return Ok(results);
                    }
                }
                Answer::End if connection.is_bad() => return Ok(results),
                Answer::End if was_end => break,
                Answer::End => {}
                Answer::Pending => break,
            }
        }
        let interest = Interest {
            read: true,
            write: flushed.map_err(|error| failed(server, error))? == Flush::Pending,
        };
        let Some(socket) = connection.socket() else {
            return Err(gone(server, connection));
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

/// A connection that has ended: as the shard has said, or else as libpq has found.
fn gone(server: &str, connection: &mut Connection) -> FdwError {
    let farewell = connection.farewell().map(|diag| diag.summary());
    let reason = farewell.unwrap_or_else(|| connection.error_message());
    failed(server, PqError::new(reason))
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
