//! Everything that differs between the supported major versions of PostgreSQL, and what pgrx does not bind.

use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::c_int;

extern "C-unwind" {
    fn find_all_inheritors(
        parent: Oid,
        lockmode: c_int,
        numparents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
}

/// Attribute `index` (from 0) of a tuple descriptor. From 18 on the full attributes follow the compact ones.
///
/// # Safety
/// `tupdesc` is valid and `index` below its `natts`.
#[cfg(not(feature = "pg18"))]
pub unsafe fn tupdesc_attribute<'a>(
    tupdesc: pg_sys::TupleDesc,
    index: usize,
) -> &'a pg_sys::FormData_pg_attribute {
    // SAFETY: by the contract.
    unsafe { &*(*tupdesc).attrs.as_ptr().add(index) }
}

/// Attribute `index` (from 0) of a tuple descriptor. From 18 on the full attributes follow the compact ones.
///
/// # Safety
/// `tupdesc` is valid and `index` below its `natts`.
#[cfg(feature = "pg18")]
pub unsafe fn tupdesc_attribute<'a>(
    tupdesc: pg_sys::TupleDesc,
    index: usize,
) -> &'a pg_sys::FormData_pg_attribute {
    // SAFETY: by the contract; `TupleDescAttr` of `access/tupdesc.h` computes the same place.
    unsafe {
        let attributes = (*tupdesc)
            .compact_attrs
            .as_ptr()
            .add((*tupdesc).natts as usize)
            .cast::<pg_sys::FormData_pg_attribute>();
        &*attributes.add(index)
    }
}

/// OIDs of `parent` and all its descendants, none of them locked.
///
/// # Safety
/// To be called inside a transaction.
pub unsafe fn inheritors(parent: Oid) -> *mut pg_sys::List {
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            find_all_inheritors(parent, pg_sys::NoLock as c_int, std::ptr::null_mut())
        })
    }
}
