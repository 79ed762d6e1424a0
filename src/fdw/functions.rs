//! SQL functions about the connections and counters of this session.

use crate::model::error::{Diag, FdwError, Result, SqlState};
use crate::model::socket::Socket;
use crate::model::text;
use crate::pg::raise::{self, bytes, guarded};
use crate::pg::rowset::{return_rows, Field};
use crate::pg::{catalog, wait};
use crate::remote::{autocommit, budget, cache, transaction};
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};

// Names and meaning of the columns of connections are those of postgres_fdw_get_connections of PostgreSQL 18, but for the
// last: "tables", or "sequences" for the further connection that draws their values.
pgrx::extension_sql!(
    r#"
CREATE FUNCTION shard_fdw_connections(
        OUT server_name text, OUT user_name text, OUT valid boolean, OUT used_in_xact boolean, OUT closed boolean,
        OUT remote_backend_pid integer, OUT used_for text)
    RETURNS SETOF record STRICT PARALLEL RESTRICTED LANGUAGE c
    AS 'MODULE_PATHNAME', 'shard_fdw_connections';
COMMENT ON FUNCTION shard_fdw_connections() IS 'open connections of this session to foreign servers';

CREATE FUNCTION shard_fdw_disconnect(server_name text) RETURNS boolean
    STRICT PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_disconnect';
COMMENT ON FUNCTION shard_fdw_disconnect(text) IS 'close the connections of this session to a foreign server';

CREATE FUNCTION shard_fdw_disconnect_all() RETURNS boolean
    STRICT PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_disconnect_all';
COMMENT ON FUNCTION shard_fdw_disconnect_all() IS 'close all connections of this session to foreign servers';

CREATE FUNCTION shard_fdw_flush() RETURNS bigint
    STRICT PARALLEL RESTRICTED LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_flush';
COMMENT ON FUNCTION shard_fdw_flush() IS 'send rows that wait for foreign servers, and return their number';

CREATE FUNCTION shard_fdw_stats(
        OUT server_name text, OUT user_name text, OUT batches bigint, OUT rows bigint, OUT bytes bigint,
        OUT round_trips bigint, OUT flushes_full bigint, OUT flushes_bytes bigint, OUT flushes_end bigint,
        OUT flushes_barrier bigint, OUT flushes_savepoint bigint, OUT flushes_memory bigint, OUT flushes_repeat bigint, OUT wait_time double precision,
        OUT buffered_bytes bigint, OUT peak_buffered_bytes bigint)
    RETURNS SETOF record STRICT PARALLEL RESTRICTED LANGUAGE c
    AS 'MODULE_PATHNAME', 'shard_fdw_stats';
COMMENT ON FUNCTION shard_fdw_stats() IS 'what this session has sent to foreign servers';
"#,
    name = "functions"
);

