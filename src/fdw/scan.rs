//! Execution of foreign scans: BeginForeignScan to EndForeignScan, and ExplainForeignScan.

use crate::fdw::rescan::may_rescan;
use crate::fdw::{direct, lock};
use crate::model::error::{FdwError, Result};
use crate::pg::backend;
use crate::pg::batch::TupleBatch;
use crate::pg::catalog;
use crate::pg::explain::Explain;
use crate::pg::list;
use crate::pg::param::Params;
use crate::pg::raise::guarded;
use crate::pg::slot::Slot;
use crate::pg::store::Store;
use crate::pg::tuple::Decoder;
use crate::pg::version;
use crate::read::lock::Locking;
use crate::read::plan::ScanPlan;
use crate::read::scan::{Access, Scan};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use pgrx::PgMemoryContexts;
use std::num::NonZeroU32;
use std::ptr;

/// # Safety
/// `node` is a valid foreign scan of ours.
unsafe fn plan_of(node: *mut pg_sys::ForeignScanState) -> Result<ScanPlan> {
    // SAFETY: by the contract.
    unsafe {
        let plan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        ScanPlan::from_items(list::decode((*plan).fdw_private)?)
    }
}

/// The state in a node; None after EXPLAIN without ANALYZE. A scan that has ended leaves an empty place.
///
/// # Safety
/// `node` is valid, and no other borrow of the state is alive.
unsafe fn scan_of<'a>(node: *mut pg_sys::ForeignScanState) -> Option<&'a mut Option<Scan>> {
    // SAFETY: by the contract; the state lives as long as the query's memory context.
    unsafe { (*node).fdw_state.cast::<Option<Scan>>().as_mut() }
}

/// # Safety
/// To be called by the executor.
pub unsafe extern "C-unwind" fn begin_foreign_scan(
    node: *mut pg_sys::ForeignScanState,
    eflags: i32,
) {
    // SAFETY: this frame holds no destructors; the executor's structs are valid throughout the call.
    unsafe {
        guarded(|| {
            if eflags as u32 & pg_sys::EXEC_FLAG_EXPLAIN_ONLY != 0 {
                return Ok(());
            }
            begin(node, eflags)
        })
    }
}

/// # Safety
/// As for [`begin_foreign_scan`].
unsafe fn begin(node: *mut pg_sys::ForeignScanState, eflags: i32) -> Result<()> {
    // SAFETY: by the contract; the state dies with es_query_cxt, and with it everything that it points to.
    unsafe {
        let mut plan = plan_of(node)?;
        if let Some(Locking::Scan { most: Some(most) }) = &mut plan.locking {
            if backend::in_cursor() {
                // Who fetches from a cursor may stop before the LIMIT is reached.
                *most = NonZeroU32::MIN;
            }
        }
        let foreign_scan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        let estate = (*node).ss.ps.state;
        let context = (*estate).es_query_cxt;
        let relation = (*node).ss.ss_currentRelation;
        let user = match version::check_as_user(foreign_scan, estate) {
            Oid::INVALID => pg_sys::GetUserId(),
            user => user,
        };
        let access = Access {
            server: (*foreign_scan).fs_server,
            user,
            table: catalog::name_of(relation),
            command_id: (*(*estate).es_snapshot).curcid,
        };
        let repeats = eflags as u32 & pg_sys::EXEC_FLAG_REWIND != 0
            || plan.replay && may_rescan((*estate).es_plannedstmt, foreign_scan.cast());
        let store = repeats.then(|| Store::new(relation, context));
        let params = Params::new(&raw mut (*node).ss.ps, (*foreign_scan).fdw_exprs);
        let decoder = Decoder::new(relation, &plan.columns, context)?;
        let slot = Slot::new((*node).ss.ss_ScanTupleSlot);
        let batch = TupleBatch::new(decoder, slot, context, c"shard_fdw batch");
        let mut scan = Scan::new(plan, access, params, batch, store);
        // A recheck of single rows hardly ever scans; if it does, the first fetch registers.
        let is_recheck = !(*estate).es_epq_active.is_null();
        if !is_recheck {
            scan.register()?;
        }
        let scan = PgMemoryContexts::For(context).leak_and_drop_on_delete(Some(scan));
        (*node).fdw_state = scan.cast();
        match is_recheck {
            true => Ok(()),
            false => lock::attach(node, &plan_of(node)?, scan),
        }
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_scan`].
pub unsafe extern "C-unwind" fn iterate_foreign_scan(
    node: *mut pg_sys::ForeignScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            let scan = scan_of(node)
                .and_then(Option::as_mut)
                .ok_or_else(|| FdwError::internal("a foreign scan has not begun"))?;
            scan.next()?;
            Ok((*node).ss.ss_ScanTupleSlot)
        })
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_scan`].
pub unsafe extern "C-unwind" fn rescan_foreign_scan(node: *mut pg_sys::ForeignScanState) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            let plan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
            if (*plan).operation != pg_sys::CmdType::CMD_SELECT {
                return direct::rescan(node);
            }
            let params_changed = !(*node).ss.ps.chgParam.is_null();
            if let Some(Some(scan)) = scan_of(node) {
                scan.rescan(params_changed);
            }
            Ok(())
        })
    }
}

/// # Safety
/// To be called by the executor, after [`begin_foreign_scan`].
pub unsafe extern "C-unwind" fn end_foreign_scan(node: *mut pg_sys::ForeignScanState) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            if let Some(scan) = scan_of(node).and_then(Option::take) {
                scan.end();
            }
            (*node).fdw_state = ptr::null_mut();
            Ok(())
        })
    }
}

/// # Safety
/// To be called by EXPLAIN.
pub unsafe extern "C-unwind" fn explain_foreign_scan(
    node: *mut pg_sys::ForeignScanState,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: as above; the texts are NUL-terminated and copied.
    unsafe {
        guarded(|| {
            if (*es).verbose {
                let plan = plan_of(node)?;
                let out = Explain::new(es);
                out.text(c"Remote SQL", plan.sql.as_bytes())?;
                if let Some(reason) = plan.locale_reason {
                    out.text(c"Not Shipped", reason.describe().as_bytes())?;
                }
                if let Some(locking) = &plan.locking {
                    out.text(c"Rows Locked", locking.describe().as_bytes())?;
                }
            }
            Ok(())
        })
    }
}
