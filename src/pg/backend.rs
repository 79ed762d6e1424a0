//! Facts about the backend that this library runs in.

use crate::model::application_name::Facts;
use crate::pg::raise::bytes;
use crate::pg::version;
use pgrx::pg_sys;
use std::ffi::{c_int, CStr, CString};

/// Name of the local database's encoding, in the form that `client_encoding` takes.
pub fn encoding_name() -> CString {
    // SAFETY: a static string of the backend.
    let name = unsafe { CStr::from_ptr(pg_sys::GetDatabaseEncodingName()) };
    name.to_owned()
}

/// What the escapes of an application name stand for.
pub fn application_name_facts() -> Facts {
    Facts {
        // SAFETY: null or a NUL-terminated string of the backend, copied at once.
        application_name: unsafe { bytes(pg_sys::application_name) },
        // SAFETY: as above.
        cluster_name: unsafe { bytes(pg_sys::cluster_name) },
        database: database_name(),
        user: login_name(),
        // SAFETY: a plain variable of the backend.
        process_id: unsafe { pg_sys::MyProcPid },
        // SAFETY: a plain variable of the backend.
        start_time: unsafe { pg_sys::MyStartTime },
    }
}

fn database_name() -> Vec<u8> {
    // SAFETY: a plain variable of the backend.
    let database = unsafe { pg_sys::MyDatabaseId };
    // SAFETY: a palloc'd string, or null if the database is gone.
    let name = unsafe { pg_sys::get_database_name(database) };
    // SAFETY: as above.
    unsafe { bytes(name) }
}

fn login_name() -> Vec<u8> {
    // SAFETY: a plain variable of the backend.
    let role = unsafe { pg_sys::GetAuthenticatedUserId() };
    // SAFETY: with noerr null if the role is gone, else a palloc'd string.
    let name = unsafe { pg_sys::GetUserNameFromId(role, true) };
    // SAFETY: as above.
    unsafe { bytes(name) }
}

/// Has the local client delegated GSSAPI credentials to this backend? They are its own, so it may use them elsewhere.
/// Known to PostgreSQL 16 and later.
pub fn has_delegated_credentials() -> bool {
    version::has_delegated_credentials()
}

/// Text of unknown origin in a form that the local database accepts: where it is not valid in the database's
/// encoding, each byte that is not ASCII becomes a question mark. libpq's own messages, and those that a server sends
/// before it knows the client's encoding, come in any encoding.
pub fn displayable(mut text: Vec<u8>) -> Vec<u8> {
    let valid = c_int::try_from(text.len()).is_ok_and(|length| {
        // SAFETY: the text has this length; with the last argument true nothing is raised.
        unsafe { pg_sys::pg_verifymbstr(text.as_ptr().cast(), length, true) }
    });
    if !valid {
        for byte in &mut text {
            if !byte.is_ascii() || *byte == 0 {
                *byte = b'?';
            }
        }
    }
    text
}

/// The user whose rights count at this moment.
#[inline]
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetUserId() }
}

/// Is a COPY running, at the top or in a function? The running portal knows the statement that the client sent; what
/// runs below it shows in the backend's entry for pg_stat_progress_copy, unless `track_activities` is off.
pub fn copy_is_running() -> bool {
    // SAFETY: null, or the portal that runs, which lives until it is done.
    let is_top = unsafe { pg_sys::ActivePortal.as_ref() }
        .is_some_and(|portal| portal.commandTag == pg_sys::CommandTag::CMDTAG_COPY);
    is_top
        // SAFETY: null, or this backend's own entry, which nobody else writes to.
        || unsafe { pg_sys::MyBEEntry.as_ref() }.is_some_and(|entry| {
            entry.st_progress_command == pg_sys::ProgressCommandType::PROGRESS_COMMAND_COPY
        })
}

/// The local setting `lock_timeout` in milliseconds; 0: no limit.
#[inline]
pub fn lock_timeout() -> i32 {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::LockTimeout }
}

/// The local setting `deadlock_timeout` in milliseconds.
pub fn deadlock_timeout() -> u64 {
    // SAFETY: a plain variable of the backend.
    unsafe { pg_sys::DeadlockTimeout }.max(1) as u64
}

/// When the client's statement began, in microseconds: different for different statements.
pub fn statement_start() -> i64 {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::GetCurrentStatementStartTimestamp() }
}

/// Is the user a superuser?
pub fn is_superuser(user: pg_sys::Oid) -> bool {
    // SAFETY: a syscache lookup.
    unsafe { pg_sys::superuser_arg(user) }
}

/// The portal whose statement runs, as a number that no other one has as long as it lives.
pub fn active_portal() -> usize {
    // SAFETY: reads a variable of the backend.
    unsafe { pg_sys::ActivePortal as usize }
}

/// Does the statement run in a portal with a name, of which its user may fetch as many rows as it likes?
pub fn in_cursor() -> bool {
    // SAFETY: a portal that runs is valid, and so is its name.
    unsafe {
        let portal = pg_sys::ActivePortal;
        !portal.is_null() && *(*portal).name != 0
    }
}

/// A seed for samples, from the backend's own random numbers.
pub fn random_seed() -> CString {
    // SAFETY: a plain variable of the backend.
    let seed = unsafe { pg_sys::pg_prng_uint32(&raw mut pg_sys::pg_global_prng_state) };
    CString::new(seed.to_string()).unwrap_or_default()
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use crate::model::application_name::expand;
    use pgrx::pg_test;
    use pgrx::spi::Spi;

    #[pg_test]
    fn application_names_describe_the_backend() {
        Spi::run("SET application_name = 'me'").expect("the setting is accepted");
        let expected = Spi::get_one::<String>(
            "SELECT format('me|%s|%s|%s|%s|%s.%s', session_user, current_database(), pid,
                 current_setting('cluster_name'), to_hex(trunc(extract(epoch FROM backend_start))::bigint), to_hex(pid))
             FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        )
        .expect("the query works");
        let name = expand(b"%a|%u|%d|%p|%C|%c", &application_name_facts());
        assert_eq!(Some(String::from_utf8_lossy(&name).into_owned()), expected);
    }
}
