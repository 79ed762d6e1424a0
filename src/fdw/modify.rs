//! Data modification of foreign tables named in a statement: PlanForeignModify to EndForeignModify.

use crate::fdw::insert::{self, InsertTarget};
use crate::fdw::modify_row::{self, RowModify};
use crate::model::error::{FdwError, Result};
use crate::pg::raise::guarded;
use crate::pg::target::Target;
use pgrx::pg_sys;
use pgrx::PgMemoryContexts;
use std::ptr;

/// What `ResultRelInfo.ri_FdwState` points to. A leaf can be a target of UPDATE and of routing at the same time.
#[derive(Default)]
pub struct ModifyState {
    pub rows: Option<RowModify>,
    pub insert: Option<InsertTarget>,
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

/// # Safety
/// `rinfo` is a foreign result relation of ours, and no other borrow of its state is alive.
pub unsafe fn rows_of<'a>(rinfo: *mut pg_sys::ResultRelInfo) -> Result<&'a mut RowModify> {
    // SAFETY: by the contract; the state lives as long as the query's memory context.
    unsafe { (*rinfo).ri_FdwState.cast::<ModifyState>().as_mut() }
        .and_then(|state| state.rows.as_mut())
        .ok_or_else(|| FdwError::internal("data modification has not begun"))
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
            false => Ok(ptr::null_mut()),
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
        guarded(|| {
            check_row_security(pg_sys::WCOKind::WCO_RLS_UPDATE_CHECK, rinfo, slot, estate);
            modify_row::write(rows_of(rinfo)?, slot, plan_slot)
        })
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_modify`].
pub unsafe extern "C-unwind" fn exec_foreign_delete(
    _estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe { guarded(|| modify_row::write(rows_of(rinfo)?, slot, plan_slot)) }
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
                state.rows = None;
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
            let is_updatable = Target::of((*relation).rd_id)?.options.updatable;
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
