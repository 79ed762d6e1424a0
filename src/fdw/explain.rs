//! What EXPLAIN says about a foreign table that is written to.

use crate::fdw::{insert, modify, modify_row};
use crate::model::error::Result;
use crate::model::sql::Sql;
use crate::pg::explain::Explain;
use crate::pg::raise::guarded;
use crate::remote::stats::{FlushCause, WaitStats, WriteStats};
use crate::write::change::Change;
use crate::write::insert::Insert;
use crate::write::policy::SingleReason;
use pgrx::pg_sys;

/// # Safety
/// To be called by EXPLAIN.
pub unsafe extern "C-unwind" fn explain_foreign_modify(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    _subplan_index: i32,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: this frame holds no destructors; the executor's structs are valid throughout the call.
    unsafe {
        guarded(|| {
            let out = Explain::new(state);
            if modify::is_row_by_row((*node).operation) {
                explain_rows(node, target, fdw_private, &out)
            } else {
                explain_insert(node, target, &out)
            }
        })
    }
}

/// An UPDATE or DELETE.
///
/// # Safety
/// The arguments are those of ExplainForeignModify.
unsafe fn explain_rows(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    out: &Explain,
) -> Result<()> {
    // SAFETY: by the contract.
    let is_update = unsafe { (*node).operation == pg_sys::CmdType::CMD_UPDATE };
    let verb = match is_update {
        true => "UPDATE",
        false => "DELETE",
    };
    let explain = |change: &Change, circumstances| {
        let preview = change.preview(circumstances);
        let reason = preview.single_reason.map(SingleReason::describe);
        explain_sql(out, &preview.sql, reason.as_deref())?;
        if out.is_verbose() {
            let rows = match reason {
                Some(_) => "single-row",
                None => "multi-row",
            };
            let policy = preview.flush_policy.name();
            out.count(c"Batch Size", preview.batch_size as u64);
            out.text(c"Transport", format!("{rows} {verb}").as_bytes())?;
            out.text(c"Flush Policy", policy.as_bytes())?;
        }
        if out.is_analyze() {
            explain_writes(out, change.stats())?;
            explain_waits(out, change.usage().waits());
        }
        Ok(())
    };
    // SAFETY: by the contract.
    unsafe { modify_row::preview(node, target, fdw_private, explain) }
}

/// An INSERT into a table that the statement names.
///
/// # Safety
/// Node and target are valid and belong together.
unsafe fn explain_insert(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    out: &Explain,
) -> Result<()> {
    // SAFETY: by the contract.
    let begun = unsafe { insert::insert_of(target) };
    match begun {
        Some(state) => {
            // SAFETY: as above.
            unsafe { explain_target(node, target, &state.insert, out)? };
            if out.is_analyze() {
                explain_waits(out, state.insert.usage().waits());
            }
            Ok(())
        }
        // Without ANALYZE there is no state.
        None => {
            // SAFETY: as above.
            unsafe {
                let insert = Insert::new(insert::place_of(node, target))?;
                explain_target(node, target, &insert, out)
            }
        }
    }
}

/// What is known of a target of INSERT or routing, without its session's waits.
///
/// # Safety
/// Node and target are valid and belong together.
pub unsafe fn explain_target(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    insert: &Insert,
    out: &Explain,
) -> Result<()> {
    // SAFETY: by the contract.
    let preview = unsafe {
        insert.preview(
            insert::circumstances(node, target, &insert.target().options.write),
            insert::named_columns(
                node,
                target,
                (*node).operation == pg_sys::CmdType::CMD_UPDATE,
            ),
        )?
    };
    let reason = preview.single_reason.map(SingleReason::describe);
    explain_sql(out, &preview.sql, reason.as_deref())?;
    if out.is_verbose() {
        let transport = match preview.single_reason {
            Some(_) => "single-row INSERT",
            None if preview.copies => "COPY",
            None => "multi-row INSERT",
        };
        let policy = preview.flush_policy.name();
        out.count(c"Batch Size", preview.batch_size as u64);
        out.text(c"Transport", transport.as_bytes())?;
        out.text(c"Flush Policy", policy.as_bytes())?;
    }
    if out.is_analyze() {
        explain_writes(out, insert.stats())?;
    }
    Ok(())
}

/// The statement, and why it carries one row only if it does.
pub fn explain_sql(out: &Explain, sql: &Sql, single_reason: Option<&str>) -> Result<()> {
    if out.is_verbose() {
        out.text(c"Remote SQL", sql.as_bytes())?;
    }
    match single_reason {
        Some(reason) => out.text(c"Batching", format!("off ({reason})").as_bytes()),
        None => Ok(()),
    }
}

pub fn explain_writes(out: &Explain, stats: WriteStats) -> Result<()> {
    out.count(c"Remote Batches", stats.batches);
    out.count(c"Remote Rows", stats.rows);
    out.count(c"Remote Bytes", stats.bytes);
    let flushes = FlushCause::ALL.map(|cause| (cause.name(), stats.flushes[cause as usize]));
    out.counts(c"Flushes", &flushes)
}

/// What a session has waited while the statement used it. The time is left out with TIMING off.
pub fn explain_waits(out: &Explain, waits: WaitStats) {
    out.count(c"Round Trips", waits.round_trips);
    if out.is_timing() {
        out.time(c"Time Waited", waits.waited);
    }
}
