//! The SQL function `shard_fdw_validator(text[], oid)`: core calls it with the complete new option list whenever options
//! of the wrapper, a server, a user mapping, a foreign table or one of its columns are set.

use crate::model::error::{Diag, FdwError, Result, SqlState};
use crate::model::option::{self, Context};
use crate::pg::{catalog, extension, raise};
use crate::pq::conninfo;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};

pgrx::extension_sql!(
    r#"
CREATE FUNCTION shard_fdw_validator(text[], oid) RETURNS void
    STRICT LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_validator';
"#,
    name = "validator"
);

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_validator() -> *const pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// # Safety
/// To be called by the function manager with a text[] and an oid, neither of them null.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_validator(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: the call data outlives the call.
    let call = unsafe { &*fcinfo };
    // SAFETY: this frame holds no destructors.
    unsafe { raise::guarded(|| run(call)) }
}

fn run(call: &pg_sys::FunctionCallInfoBaseData) -> Result<Datum> {
    // SAFETY: the array is as long as the function has arguments.
    let arguments = unsafe { call.args.as_slice(2) };
    let [options, catalog] = arguments else {
        return Err(FdwError::internal("the validator takes two arguments"));
    };
    validate(context(catalog.value), &option_list(options.value))?;
    Ok(Datum::null())
}

fn option_list(options: Datum) -> Vec<option::GivenOption> {
    // SAFETY: the datum is a text[], and the list made of it is palloc'd.
    let list = unsafe { pg_sys::untransformRelOptions(options) };
    // SAFETY: a list of DefElem; core raises on one without value.
    unsafe { catalog::option_pairs(list) }
}

/// The kind of object that a catalog holds. One that has no options of ours counts as the wrapper, which has none.
fn context(catalog: Datum) -> Context {
    match Oid::from_u32(catalog.value() as u32) {
        pg_sys::ForeignServerRelationId => Context::Server,
        pg_sys::UserMappingRelationId => Context::UserMapping,
        pg_sys::ForeignTableRelationId => Context::Table,
        pg_sys::AttributeRelationId => Context::Column,
        _ => Context::Wrapper,
    }
}

fn validate(context: Context, options: &[option::GivenOption]) -> Result<()> {
    let libpq = conninfo::options().map_err(|error| {
        FdwError::local(SqlState::FDW_ERROR, String::from_utf8_lossy(&error.message))
    })?;
    // SAFETY: a lookup of the current user.
    let is_superuser = unsafe { pg_sys::superuser() };
    for (name, value) in options {
        option::validate(context, name, value, libpq)?;
        if let Some(error) = option::superuser_only(context, name, value) {
            if !is_superuser {
                return Err(error);
            }
        }
    }
    if context == Context::Server {
        for name in option::ServerOptions::new(options, libpq)?.extensions {
            if extension::oid(&name)?.is_none() {
                warn_of_missing(&name);
            }
        }
    }
    Ok(())
}

fn warn_of_missing(name: &[u8]) {
    raise::report(
        pg_sys::WARNING,
        &Diag {
            sqlstate: Some(SqlState::UNDEFINED_OBJECT),
            message: [b"extension \"", name, b"\" is not installed"].concat(),
            ..Diag::default()
        },
    );
}
