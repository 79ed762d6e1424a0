//! The SQL function `shard_fdw_handler()`: the callbacks of the wrapper.

use crate::fdw::{direct, explain, import, insert, lock, modify, plan, scan, truncate};
use crate::pg::raise::guarded;
use pgrx::pg_sys;
use pgrx::pg_sys::Datum;

pgrx::extension_sql!(
    r#"
CREATE FUNCTION shard_fdw_handler() RETURNS fdw_handler
    STRICT LANGUAGE c AS 'MODULE_PATHNAME', 'shard_fdw_handler';
"#,
    name = "handler"
);

/// Tells core how the function is called.
#[no_mangle]
pub extern "C" fn pg_finfo_shard_fdw_handler() -> *const pg_sys::Pg_finfo_record {
    const VERSION_1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &VERSION_1
}

/// # Safety
/// To be called by the function manager.
#[no_mangle]
pub unsafe extern "C-unwind" fn shard_fdw_handler(_fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: this frame holds no destructors; the node is zeroed, so that a callback not set is absent.
    unsafe {
        guarded(|| {
            let routine = pg_sys::palloc0(size_of::<pg_sys::FdwRoutine>()).cast();
            *routine = callbacks();
            Ok(Datum::from(routine))
        })
    }
}

fn callbacks() -> pg_sys::FdwRoutine {
    pg_sys::FdwRoutine {
        type_: pg_sys::NodeTag::T_FdwRoutine,
        GetForeignRelSize: Some(plan::get_foreign_rel_size),
        GetForeignPaths: Some(plan::get_foreign_paths),
        GetForeignRowMarkType: Some(lock::get_foreign_row_mark_type),
        GetForeignPlan: Some(plan::get_foreign_plan),
        AddForeignUpdateTargets: Some(plan::add_foreign_update_targets),
        BeginForeignScan: Some(scan::begin_foreign_scan),
        IterateForeignScan: Some(scan::iterate_foreign_scan),
        ReScanForeignScan: Some(scan::rescan_foreign_scan),
        EndForeignScan: Some(scan::end_foreign_scan),
        ExplainForeignScan: Some(scan::explain_foreign_scan),
        RefetchForeignRow: Some(lock::refetch_foreign_row),
        PlanForeignModify: Some(modify::plan_foreign_modify),
        BeginForeignModify: Some(modify::begin_foreign_modify),
        ExecForeignInsert: Some(insert::exec_foreign_insert),
        ExecForeignBatchInsert: Some(insert::exec_foreign_batch_insert),
        GetForeignModifyBatchSize: Some(insert::get_foreign_modify_batch_size),
        BeginForeignInsert: Some(insert::begin_foreign_insert),
        EndForeignInsert: Some(insert::end_foreign_insert),
        ExecForeignUpdate: Some(modify::exec_foreign_update),
        ExecForeignDelete: Some(modify::exec_foreign_delete),
        EndForeignModify: Some(modify::end_foreign_modify),
        ExplainForeignModify: Some(explain::explain_foreign_modify),
        PlanDirectModify: Some(direct::plan_direct_modify),
        BeginDirectModify: Some(direct::begin_direct_modify),
        IterateDirectModify: Some(direct::iterate_direct_modify),
        EndDirectModify: Some(direct::end_direct_modify),
        ExplainDirectModify: Some(direct::explain_direct_modify),
        IsForeignRelUpdatable: Some(modify::is_foreign_rel_updatable),
        ImportForeignSchema: Some(import::import_foreign_schema),
        ExecForeignTruncate: Some(truncate::exec_foreign_truncate),
        ..Default::default()
    }
}
