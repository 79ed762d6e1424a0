//! SET CONSTRAINTS: the hook that sees the statement, and the SQL function for constraints of a shard by name.
//!
//! Core looks names of constraints up in the local catalogs, so the hook follows ALL alone.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::raise::guarded;
use crate::pg::{backend, catalog, name, varlena};
use crate::remote::{cache, constraints};
use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use std::ffi::c_char;

extern "C-unwind" {
    // Not pgrx's binding, which would catch its errors, and lose fields of them.
    fn standard_ProcessUtility(
        statement: *mut pg_sys::PlannedStmt,
        query: *const c_char,
        is_read_only_tree: bool,
        context: pg_sys::ProcessUtilityContext::Type,
        params: pg_sys::ParamListInfo,
        environment: *mut pg_sys::QueryEnvironment,
        receiver: *mut pg_sys::DestReceiver,
        completion: *mut pg_sys::QueryCompletion,
    );
}

/// The hook that was there before.
static PREVIOUS: OnceCell<pg_sys::ProcessUtility_hook_type> = OnceCell::new();

/// Sets the hook. To be called once, when the library is loaded.
pub fn register() {
    // SAFETY: a plain variable of the backend, read and set while the library is loaded.
    unsafe {
        if PREVIOUS.set(pg_sys::ProcessUtility_hook).is_ok() {
            pg_sys::ProcessUtility_hook = Some(process_utility);
        }
    }
}

unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query: *const c_char,
    is_read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    receiver: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: this frame holds no destructors, so an error may pass over it, both from core or the other library's hook, which
    // get our arguments, and from ours. What the statement says is read before, as it may be gone afterwards: a COMMIT ends
    // what it was planned in.
    unsafe {
        let all = sets_all((*statement).utilityStmt);
        match PREVIOUS.get() {
            Some(Some(previous)) => previous(
                statement,
                query,
                is_read_only_tree,
                context,
                params,
                environment,
                receiver,
                completion,
            ),
            _ => standard_ProcessUtility(
                statement,
                query,
                is_read_only_tree,
                context,
                params,
                environment,
                receiver,
                completion,
            ),
        }
        if let Some(is_deferred) = all {
            guarded(|| constraints::set_all(is_deferred))
        }
    }
}

/// Whether a SET CONSTRAINTS ALL defers them. None: it is another statement.
///
/// # Safety
/// `statement` is null or a valid node.
unsafe fn sets_all(statement: *mut pg_sys::Node) -> Option<bool> {
    // SAFETY: by the contract; a node's tag says which struct it is. ALL is an empty list.
    unsafe {
        if statement.is_null() || (*statement).type_ != pg_sys::NodeTag::T_ConstraintsSetStmt {
            return None;
        }
        let statement: *mut pg_sys::ConstraintsSetStmt = statement.cast();
        (*statement)
            .constraints
            .is_null()
            .then_some((*statement).deferred)
    }
}

// Parallel workers have no sessions, hence UNSAFE.
pgrx::extension_sql!(
    r#"
CREATE FUNCTION shard_fdw_set_constraints(server_name text, constraint_names text[], deferred boolean) RETURNS void
    STRICT VOLATILE PARALLEL UNSAFE LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_set_constraints';
COMMENT ON FUNCTION shard_fdw_set_constraints(text, text[], boolean)
    IS 'set when constraints of tables on a foreign server are checked in this transaction';
"#,
    name = "constraints"
);

const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_set_constraints() -> *const pg_sys::Pg_finfo_record {
    &VERSION_1
}

/// # Safety
/// To be called by the function manager with a text, an array of texts and a boolean that are not null.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_set_constraints(
    fcinfo: pg_sys::FunctionCallInfo,
) -> Datum {
    // SAFETY: this frame holds no destructors; the arguments have these types.
    unsafe {
        guarded(|| {
            let arguments = (*fcinfo).args.as_slice(3);
            let server = varlena::text(arguments[0].value);
            let names = varlena::texts(arguments[1].value);
            let is_deferred = arguments[2].value.value() as u8 != 0;
            set_named(server, &names, is_deferred)?;
            Ok(Datum::null())
        })
    }
}

fn set_named(server: &[u8], names: &[Option<&[u8]>], is_deferred: bool) -> Result<()> {
    let Some(server) = catalog::server_by_name(server)? else {
        return Err(FdwError::local(
            SqlState::UNDEFINED_OBJECT,
            format!("server \"{}\" does not exist", text::from_bytes(server)),
        ));
    };
    let user = backend::current_user();
    catalog::check_server_usage(&server, user)?;
    let names = names.iter().map(|given| match given {
        Some(given) => name::qualified(given),
        None => Err(FdwError::local(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "name of a constraint must not be null",
        )),
    });
    let names: Vec<Sql> = names.collect::<Result<_>>()?;
    if names.is_empty() {
        return Err(
            FdwError::local(SqlState::INVALID_PARAMETER_VALUE, "no constraint is named")
                .with_hint("SET CONSTRAINTS ALL concerns all constraints, on servers too."),
        );
    }
    let session = cache::session(server.oid, user)?;
    constraints::set_named(&session, &names, is_deferred)
}
