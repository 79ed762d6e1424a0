//! SQL functions that take values from sequences of shards.

use crate::pg::raise::guarded;
use crate::pg::rowset::{return_rows, Field};
use crate::pg::varlena;
use crate::sequence;
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;

// Parallel workers have no connections, hence UNSAFE, as for core's own functions on sequences.
pgrx::extension_sql!(
    r#"
CREATE FUNCTION shard_fdw_nextval(server_name text, sequence_name text) RETURNS bigint
    STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_nextval';
COMMENT ON FUNCTION shard_fdw_nextval(text, text) IS 'next value of a sequence on a foreign server';

CREATE FUNCTION shard_fdw_currval(server_name text, sequence_name text) RETURNS bigint
    STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_currval';
COMMENT ON FUNCTION shard_fdw_currval(text, text)
    IS 'value that shard_fdw_nextval() last gave in this session for a sequence on a foreign server';

CREATE FUNCTION shard_fdw_setval(server_name text, sequence_name text, value bigint, is_called boolean DEFAULT true)
    RETURNS bigint STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_setval';
COMMENT ON FUNCTION shard_fdw_setval(text, text, bigint, boolean) IS 'set a sequence on a foreign server';

CREATE FUNCTION shard_fdw_sequences(
        OUT server_name text, OUT sequence_name text, OUT cached_from bigint, OUT cached_to bigint, OUT cached_left bigint,
        OUT refills bigint, OUT values_drawn bigint)
    RETURNS SETOF record STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_sequences';
COMMENT ON FUNCTION shard_fdw_sequences() IS 'sequences on foreign servers that this session has used';

CREATE FUNCTION shard_fdw_discard_sequences() RETURNS void
    STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_discard_sequences';
COMMENT ON FUNCTION shard_fdw_discard_sequences()
    IS 'forget the values of sequences on foreign servers that this session holds';
"#,
    name = "sequences"
);

const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };

/// The arguments of a strict function.
///
/// # Safety
/// `fcinfo` is a call with so many arguments; the slice is used during the call only.
unsafe fn arguments<'a>(
    fcinfo: pg_sys::FunctionCallInfo,
    count: usize,
) -> &'a [pg_sys::NullableDatum] {
    // SAFETY: by the contract.
    unsafe { (*fcinfo).args.as_slice(count) }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_nextval() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager with two texts that are not null.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_nextval(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors; the arguments are texts.
    unsafe {
        guarded(|| {
            let arguments = arguments(fcinfo, 2);
            let server = varlena::text(arguments[0].value);
            let name = varlena::text(arguments[1].value);
            sequence::next_value(server, name).map(Datum::from)
        })
    }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_currval() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// As for [`shard_fdw_nextval`].
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_currval(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: as for `shard_fdw_nextval`.
    unsafe {
        guarded(|| {
            let arguments = arguments(fcinfo, 2);
            let server = varlena::text(arguments[0].value);
            let name = varlena::text(arguments[1].value);
            sequence::current_value(server, name).map(Datum::from)
        })
    }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_setval() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager with two texts, a bigint and a boolean that are not null.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_setval(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: as for `shard_fdw_nextval`; numbers and booleans are in the datum itself.
    unsafe {
        guarded(|| {
            let arguments = arguments(fcinfo, 4);
            let server = varlena::text(arguments[0].value);
            let name = varlena::text(arguments[1].value);
            let value = arguments[2].value.value() as i64;
            let is_called = arguments[3].value.value() as u8 != 0;
            sequence::set_value(server, name, value, is_called)?;
            Ok(Datum::from(value))
        })
    }
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_sequences() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_sequences(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors; the function is declared to return these columns.
    unsafe {
        guarded(|| {
            let rows: Vec<Vec<Field>> = sequence::report()?.into_iter().map(row).collect();
            return_rows(fcinfo, &rows)
        })
    }
}

fn row(of: sequence::Report) -> Vec<Field> {
    let (from, to) = match of.ends {
        Some((from, to)) => (Field::Int8(from), Field::Int8(to)),
        None => (Field::Null, Field::Null),
    };
    vec![
        Field::text(of.server),
        Field::Text(of.sequence),
        from,
        to,
        Field::counter(of.left),
        Field::counter(of.refills),
        Field::counter(of.drawn),
    ]
}

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_discard_sequences() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_discard_sequences(
    _fcinfo: pg_sys::FunctionCallInfo,
) -> Datum {
    // SAFETY: this frame holds no destructors.
    unsafe {
        guarded(|| {
            sequence::discard();
            Ok(Datum::null())
        })
    }
}
