//! TRUNCATE of foreign tables: ExecForeignTruncate.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::statement;
use crate::pg::catalog::nodes;
use crate::pg::raise::guarded;
use crate::pg::target::Target;
use crate::pg::xact;
use crate::remote::cache;
use crate::remote::statement::{Statement, Subject};
use pgrx::pg_sys;
use std::rc::Rc;

/// # Safety
/// To be called by core, with the open foreign tables of one server.
pub unsafe extern "C-unwind" fn exec_foreign_truncate(
    rels: *mut pg_sys::List,
    behavior: pg_sys::DropBehavior::Type,
    restart_seqs: bool,
) {
    // SAFETY: this frame holds no destructors; the list holds relations.
    unsafe {
        guarded(|| {
            let mut targets = Vec::new();
            for node in nodes(rels) {
                let relation = node.cast::<pg_sys::RelationData>();
                targets.push(Target::of((*relation).rd_id)?);
            }
            let cascade = behavior == pg_sys::DropBehavior::DROP_CASCADE;
            truncate(&targets, restart_seqs, cascade)
        })
    }
}

fn truncate(targets: &[Target], restart_identity: bool, cascade: bool) -> Result<()> {
    if let Some(target) = targets.iter().find(|target| !target.options.truncatable) {
        return Err(FdwError::local(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "foreign table \"{}\" does not allow truncates",
                target.relation.display_name()
            ),
        ));
    }
    let Some(first) = targets.first() else {
        return Ok(());
    };
    // SAFETY: reads a variable of the backend.
    let user = unsafe { pg_sys::GetUserId() };
    let names = targets.iter().map(|target| {
        (
            target.remote.schema.as_slice(),
            target.remote.name.as_slice(),
        )
    });
    let subject = match targets {
        [target] => Subject::table(&target.relation.name),
        _ => Subject::default(),
    };
    cache::session(first.server.oid, user)?
        .execute(&Statement {
            sql: Rc::new(statement::truncate(names, restart_identity, cascade)),
            params: Vec::new(),
            written_by: Some(xact::current_command_id()),
            subject,
        })
        .map(|_| ())
}
