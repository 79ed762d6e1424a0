//! Storing a row in a local table, with the errors of core as they are: pgrx would keep only a part of their fields.

use pgrx::pg_sys;
use std::ffi::c_int;
use std::ptr::null_mut;

extern "C-unwind" {
    // Not pgrx's bindings, which turn errors into panics.
    fn ExecOpenIndices(target: *mut pg_sys::ResultRelInfo, speculative: bool);
    fn ExecComputeStoredGenerated(
        target: *mut pg_sys::ResultRelInfo,
        estate: *mut pg_sys::EState,
        slot: *mut pg_sys::TupleTableSlot,
        command: pg_sys::CmdType::Type,
    );
    fn ExecWithCheckOptions(
        kind: pg_sys::WCOKind::Type,
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        estate: *mut pg_sys::EState,
    );
    fn ExecConstraints(
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        estate: *mut pg_sys::EState,
    );
    fn ExecInsertIndexTuples(
        target: *mut pg_sys::ResultRelInfo,
        slot: *mut pg_sys::TupleTableSlot,
        estate: *mut pg_sys::EState,
        update: bool,
        no_duplicate_error: bool,
        conflict: *mut bool,
        arbiters: *mut pg_sys::List,
        #[cfg(not(feature = "pg15"))] only_summarizing: bool,
    ) -> *mut pg_sys::List;
}

/// Stores a row that an UPDATE moves into a local leaf without row triggers, as ExecInsert of nodeModifyTable.c does. (The
/// trigger of a deferrable constraint is a row trigger.)
///
/// # Safety
/// All are valid and belong together, and the row is inside of the leaf's bound. To be called from frames that hold no
/// destructors, and outside of pgrx's guards: errors leave by longjmp.
pub unsafe fn store(
    leaf: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) {
    // SAFETY: by the contract; the table access method of a table has this function.
    unsafe {
        let relation = (*leaf).ri_RelationDesc;
        // ExecMaterializeSlot, which is an inline function.
        if let Some(materialize) = (*(*slot).tts_ops).materialize {
            materialize(slot);
        }
        if (*(*relation).rd_rel).relhasindex && (*leaf).ri_IndexRelationDescs.is_null() {
            ExecOpenIndices(leaf, false);
        }
        (*slot).tts_tableOid = (*relation).rd_id;
        let constraints = (*(*relation).rd_att).constr;
        if !constraints.is_null() && (*constraints).has_generated_stored {
            ExecComputeStoredGenerated(leaf, estate, slot, pg_sys::CmdType::CMD_INSERT);
        }
        if !(*leaf).ri_WithCheckOptions.is_null() {
            ExecWithCheckOptions(pg_sys::WCOKind::WCO_RLS_UPDATE_CHECK, leaf, slot, estate);
        }
        if !constraints.is_null() {
            ExecConstraints(leaf, slot, estate);
        }
        if let Some(insert) = (*(*relation).rd_tableam).tuple_insert {
            let options: c_int = 0;
            insert(relation, slot, (*estate).es_output_cid, options, null_mut());
        }
        if (*leaf).ri_NumIndices > 0 {
            ExecInsertIndexTuples(
                leaf,
                slot,
                estate,
                false,
                false,
                null_mut(),
                null_mut(),
                #[cfg(not(feature = "pg15"))]
                false,
            );
        }
    }
}