const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_connections() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_connections(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors; the function is declared to return these columns.
    unsafe { guarded(|| return_rows(fcinfo, &connections()?)) }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_stats() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_stats(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: as for `shard_fdw_connections`.
    unsafe { guarded(|| return_rows(fcinfo, &stats()?)) }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_disconnect() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager with a text that is not null.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_disconnect(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors; the one argument is a text.
    unsafe {
        guarded(|| {
            let argument = (*fcinfo).args.as_slice(1)[0].value;
            let name = bytes(pg_sys::text_to_cstring(argument.cast_mut_ptr()));
            let Some(server) = catalog::server_by_name(&name)? else {
                return Err(FdwError::local(
                    SqlState::UNDEFINED_OBJECT,
                    format!("server \"{}\" does not exist", text::from_bytes(&name)),
                ));
            };
            Ok(Datum::from(disconnect(|of| of == server.oid)))
        })
    }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_disconnect_all() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_disconnect_all(
    _fcinfo: pg_sys::FunctionCallInfo,
) -> Datum {
    // SAFETY: this frame holds no destructors.
    unsafe { guarded(|| Ok(Datum::from(disconnect(|_| true)))) }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_flush() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_flush(_fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors.
    unsafe { guarded(|| Ok(Datum::from(transaction::flush_all()? as i64))) }
}

/// Name of the server and of the mapping's user, null where they have been dropped.
fn names(server: Oid, mapping: Oid) -> Result<[Field; 2]> {
    let server = catalog::server_if_exists(server)?;
    let user = catalog::mapping_user_name(mapping);
    Ok([
        Field::text(server.map(|server| server.name)),
        Field::text(user),
    ])
}

/// An open connection, or one that was lost in the transaction that uses it.
struct Open {
    server: Oid,
    mapping: Oid,
    is_valid: bool,
    in_transaction: bool,
    socket: Option<Socket>,
    backend_pid: Option<i32>,
    used_for: &'static str,
}

fn open_connections() -> Vec<Open> {
    let sessions = cache::all().into_iter().map(|session| {
        let in_transaction = session.in_transaction();
        (session.is_connected() || in_transaction).then(|| Open {
            server: session.server().oid,
            mapping: session.mapping().oid,
            is_valid: !session.is_stale(),
            in_transaction,
            socket: session.socket(),
            backend_pid: session.backend_pid(),
            used_for: "tables",
        })
    });
    let others = autocommit::all().into_iter().map(|one| {
        one.is_connected().then(|| Open {
            server: one.server().oid,
            mapping: one.mapping().oid,
            is_valid: !one.is_stale(),
            in_transaction: false,
            socket: one.socket(),
            backend_pid: one.backend_pid(),
            used_for: "sequences",
        })
    });
    let mut all: Vec<_> = sessions.chain(others).flatten().collect();
    all.sort_by_key(|open| open.mapping.to_u32());
    all
}

/// A connection that was lost in the transaction that uses it is among them until the transaction ends.
fn connections() -> Result<Vec<Vec<Field>>> {
    let all = open_connections();
    let sockets: Vec<_> = all.iter().filter_map(|open| open.socket).collect();
    let closed = wait::closed(&sockets);
    let mut closed = closed.into_iter().flatten();
    all.iter()
        .map(|open| {
            let is_closed = match open.socket {
                Some(_) => closed.next().map_or(Field::Null, Field::Bool),
                None => Field::Bool(true),
            };
            let pid = open.backend_pid.filter(|&pid| pid != 0);
            let [server, user] = names(open.server, open.mapping)?;
            Ok(vec![
                server,
                user,
                Field::Bool(open.is_valid),
                Field::Bool(open.in_transaction),
                is_closed,
                pid.map_or(Field::Null, Field::Int4),
                Field::Text(open.used_for.into()),
            ])
        })
        .collect()
}

fn stats() -> Result<Vec<Vec<Field>>> {
    cache::all()
        .iter()
        .map(|session| {
            let writes = session.counters().writes();
            let waits = session.counters().waits();
            let mut row = Vec::from(names(session.server().oid, session.mapping().oid)?);
            row.extend([writes.batches, writes.rows, writes.bytes].map(Field::counter));
            row.push(Field::counter(waits.round_trips));
            row.extend(writes.flushes.map(Field::counter));
            row.push(Field::Float8(waits.waited.as_secs_f64() * 1000.0));
            row.extend(
                [session.held_bytes(), budget::peak()].map(|bytes| Field::counter(bytes as u64)),
            );
            Ok(row)
        })
        .collect()
}

/// Closes the connections to the servers that `which` names, but for those that the transaction uses. Returns whether
/// there was one to close.
fn disconnect(which: impl Fn(Oid) -> bool) -> bool {
    let mut has_closed = false;
    for session in cache::all() {
        if !which(session.server().oid) {
            continue;
        }
        if session.in_transaction() {
            raise::report(
                pg_sys::WARNING,
                &Diag {
                    sqlstate: Some(SqlState::WARNING),
                    message: [
                        b"connection to server \"",
                        session.server().name.as_slice(),
                        b"\" stays open because this transaction uses it",
                    ]
                    .concat(),
                    ..Diag::default()
                },
            );
        } else {
            has_closed |= session.disconnect();
        }
    }
    for one in autocommit::all() {
        if which(one.server().oid) {
            has_closed |= one.disconnect();
        }
    }
    has_closed
}
