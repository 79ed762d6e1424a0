//! Data modification of foreign tables named in a statement: PlanForeignModify to EndForeignModify.

use crate::fdw::insert::{self, InsertTarget};
use crate::fdw::modify_row::{self, RowModify, Written};
use crate::fdw::row_move;
use crate::fdw::system_columns;
use crate::model::error::{FdwError, Result, SqlState};
use crate::pg::here;
use crate::pg::pending;
use crate::pg::raise::guarded;
use crate::pg::target::Target;
use crate::remote::session::SessionRef;
use crate::remote::stats::FlushCause;
use pgrx::pg_sys;
use pgrx::PgMemoryContexts;
use std::ptr;

/// What `ResultRelInfo.ri_FdwState` points to. A leaf can be a target of UPDATE and of routing at the same time.
#[derive(Default)]
pub struct ModifyState {
    pub rows: Option<RowModify>,
    pub insert: Option<InsertTarget>,
    /// Is there an entry in core's list of pending inserts?
    pub registered: bool,
}

impl ModifyState {
    /// Adds what waits to the current messages of its sessions, and returns these, to be drained.
    pub fn flush(&self, cause: FlushCause) -> Result<Vec<SessionRef>> {
        let mut sessions = Vec::new();
        if let Some(rows) = &self.rows {
            sessions.extend(rows.change.flush(cause)?);
        }
        if let Some(target) = &self.insert {
            sessions.extend(target.insert.flush(cause)?);
        }
        Ok(sessions)
    }

    /// Number of rows that the shard has written since the last call. Everything must have been answered.
    pub fn take_written(&self) -> Result<u64> {
        let changed = match &self.rows {
            Some(rows) => rows.change.take_changed()?,
            None => 0,
        };
        let inserted = self.insert.as_ref();
        Ok(changed + inserted.map_or(0, |target| target.insert.take_stored()))
    }
}

/// The state of a target, made if there is none.
///
/// # Safety
/// `rinfo` is a foreign result relation of ours, and no other borrow of its state is alive.
pub unsafe fn state_of<'a>(
    rinfo: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
) -> &'a mut ModifyState {
    // SAFETY: by the contract; the state is dropped with the query's memory context.
    unsafe {
        if (*rinfo).ri_FdwState.is_null() {
            (*rinfo).ri_FdwState = PgMemoryContexts::For((*estate).es_query_cxt)
                .leak_and_drop_on_delete(ModifyState::default())
                .cast();
        }
        &mut *(*rinfo).ri_FdwState.cast::<ModifyState>()
    }
}

/// Has core call us back for a target whose rows wait.
///
/// # Safety
/// All are valid and belong together, the node is a ModifyTable node, and no borrow of the target's state is alive.
pub unsafe fn register(
    estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    node: *mut pg_sys::ModifyTableState,
) {
    // SAFETY: by the contract.
    unsafe {
        let state = state_of(rinfo, estate);
        if !state.registered {
            state.registered = true;
            pending::register(estate, rinfo, node);
        }
    }
}

/// Checks row security of a partitioned parent, which core leaves out for foreign leaves.
///
/// # Safety
/// All are valid and belong together; the slot holds the new row.
pub unsafe fn check_row_security(
    kind: pg_sys::WCOKind::Type,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) {
    // SAFETY: by the contract.
    unsafe {
        if !(*rinfo).ri_WithCheckOptions.is_null() {
            pg_sys::ExecWithCheckOptions(kind, rinfo, slot, estate);
        }
    }
}

pub fn is_row_by_row(operation: pg_sys::CmdType::Type) -> bool {
    matches!(
        operation,
        pg_sys::CmdType::CMD_UPDATE | pg_sys::CmdType::CMD_DELETE
    )
}

/// Core refuses to collect rows of foreign tables for transition tables, but only in newer minor releases, and after the
/// row has been written. `is_wanted`: do the tables that are captured concern the row?
///
/// # Safety
/// `node` is valid.
pub unsafe fn refuse_transition_tables(
    node: *mut pg_sys::ModifyTableState,
    is_wanted: impl FnOnce(&pg_sys::TransitionCaptureState) -> bool,
) -> Result<()> {
    // SAFETY: by the contract.
    let capture = unsafe { (*node).mt_transition_capture.as_ref() };
    if !capture.is_some_and(is_wanted) {
        return Ok(());
    }
    Err(FdwError::local(
        SqlState::FEATURE_NOT_SUPPORTED,
        "cannot collect transition tuples from child foreign tables",
    ))
}

