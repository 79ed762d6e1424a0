//! Settings of this library (`shard_fdw.…`).

use crate::model::application_name::{choose, Facts};
use crate::pg::raise::bytes;
use pgrx::pg_sys;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::{c_char, CString};

/// kB.
static MAX_IN_FLIGHT: GucSetting<i32> = GucSetting::<i32>::new(8 << 10);
static APPLICATION_NAME: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c""));

/// Defines the settings and reserves their prefix. To be called once, when the library is loaded.
pub fn register() {
    GucRegistry::define_int_guc(
        c"shard_fdw.max_in_flight",
        c"Sets the most data that is under way to a shard without an answer.",
        c"Applies to each connection. A single batch that is larger is sent alone.",
        &MAX_IN_FLIGHT,
        64,
        1 << 20,
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_string_guc(
        c"shard_fdw.application_name",
        c"Sets the application name that shards see.",
        c"Takes the place of the server option application_name for connections made from now on. Escapes: %a, %u, %d, %p, %c, %C and %%.",
        &APPLICATION_NAME,
        GucContext::Userset,
        GucFlags::default(),
    );
    // SAFETY: the name is a constant; core copies it.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"shard_fdw".as_ptr()) };
}

/// Most bytes under way on a connection without an answer.
pub fn max_in_flight() -> usize {
    usize::try_from(MAX_IN_FLIGHT.get()).unwrap_or_default() << 10
}

/// The application name for a new connection: shard_fdw.application_name, else the server's option, each with its
/// escapes replaced; None if that leaves nothing. To be called inside a transaction.
pub fn application_name(server_option: Option<&[u8]>) -> Option<Vec<u8>> {
    let setting = APPLICATION_NAME.get();
    let templates = [setting.as_ref().map(|name| name.as_bytes()), server_option];
    choose(templates.into_iter().flatten(), &facts())
}

fn facts() -> Facts {
    // SAFETY: a variable of the backend.
    let own_name = unsafe { pg_sys::application_name };
    // SAFETY: a variable of the backend.
    let cluster_name = unsafe { pg_sys::cluster_name };
    // SAFETY: a variable of the backend.
    let database = unsafe { pg_sys::MyDatabaseId };
    // SAFETY: a plain read.
    let user = unsafe { pg_sys::GetAuthenticatedUserId() };
    Facts {
        // SAFETY: a NUL-terminated string, copied at once.
        application_name: unsafe { bytes(own_name) },
        // SAFETY: a NUL-terminated string, copied at once.
        cluster_name: unsafe { bytes(cluster_name) },
        // SAFETY: a lookup; a palloc'd string, or null.
        database: owned(unsafe { pg_sys::get_database_name(database) }),
        // SAFETY: a lookup that raises nothing; a palloc'd string, or null.
        user: owned(unsafe { pg_sys::GetUserNameFromId(user, true) }),
        // SAFETY: a variable of the backend.
        process_id: unsafe { pg_sys::MyProcPid },
        // SAFETY: a variable of the backend.
        start_time: unsafe { pg_sys::MyStartTime },
    }
}

/// Copies a palloc'd string, or null, and frees it.
fn owned(text: *mut c_char) -> Vec<u8> {
    // SAFETY: by the contract of the functions that returned it.
    let copy = unsafe { bytes(text) };
    if !text.is_null() {
        // SAFETY: palloc'd, and not used any more.
        unsafe { pg_sys::pfree(text.cast()) };
    }
    copy
}

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::pg_test;
    use pgrx::spi::Spi;

    fn set(name: &str, value: &str) {
        Spi::run(&format!("SET {name} = '{value}'")).expect("the setting is accepted");
    }

    fn text(sql: &str) -> String {
        Spi::get_one::<String>(sql)
            .expect("the query works")
            .expect("the answer is not null")
    }

    #[pg_test]
    fn application_name_describes_the_backend() {
        set("application_name", "me");
        set("shard_fdw.application_name", "%a|%u|%d|%p|%C|%%|%c");
        let expected = text(
            "SELECT format('me|%s|%s|%s|%s|%%|%s.%s', session_user, current_database(), pid,
                 current_setting('cluster_name'), to_hex(trunc(extract(epoch FROM backend_start))::bigint), to_hex(pid))
             FROM pg_stat_activity WHERE pid = pg_backend_pid()",
        );
        assert_eq!(application_name(None), Some(expected.into_bytes()));
    }

    #[pg_test]
    fn application_name_goes_before_the_option() {
        assert_eq!(application_name(None), None);
        assert_eq!(application_name(Some(b"x%%")), Some(b"x%".to_vec()));
        set("shard_fdw.application_name", "mine");
        assert_eq!(application_name(Some(b"x")), Some(b"mine".to_vec()));
    }

    #[pg_test]
    fn max_in_flight_is_in_bytes() {
        assert_eq!(max_in_flight(), 8 << 20);
        set("shard_fdw.max_in_flight", "64kB");
        assert_eq!(max_in_flight(), 64 << 10);
        set("shard_fdw.max_in_flight", "1GB");
        assert_eq!(max_in_flight(), 1 << 30);
    }

    #[pg_test(error = "invalid configuration parameter name \"shard_fdw.no_such_setting\"")]
    fn the_prefix_is_reserved() {
        set("shard_fdw.no_such_setting", "1");
    }
}
