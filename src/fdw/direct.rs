//! UPDATE and DELETE that a shard does whole: PlanDirectModify to EndDirectModify, and ExplainDirectModify.

use crate::fdw::direct_plan;
use crate::fdw::explain::{explain_sql, explain_waits, explain_writes};
use crate::model::error::{FdwError, Result};
use crate::pg::batch::TupleBatch;
use crate::pg::catalog;
use crate::pg::explain::Explain;
use crate::pg::list;
use crate::pg::param::Params;
use crate::pg::raise::guarded;
use crate::pg::slot::Slot;
use crate::pg::tuple::Decoder;
use crate::pg::version;
use crate::write::direct::{Access, Direct, DirectPlan};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use pgrx::PgMemoryContexts;
use std::ptr;

/// What `ForeignScanState.fdw_state` points to.
struct State {
    direct: Direct,
    can_set_tag: bool,
}

/// The state in a node; None after EXPLAIN without ANALYZE. A modification that has ended leaves an empty place.
///
/// # Safety
/// `node` is a direct modification of ours, and no other borrow of the state is alive.
unsafe fn state_of<'a>(node: *mut pg_sys::ForeignScanState) -> Option<&'a mut Option<State>> {
    // SAFETY: by the contract; the state lives as long as the query's memory context.
    unsafe { (*node).fdw_state.cast::<Option<State>>().as_mut() }
}

/// # Safety
/// As for [`state_of`].
unsafe fn plan_of(node: *mut pg_sys::ForeignScanState) -> Result<DirectPlan> {
    // SAFETY: by the contract.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        DirectPlan::from_items(list::decode((*plan).fdw_private)?)
    }
}

/// # Safety
/// To be called by the planner.
pub unsafe extern "C-unwind" fn plan_direct_modify(
    root: *mut pg_sys::PlannerInfo,
    modify: *mut pg_sys::ModifyTable,
    result_relation: pg_sys::Index,
    subplan_index: i32,
) -> bool {
    // SAFETY: this frame holds no destructors; the planner's structs are valid throughout the call.
    unsafe { guarded(|| direct_plan::plan(root, modify, result_relation, subplan_index)) }
}

/// # Safety
/// To be called by the executor.
pub unsafe extern "C-unwind" fn begin_direct_modify(
    node: *mut pg_sys::ForeignScanState,
    eflags: i32,
) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            if eflags as u32 & pg_sys::EXEC_FLAG_EXPLAIN_ONLY != 0 {
                return Ok(());
            }
            begin(node)
        })
    }
}

/// Does not connect.
///
/// # Safety
/// As for [`begin_direct_modify`].
unsafe fn begin(node: *mut pg_sys::ForeignScanState) -> Result<()> {
    // SAFETY: by the contract; the state dies with es_query_cxt, and with it everything that it points to.
    unsafe {
        let plan = plan_of(node)?;
        let scan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        let estate = (*node).ss.ps.state;
        let context = (*estate).es_query_cxt;
        let relation = (*node).ss.ss_currentRelation;
        let user = match version::check_as_user(scan, estate) {
            Oid::INVALID => pg_sys::GetUserId(),
            user => user,
        };
        let target = (*node).resultRelInfo;
        let root = match (*target).ri_RootResultRelInfo.as_ref() {
            Some(root) => root.ri_RelationDesc,
            None => relation,
        };
        let access = Access {
            server: (*scan).fs_server,
            user,
            relid: (*relation).rd_id,
            root: (*root).rd_id,
            table: catalog::name_of(relation),
            command_id: (*estate).es_output_cid,
        };
        let params = Params::new(&raw mut (*node).ss.ps, (*scan).fdw_exprs);
        let returning = match &plan.returning {
            Some(columns) => Some(TupleBatch::new(
                Decoder::new(relation, columns, context)?,
                Slot::new((*node).ss.ss_ScanTupleSlot),
                context,
                c"shard_fdw returned rows",
            )),
            None => None,
        };
        let state = State {
            can_set_tag: plan.can_set_tag,
            direct: Direct::new(plan, access, params, returning),
        };
        (*node).fdw_state = PgMemoryContexts::For(context)
            .leak_and_drop_on_delete(Some(state))
            .cast();
        Ok(())
    }
}

/// # Safety
/// To be called by the executor, after [`begin_direct_modify`].
pub unsafe extern "C-unwind" fn iterate_direct_modify(
    node: *mut pg_sys::ForeignScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe { guarded(|| iterate(node)) }
}

/// # Safety
/// As for [`iterate_direct_modify`].
unsafe fn iterate(node: *mut pg_sys::ForeignScanState) -> Result<*mut pg_sys::TupleTableSlot> {
    // SAFETY: by the contract.
    unsafe {
        let state = state_of(node)
            .and_then(Option::as_mut)
            .ok_or_else(|| FdwError::internal("a direct modification has not begun"))?;
        let slot = (*node).ss.ss_ScanTupleSlot;
        let returning = (*(*node).resultRelInfo).ri_projectReturning;
        if let Some(rows) = state.direct.run()? {
            if state.can_set_tag {
                (*(*node).ss.ps.state).es_processed += rows;
            }
            // Rows that are handed out core counts for EXPLAIN ANALYZE itself.
            if let Some(instrument) = (*node).ss.ps.instrument.as_mut() {
                if returning.is_null() {
                    instrument.tuplecount += rows as f64;
                }
            }
        }
        if !state.direct.next()? {
            Slot::new(slot).clear();
            return Ok(slot);
        }
        if !returning.is_null() {
            (*(*returning).pi_exprContext).ecxt_scantuple = slot;
        }
        Ok(slot)
    }
}

/// A statement that has been sent cannot be sent again.
///
/// # Safety
/// `node` is a direct modification of ours.
pub unsafe fn rescan(node: *mut pg_sys::ForeignScanState) -> Result<()> {
    // SAFETY: by the contract.
    match unsafe { state_of(node) } {
        Some(Some(state)) if state.direct.has_run() => Err(FdwError::internal(
            "a direct modification cannot be repeated",
        )),
        _ => Ok(()),
    }
}

/// # Safety
/// To be called by the executor, after [`begin_direct_modify`].
pub unsafe extern "C-unwind" fn end_direct_modify(node: *mut pg_sys::ForeignScanState) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            if let Some(state) = state_of(node) {
                *state = None;
            }
            (*node).fdw_state = ptr::null_mut();
            Ok(())
        })
    }
}

/// # Safety
/// To be called by EXPLAIN.
pub unsafe extern "C-unwind" fn explain_direct_modify(
    node: *mut pg_sys::ForeignScanState,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            let out = Explain::new(state);
            explain_sql(&out, &plan_of(node)?.sql, None)?;
            if out.is_analyze() {
                let direct = state_of(node).and_then(Option::as_mut);
                let direct = direct.map(|state| &state.direct);
                explain_writes(&out, direct.map(Direct::stats).unwrap_or_default())?;
                explain_waits(
                    &out,
                    direct
                        .map(|direct| direct.usage().waits())
                        .unwrap_or_default(),
                );
            }
            Ok(())
        })
    }
}
