//! Bounds of partitions. Core checks and moves the rows of local partitions only.

use crate::model::error::FdwError;
use crate::pg::version::partition_qual;
use pgrx::pg_sys;

/// Is the target a partition?
///
/// # Safety
/// `rinfo` is valid.
pub unsafe fn is_partition(rinfo: *mut pg_sys::ResultRelInfo) -> bool {
    // SAFETY: by the contract.
    unsafe { (*(*(*rinfo).ri_RelationDesc).rd_rel).relispartition }
}

/// Could an INSERT bring rows that are outside of a target's bound? Not by routing, unless a trigger changes them.
///
/// # Safety
/// `rinfo` is valid.
pub unsafe fn concern_insert(rinfo: *mut pg_sys::ResultRelInfo) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let triggers = (*rinfo).ri_TrigDesc.as_ref();
        let is_routed = !(*rinfo).ri_RootResultRelInfo.is_null();
        is_partition(rinfo)
            && (!is_routed || triggers.is_some_and(|triggers| triggers.trig_insert_before_row))
    }
}

/// Could an UPDATE of these columns bring a row outside of a target's bound? So it could if a trigger changes columns.
///
/// # Safety
/// `rinfo` is valid.
pub unsafe fn concern_update(rinfo: *mut pg_sys::ResultRelInfo, columns: &[i16]) -> bool {
    // SAFETY: by the contract; the set is made of the bound of the target and its ancestors, all of whose expressions have
    // 1 as their relation's number.
    unsafe {
        if !is_partition(rinfo) {
            return false;
        }
        let triggers = (*rinfo).ri_TrigDesc.as_ref();
        if triggers.is_some_and(|triggers| triggers.trig_update_before_row) {
            return true;
        }
        let qual = partition_qual((*rinfo).ri_RelationDesc);
        let mut used = std::ptr::null_mut();
        pg_sys::pull_varattnos(qual.cast(), 1, &mut used);
        let is_used = |attnum: i16| {
            let member = i32::from(attnum) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            pg_sys::bms_is_member(member, used)
        };
        is_used(0) || columns.iter().any(|&attnum| is_used(attnum))
    }
}

/// Is the row inside of the target's bound?
///
/// # Safety
/// All are valid and belong together; the slot holds the row.
pub unsafe fn is_inside(
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) -> bool {
    // SAFETY: by the contract.
    unsafe { pg_sys::ExecPartitionCheck(rinfo, slot, estate, false) }
}

/// Raises the error of a local partition (23514) for a row that is outside of the target's bound.
///
/// # Safety
/// As for [`is_inside`].
pub unsafe fn refusal(
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) -> FdwError {
    // SAFETY: by the contract.
    unsafe { pg_sys::ExecPartitionCheckEmitError(rinfo, slot, estate) }
    FdwError::internal("a row outside of its partition was not refused")
}
