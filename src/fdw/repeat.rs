//! Can a plan bring a row of a target of UPDATE or DELETE more than once?

use crate::pg::catalog::nodes;
use pgrx::pg_sys;
use pgrx::pg_sys::{NodeTag, Plan};

/// True if there is anything in `plan` that is not known to bring each row of a table once, above all a join.
///
/// # Safety
/// `plan` is null or valid.
pub unsafe fn may_repeat(plan: *mut Plan) -> bool {
    if plan.is_null() {
        return false;
    }
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        let any = |list| {
            nodes(list)
                .into_iter()
                .any(|child| may_repeat(child.cast()))
        };
        match (*plan).type_ {
            NodeTag::T_ForeignScan
            | NodeTag::T_SeqScan
            | NodeTag::T_IndexScan
            | NodeTag::T_IndexOnlyScan
            | NodeTag::T_BitmapHeapScan
            | NodeTag::T_TidScan
            | NodeTag::T_TidRangeScan => false,
            NodeTag::T_Append => any((*plan.cast::<pg_sys::Append>()).appendplans),
            NodeTag::T_MergeAppend => any((*plan.cast::<pg_sys::MergeAppend>()).mergeplans),
            NodeTag::T_Result
            | NodeTag::T_Sort
            | NodeTag::T_IncrementalSort
            | NodeTag::T_Limit
            | NodeTag::T_LockRows
            | NodeTag::T_Material => may_repeat((*plan).lefttree),
            _ => true,
        }
    }
}
