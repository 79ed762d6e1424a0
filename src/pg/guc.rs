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
    // SAFETY (all): variables of the backend, and strings that are null or NUL-terminated and copied at once.
    Facts {
        application_name: unsafe { bytes(pg_sys::application_name) },
        cluster_name: unsafe { bytes(pg_sys::cluster_name) },
        database: owned(unsafe { pg_sys::get_database_name(pg_sys::MyDatabaseId) }),
        user: owned(unsafe { pg_sys::GetUserNameFromId(pg_sys::GetAuthenticatedUserId(), true) }),
        process_id: unsafe { pg_sys::MyProcPid },
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
