//! Settings of this library (`shard_fdw.…`).

use crate::model::option::FlushPolicy;
use pgrx::pg_sys;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;

/// Values of shard_fdw.flush_policy.
#[derive(Clone, Copy, pgrx::PostgresGucEnum)]
enum PolicySetting {
    #[name = c"default"]
    Default,
    #[name = c"row"]
    Row,
    #[name = c"call"]
    Call,
    #[name = c"statement"]
    Statement,
    #[name = c"transaction"]
    Transaction,
}

/// kB.
static MAX_IN_FLIGHT: GucSetting<i32> = GucSetting::<i32>::new(8 << 10);
/// kB.
static BUFFER_MEMORY: GucSetting<i32> = GucSetting::<i32>::new(64 << 10);
static COPY_ROWS: GucSetting<i32> = GucSetting::<i32>::new(3000);
static FLUSH_POLICY: GucSetting<PolicySetting> =
    GucSetting::<PolicySetting>::new(PolicySetting::Default);
static SEQUENCE_RANGE: GucSetting<i32> = GucSetting::<i32>::new(1000);
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
    GucRegistry::define_int_guc(
        c"shard_fdw.buffer_memory",
        c"Sets the most memory for rows that wait to be sent to shards.",
        c"Applies to all tables and connections of the session together. A single row that is larger is sent all the same.",
        &BUFFER_MEMORY,
        1 << 10,
        2 << 20,
        GucContext::Userset,
        GucFlags::UNIT_KB,
    );
    GucRegistry::define_int_guc(
        c"shard_fdw.copy_rows",
        c"Sets the number of rows from which on transport \"auto\" uses COPY.",
        c"Fewer rows go by multi-row INSERT, unless they take more room than batch_bytes.",
        &COPY_ROWS,
        1,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_enum_guc(
        c"shard_fdw.flush_policy",
        c"Sets when rows have to be on the shards.",
        c"Takes the place of the option flush_policy of tables and servers, unless it is \"default\".",
        &FLUSH_POLICY,
        GucContext::Userset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"shard_fdw.sequence_range",
        c"Sets the most values that shard_fdw_nextval() draws from a sequence at a time.",
        c"A session begins with the CACHE of the sequence, and doubles the number as long as it needs more within a second. COPY draws all at once. 1 means a round trip for each value.",
        &SEQUENCE_RANGE,
        1,
        i32::MAX,
        GucContext::Userset,
        GucFlags::default(),
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

/// Most bytes that rows of this backend may take before they are sent.
#[inline]
pub fn buffer_memory() -> usize {
    usize::try_from(BUFFER_MEMORY.get()).unwrap_or_default() << 10
}

/// From how many rows on COPY is taken to be faster than INSERT.
#[inline]
pub fn copy_rows() -> usize {
    usize::try_from(COPY_ROWS.get()).unwrap_or(usize::MAX)
}

/// Value of shard_fdw.flush_policy, None for `default`: the options decide.
pub fn flush_policy() -> Option<FlushPolicy> {
    match FLUSH_POLICY.get() {
        PolicySetting::Default => None,
        PolicySetting::Row => Some(FlushPolicy::Row),
        PolicySetting::Call => Some(FlushPolicy::Call),
        PolicySetting::Statement => Some(FlushPolicy::Statement),
        PolicySetting::Transaction => Some(FlushPolicy::Transaction),
    }
}

/// Most values that are drawn from a sequence at a time.
pub fn sequence_range() -> u32 {
    u32::try_from(SEQUENCE_RANGE.get()).unwrap_or(1)
}

/// Value of shard_fdw.application_name; empty: not set.
pub fn application_name() -> Vec<u8> {
    let setting = APPLICATION_NAME.get();
    setting.map_or_else(Vec::new, |name| name.into_bytes())
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

    #[pg_test]
    fn application_name_is_empty_until_set() {
        assert_eq!(application_name(), b"");
        set("shard_fdw.application_name", "%a");
        assert_eq!(application_name(), b"%a");
    }

    #[pg_test]
    fn max_in_flight_is_in_bytes() {
        assert_eq!(max_in_flight(), 8 << 20);
        set("shard_fdw.max_in_flight", "64kB");
        assert_eq!(max_in_flight(), 64 << 10);
        set("shard_fdw.max_in_flight", "1GB");
        assert_eq!(max_in_flight(), 1 << 30);
    }

    #[pg_test]
    fn flush_policy_is_left_to_the_options_until_set() {
        assert_eq!(flush_policy(), None);
        set("shard_fdw.flush_policy", "transaction");
        assert_eq!(flush_policy(), Some(FlushPolicy::Transaction));
        set("shard_fdw.flush_policy", "default");
        assert_eq!(flush_policy(), None);
    }

    #[pg_test(error = "invalid configuration parameter name \"shard_fdw.no_such_setting\"")]
    fn the_prefix_is_reserved() {
        set("shard_fdw.no_such_setting", "1");
    }
}
