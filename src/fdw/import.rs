//! IMPORT FOREIGN SCHEMA: ImportForeignSchema.

use crate::model::error::Result;
use crate::model::import::Import;
use crate::model::option::{self, ImportOptions};
use crate::model::sql::Sql;
use crate::pg::raise::{bytes, guarded};
use crate::pg::{catalog, list, version};
use crate::read::import::{commands, Selection};
use crate::remote::cache;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// # Safety
/// To be called by core.
pub unsafe extern "C-unwind" fn import_foreign_schema(
    statement: *mut pg_sys::ImportForeignSchemaStmt,
    server: Oid,
) -> *mut pg_sys::List {
    // SAFETY: this frame holds no destructors; the statement is valid throughout the call.
    unsafe {
        guarded(|| {
            let statement = &*statement;
            let given = catalog::option_pairs(statement.options);
            let commands = import(
                server,
                &bytes(statement.remote_schema),
                &selection(statement),
                &given,
            )?;
            list::of_strings(commands.iter().map(Sql::as_bytes))
        })
    }
}

/// # Safety
/// The statement's list holds range variables.
unsafe fn selection(statement: &pg_sys::ImportForeignSchemaStmt) -> Selection {
    // SAFETY: by the contract; names are NUL-terminated.
    let names = unsafe {
        let tables = catalog::nodes(statement.table_list);
        tables
            .into_iter()
            .map(|node| bytes((*node.cast::<pg_sys::RangeVar>()).relname))
            .collect()
    };
    match statement.list_type {
        pg_sys::ImportForeignSchemaType::FDW_IMPORT_SCHEMA_LIMIT_TO => Selection::LimitTo(names),
        _ => Selection::Except(names),
    }
}

fn import(
    server: Oid,
    schema: &[u8],
    selection: &Selection,
    given: &[option::GivenOption],
) -> Result<Vec<Sql>> {
    let options = ImportOptions::new(given)?;
    // SAFETY: reads a variable of the backend.
    let user = unsafe { pg_sys::GetUserId() };
    let session = cache::session(server, user)?;
    let import = Import {
        server: &session.server().name,
        schema,
        options,
        has_virtual_columns: version::HAS_VIRTUAL_COLUMNS,
    };
    commands(&session, &import, selection)
}
