//! Core's lists of targets with pending inserts, which call us back at the right moments.
//!
//! From 15.2 on the executor keeps two parallel lists in EState. Before any BEFORE ROW trigger of the same EState and at
//! the end of each ModifyTable node, before AFTER STATEMENT triggers and before the command tag is read, it calls
//! ExecForeignBatchInsert for each entry with the slots that it has gathered (for us: none), and empties the lists
//! (`ExecPendingInserts` in nodeModifyTable.c). This file is the only one that touches them.

use crate::pg::memory::MemoryContext;
use pgrx::pg_sys;

/// Has core call us back for `target`. To be called once for each cycle, at most.
///
/// # Safety
/// All are valid and belong together; the node is a ModifyTable node.
pub unsafe fn register(
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    node: *mut pg_sys::ModifyTableState,
) {
    // SAFETY: by the contract; the lists live in the query's context, as core's own entries do.
    unsafe {
        let _entered = MemoryContext::of_core((*estate).es_query_cxt).enter();
        let targets = (*estate).es_insert_pending_result_relations;
        (*estate).es_insert_pending_result_relations = pg_sys::lappend(targets, target.cast());
        let nodes = (*estate).es_insert_pending_modifytables;
        (*estate).es_insert_pending_modifytables = pg_sys::lappend(nodes, node.cast());
    }
}

/// All entries, ours and those of others.
///
/// # Safety
/// `estate` is valid.
pub unsafe fn entries(
    estate: *mut pg_sys::EState,
) -> Vec<(*mut pg_sys::ResultRelInfo, *mut pg_sys::ModifyTableState)> {
    // SAFETY: by the contract; the lists have the same length.
    unsafe {
        let targets = (*estate).es_insert_pending_result_relations;
        let nodes = (*estate).es_insert_pending_modifytables;
        (0..pg_sys::list_length(targets))
            .map(|position| {
                (
                    pg_sys::list_nth(targets, position).cast(),
                    pg_sys::list_nth(nodes, position).cast(),
                )
            })
            .collect()
    }
}