/// # Safety
/// To be called by the planner.
pub unsafe extern "C-unwind" fn plan_foreign_modify(
    root: *mut pg_sys::PlannerInfo,
    modify: *mut pg_sys::ModifyTable,
    result_relation: pg_sys::Index,
    subplan_index: i32,
) -> *mut pg_sys::List {
    // SAFETY: this frame holds no destructors; the planner's structs are valid throughout the call.
    unsafe {
        guarded(|| match is_row_by_row((*modify).operation) {
            true => modify_row::plan(root, modify, result_relation, subplan_index),
            false => {
                system_columns::check_insert(root, modify, result_relation, subplan_index)?;
                Ok(ptr::null_mut())
            }
        })
    }
}

/// # Safety
/// To be called by the executor.
pub unsafe extern "C-unwind" fn begin_foreign_modify(
    mtstate: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    _subplan_index: i32,
    eflags: i32,
) {
    // SAFETY: as above; the state dies with es_query_cxt.
    unsafe {
        guarded(|| {
            if eflags as u32 & pg_sys::EXEC_FLAG_EXPLAIN_ONLY != 0 {
                return Ok(());
            }
            if is_row_by_row((*mtstate).operation) {
                let rows = modify_row::begin(mtstate, rinfo, fdw_private)?;
                state_of(rinfo, (*mtstate).ps.state).rows = Some(rows);
                Ok(())
            } else {
                insert::begin(mtstate, rinfo)
            }
        })
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_modify`].
pub unsafe extern "C-unwind" fn exec_foreign_update(
    estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe {
        let written = guarded(|| {
            flush_inserts(rinfo)?;
            modify_row::write(estate, rinfo, slot, plan_slot)
        });
        finish(written, estate)
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_modify`].
pub unsafe extern "C-unwind" fn exec_foreign_delete(
    estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe {
        let written = guarded(|| modify_row::write(estate, rinfo, slot, plan_slot));
        finish(written, estate)
    }
}

/// Stores a row that moves into a local partition, outside of the guard, so that errors keep all of their fields.
///
/// # Safety
/// To be called from a frame that holds no destructors.
unsafe fn finish(written: Written, estate: *mut pg_sys::EState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: by the contract; nor does this frame.
    unsafe {
        match written {
            Written::Slot(slot) => slot,
            Written::Here(node, to) => {
                here::store(to.leaf, to.slot, estate);
                row_move::count(node, estate);
                std::ptr::null_mut()
            }
        }
    }
}

/// Rows that have moved into a target go before those that are changed there afterwards.
///
/// # Safety
/// `rinfo` is valid and ours; no borrow of its state is alive.
unsafe fn flush_inserts(rinfo: *mut pg_sys::ResultRelInfo) -> Result<()> {
    // SAFETY: by the contract.
    match unsafe { insert::insert_of(rinfo) } {
        Some(target) => target.insert.flush(FlushCause::Barrier).map(|_| ()),
        None => Ok(()),
    }
}

/// # Safety
/// To be called by the executor.
pub unsafe extern "C-unwind" fn end_foreign_modify(
    _estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            insert::end(rinfo)?;
            if let Some(state) = (*rinfo).ri_FdwState.cast::<ModifyState>().as_mut() {
                if let Some(rows) = state.rows.take() {
                    rows.change.end()?;
                }
            }
            Ok(())
        })
    }
}

/// # Safety
/// To be called with an open foreign table.
pub unsafe extern "C-unwind" fn is_foreign_rel_updatable(relation: pg_sys::Relation) -> i32 {
    // SAFETY: this frame holds no destructors.
    unsafe {
        guarded(|| {
            let is_updatable = Target::known((*relation).rd_id)?.options.updatable;
            Ok(match is_updatable {
                true => {
                    1 << pg_sys::CmdType::CMD_INSERT
                        | 1 << pg_sys::CmdType::CMD_UPDATE
                        | 1 << pg_sys::CmdType::CMD_DELETE
                }
                false => 0,
            })
        })
    }
}
