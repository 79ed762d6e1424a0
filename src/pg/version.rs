//! Everything that differs between the supported major versions of PostgreSQL, and what pgrx does not bind.

use crate::model::error::{FdwError, Result};
use crate::pg::raise::bytes;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ffi::c_int;

extern "C-unwind" {
    fn find_all_inheritors(
        parent: Oid,
        lockmode: c_int,
        numparents: *mut *mut pg_sys::List,
    ) -> *mut pg_sys::List;
    fn get_partition_ancestors(relid: Oid) -> *mut pg_sys::List;
    fn RelationGetPartitionQual(relation: pg_sys::Relation) -> *mut pg_sys::List;
    fn ExecSetupPartitionTupleRouting(
        estate: *mut pg_sys::EState,
        root: pg_sys::Relation,
    ) -> *mut pg_sys::PartitionTupleRouting;
    fn ExecFindPartition(
        node: *mut pg_sys::ModifyTableState,
        root: *mut pg_sys::ResultRelInfo,
        routing: *mut pg_sys::PartitionTupleRouting,
        slot: *mut pg_sys::TupleTableSlot,
        estate: *mut pg_sys::EState,
    ) -> *mut pg_sys::ResultRelInfo;
}

/// Can a foreign table have virtual generated columns?
pub const HAS_VIRTUAL_COLUMNS: bool = cfg!(feature = "pg18");

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

/// OIDs of the partitioned tables above `relid`, the nearest first.
///
/// # Safety
/// To be called inside a transaction.
pub unsafe fn partition_ancestors(relid: Oid) -> *mut pg_sys::List {
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| get_partition_ancestors(relid)) }
}

/// The bound of a partition and of its ancestors, as a list of conditions on columns of range table
/// index 1. Empty for other relations.
///
/// # Safety
/// `relation` is open.
pub unsafe fn partition_qual(relation: pg_sys::Relation) -> *mut pg_sys::List {
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| RelationGetPartitionQual(relation)) }
}

/// What a node needs to route rows below `root`, in the current memory context.
///
/// # Safety
/// Both are valid.
pub unsafe fn setup_routing(
    estate: *mut pg_sys::EState,
    root: pg_sys::Relation,
) -> *mut pg_sys::PartitionTupleRouting {
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| ExecSetupPartitionTupleRouting(estate, root)) }
}

/// The leaf below a node's root that a row of the root belongs to. An error of core if there is none.
///
/// # Safety
/// All are valid and belong together, and the node is set up for routing.
pub unsafe fn find_partition(
    node: *mut pg_sys::ModifyTableState,
    slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) -> *mut pg_sys::ResultRelInfo {
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe {
        let root = (*node).rootResultRelInfo;
        let routing = (*node).mt_partition_tuple_routing;
        pg_sys::ffi::pg_guard_ffi_boundary(|| ExecFindPartition(node, root, routing, slot, estate))
    }
}

/// How rows of the root become rows of a leaf that routing has found; null if they are the same.
///
/// # Safety
/// Both are valid and belong together.
#[cfg(feature = "pg15")]
pub unsafe fn root_to_leaf_map(
    leaf: *mut pg_sys::ResultRelInfo,
    _estate: *mut pg_sys::EState,
) -> *mut pg_sys::TupleConversionMap {
    // SAFETY: by the contract.
    unsafe { (*leaf).ri_RootToPartitionMap }
}

/// How rows of the root become rows of a leaf that routing has found; null if they are the same.
///
/// # Safety
/// Both are valid and belong together.
#[cfg(not(feature = "pg15"))]
pub unsafe fn root_to_leaf_map(
    leaf: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
) -> *mut pg_sys::TupleConversionMap {
    // SAFETY: by the contract.
    unsafe { pg_sys::ExecGetRootToChildMap(leaf, estate) }
}

/// What a backend is waiting for, for `pg_stat_activity`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEvent {
    /// A connection to a shard to be made.
    Connect,
    /// An answer of a shard, or room to send.
    Result,
    /// A shard to undo what a failed transaction left.
    Cleanup,
}

/// The number of a wait event. From 17 on extensions may name their own.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub fn wait_event(event: WaitEvent) -> u32 {
    use std::cell::Cell;
    thread_local! {
        static KNOWN: [Cell<u32>; 3] = const { [Cell::new(0), Cell::new(0), Cell::new(0)] };
    }
    KNOWN.with(|known| {
        let (known, name) = match event {
            WaitEvent::Connect => (&known[0], c"ShardFdwConnect"),
            WaitEvent::Result => (&known[1], c"ShardFdwResult"),
            WaitEvent::Cleanup => (&known[2], c"ShardFdwCleanup"),
        };
        if known.get() == 0 {
            // SAFETY: the name is NUL-terminated; core copies it into shared memory.
            known.set(unsafe { pg_sys::WaitEventExtensionNew(name.as_ptr()) });
        }
        known.get()
    })
}

/// The number of a wait event: before 17 there is one for all extensions.
#[cfg(not(any(feature = "pg17", feature = "pg18")))]
pub fn wait_event(_event: WaitEvent) -> u32 {
    pg_sys::PG_WAIT_EXTENSION
}

/// A WaitEventSet with room for `size` events that no resource owner frees.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub fn create_wait_event_set(size: c_int) -> *mut pg_sys::WaitEventSet {
    // SAFETY: without an owner the set lives until it is freed by hand.
    unsafe { pg_sys::CreateWaitEventSet(std::ptr::null_mut(), size) }
}

/// A WaitEventSet with room for `size` events, in the current memory context.
#[cfg(not(any(feature = "pg17", feature = "pg18")))]
pub fn create_wait_event_set(size: c_int) -> *mut pg_sys::WaitEventSet {
    // SAFETY: the context is valid; the caller frees the set by hand.
    unsafe { pg_sys::CreateWaitEventSet(pg_sys::CurrentMemoryContext, size) }
}

/// What a user may do with a foreign server.
#[cfg(feature = "pg15")]
pub fn server_acl_check(server: Oid, user: Oid, mode: pg_sys::AclMode) -> pg_sys::AclResult::Type {
    // SAFETY: a syscache lookup; an unknown server is raised as an error.
    unsafe { pg_sys::pg_foreign_server_aclcheck(server, user, mode) }
}

/// What a user may do with a foreign server.
#[cfg(not(feature = "pg15"))]
pub fn server_acl_check(server: Oid, user: Oid, mode: pg_sys::AclMode) -> pg_sys::AclResult::Type {
    // SAFETY: a syscache lookup; an unknown server is raised as an error.
    unsafe { pg_sys::object_aclcheck(pg_sys::ForeignServerRelationId, server, user, mode) }
}

/// Version of the running server, in the form of `server_version_num`.
pub fn server_version() -> Result<i32> {
    // SAFETY: the setting exists in every server; its text is copied at once.
    let text = unsafe {
        bytes(pg_sys::GetConfigOption(
            c"server_version_num".as_ptr(),
            false,
            false,
        ))
    };
    std::str::from_utf8(&text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| FdwError::internal("server_version_num is not a number"))
}

/// Attribute of `pg_database` with the locale of ICU, from 17 on of PostgreSQL's own provider too.
#[cfg(any(feature = "pg15", feature = "pg16"))]
pub const DATABASE_LOCALE: u32 = pg_sys::Anum_pg_database_daticulocale;
/// Attribute of `pg_database` with the locale of ICU, from 17 on of PostgreSQL's own provider too.
#[cfg(any(feature = "pg17", feature = "pg18"))]
pub const DATABASE_LOCALE: u32 = pg_sys::Anum_pg_database_datlocale;

/// Attribute of `pg_database` with ICU's additional rules, from 16 on.
#[cfg(feature = "pg15")]
pub const DATABASE_RULES: Option<u32> = None;
/// Attribute of `pg_database` with ICU's additional rules, from 16 on.
#[cfg(not(feature = "pg15"))]
pub const DATABASE_RULES: Option<u32> = Some(pg_sys::Anum_pg_database_daticurules);

/// Version of a provider's data for a locale at present, palloc'd; null if it has none.
///
/// # Safety
/// `locale` is NUL-terminated.
pub unsafe fn collation_version(
    provider: u8,
    locale: *const std::ffi::c_char,
) -> *const std::ffi::c_char {
    extern "C-unwind" {
        fn get_collation_actual_version(
            provider: std::ffi::c_char,
            locale: *const std::ffi::c_char,
        ) -> *mut std::ffi::c_char;
    }
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            get_collation_actual_version(provider as std::ffi::c_char, locale)
        })
    }
}

/// Has the local client delegated GSSAPI credentials? The function behind this exists from 16 on, and only in a server
/// built with GSSAPI, so it is looked up rather than linked.
#[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
pub fn has_delegated_credentials() -> bool {
    use std::ffi::{c_char, c_void};
    extern "C" {
        fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    }
    #[cfg(target_os = "macos")]
    const RTLD_DEFAULT: *mut c_void = -2isize as *mut c_void;
    #[cfg(not(target_os = "macos"))]
    const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
    type GetDelegation = unsafe extern "C-unwind" fn(*mut pg_sys::Port) -> bool;

    // SAFETY: a plain variable of the backend.
    let port = unsafe { pg_sys::MyProcPort };
    if port.is_null() {
        return false;
    }
    // SAFETY: the name is NUL-terminated.
    let function = unsafe { dlsym(RTLD_DEFAULT, c"be_gssapi_get_delegation".as_ptr()) };
    if function.is_null() {
        return false;
    }
    // SAFETY: libpq/libpq-be.h declares the function with this type.
    let function = unsafe { std::mem::transmute::<*mut c_void, GetDelegation>(function) };
    // SAFETY: the port is this backend's; the function reads it and cannot raise.
    unsafe { function(port) }
}

/// Has the local client delegated GSSAPI credentials? Not known before 16.
#[cfg(not(any(feature = "pg16", feature = "pg17", feature = "pg18")))]
pub fn has_delegated_credentials() -> bool {
    false
}

/// A plain path over all of `baserel`, in the order of `pathkeys` (null: in none).
///
/// # Safety
/// Both are valid; to be called by GetForeignPaths.
pub unsafe fn create_foreignscan_path(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    rows: f64,
    startup_cost: f64,
    total_cost: f64,
    pathkeys: *mut pg_sys::List,
) -> *mut pg_sys::ForeignPath {
    use std::ptr::null_mut;
    // SAFETY: by the contract; a null target stands for the relation's own, null lists are empty.
    unsafe {
        pg_sys::create_foreignscan_path(
            root,
            baserel,
            null_mut(),
            rows,
            #[cfg(feature = "pg18")]
            0,
            startup_cost,
            total_cost,
            pathkeys,
            (*baserel).lateral_relids,
            null_mut(),
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            null_mut(),
            null_mut(),
        )
    }
}

/// The user whose rights a scan of a base relation uses; invalid for the current user. Views say so in the range
/// table up to 15, in the plan node from 16 on.
///
/// # Safety
/// Both are valid, and the plan belongs to the state.
#[cfg(feature = "pg15")]
pub unsafe fn check_as_user(plan: *mut pg_sys::ForeignScan, estate: *mut pg_sys::EState) -> Oid {
    // SAFETY: by the contract.
    unsafe {
        let entry = pg_sys::list_nth(
            (*estate).es_range_table,
            (*plan).scan.scanrelid as c_int - 1,
        )
        .cast::<pg_sys::RangeTblEntry>();
        (*entry).checkAsUser
    }
}

/// The user whose rights a scan of a base relation uses; invalid for the current user. Views say so in the range
/// table up to 15, in the plan node from 16 on.
///
/// # Safety
/// Both are valid, and the plan belongs to the state.
#[cfg(not(feature = "pg15"))]
pub unsafe fn check_as_user(plan: *mut pg_sys::ForeignScan, _estate: *mut pg_sys::EState) -> Oid {
    // SAFETY: by the contract.
    unsafe { (*plan).checkAsUser }
}

/// The user whose rights a range table entry is used with; invalid for the current user, and from 16 on, where the entry does not
/// say it.
///
/// # Safety
/// `entry` is valid.
pub unsafe fn entry_user(entry: *mut pg_sys::RangeTblEntry) -> Oid {
    #[cfg(feature = "pg15")]
    // SAFETY: by the contract.
    let user = unsafe { (*entry).checkAsUser };
    #[cfg(not(feature = "pg15"))]
    let user = {
        let _ = entry;
        Oid::INVALID
    };
    user
}

/// The operator by which a key of an order sorts values of a type of its operator family; invalid if there is none.
///
/// # Safety
/// `pathkey` is valid.
pub unsafe fn pathkey_operator(pathkey: *mut pg_sys::PathKey, type_oid: Oid) -> Oid {
    // SAFETY: by the contract; syscache lookups.
    unsafe {
        let family = (*pathkey).pk_opfamily;
        #[cfg(not(feature = "pg18"))]
        let operator =
            pg_sys::get_opfamily_member(family, type_oid, type_oid, (*pathkey).pk_strategy as i16);
        #[cfg(feature = "pg18")]
        let operator = pg_sys::get_opfamily_member_for_cmptype(
            family,
            type_oid,
            type_oid,
            (*pathkey).pk_cmptype,
        );
        operator
    }
}

/// The user whose rights a write to a relation uses; invalid for the current user.
///
/// # Safety
/// Both are valid and belong together.
#[cfg(feature = "pg15")]
pub unsafe fn result_check_as_user(
    rinfo: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
) -> Oid {
    // SAFETY: by the contract.
    unsafe {
        // A leaf reached by routing has no range table entry of its own, its root has.
        let root = (*rinfo).ri_RootResultRelInfo;
        let named = if root.is_null() { rinfo } else { root };
        let index = (*named).ri_RangeTableIndex as c_int;
        if index == 0 {
            return Oid::INVALID;
        }
        let entry = pg_sys::list_nth((*estate).es_range_table, index - 1);
        (*entry.cast::<pg_sys::RangeTblEntry>()).checkAsUser
    }
}

/// The user whose rights a write to a relation uses; invalid for the current user.
///
/// # Safety
/// Both are valid and belong together.
#[cfg(not(feature = "pg15"))]
pub unsafe fn result_check_as_user(
    rinfo: *mut pg_sys::ResultRelInfo,
    estate: *mut pg_sys::EState,
) -> Oid {
    // SAFETY: by the contract.
    unsafe { pg_sys::ExecGetResultRelCheckAsUser(rinfo, estate) }
}

/// Columns that an UPDATE changes, generated ones that follow included, as a set of attribute numbers less
/// `FirstLowInvalidHeapAttributeNumber`.
///
/// # Safety
/// Both are valid.
pub unsafe fn updated_columns(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
) -> *mut pg_sys::Bitmapset {
    extern "C-unwind" {
        fn get_rel_all_updated_cols(
            root: *mut pg_sys::PlannerInfo,
            rel: *mut pg_sys::RelOptInfo,
        ) -> *mut pg_sys::Bitmapset;
    }
    // SAFETY: a C function behind pgrx's guard; the closure holds plain data only.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| get_rel_all_updated_cols(root, rel)) }
}

/// A copy of `node` with the columns of range table index 1 replaced by the expressions that the target list has for
/// their numbers.
///
/// # Safety
/// Both are valid; `node` has no subqueries.
pub unsafe fn replace_columns(
    node: *mut pg_sys::Node,
    targets: *mut pg_sys::List,
) -> *mut pg_sys::Node {
    use std::ptr::null_mut;
    // SAFETY: by the contract; without whole-row Vars no range table entry is needed.
    unsafe {
        pg_sys::ReplaceVarsFromTargetList(
            node,
            1,
            0,
            null_mut(),
            targets,
            #[cfg(feature = "pg18")]
            0,
            pg_sys::ReplaceVarsNoMatchOption::REPLACEVARS_CHANGE_VARNO,
            1,
            null_mut(),
        )
    }
}

/// Could the executor take one target of an UPDATE or DELETE for another? Up to 18.5, partitions pruned when execution
/// begins shift which targets it believes to be written to by their scans (mended by commit b43f8aa4cb).
///
/// # Safety
/// `append` is valid.
#[cfg(feature = "pg18")]
pub unsafe fn confuses_targets(append: *mut pg_sys::Append) -> Result<bool> {
    // SAFETY: by the contract.
    let prunes = unsafe { (*append).part_prune_index } >= 0;
    Ok(prunes && server_version()? < 180_006)
}

/// Could the executor take one target of an UPDATE or DELETE for another? Not before 18.
///
/// # Safety
/// `append` is valid.
#[cfg(not(feature = "pg18"))]
pub unsafe fn confuses_targets(_append: *mut pg_sys::Append) -> Result<bool> {
    Ok(false)
}

/// Does a column in a RETURNING list mean the row as it was (18 and later)?
///
/// # Safety
/// `var` is valid.
#[cfg(feature = "pg18")]
pub unsafe fn is_of_old_row(var: *mut pg_sys::Var) -> bool {
    // SAFETY: by the contract.
    unsafe { (*var).varreturningtype == pg_sys::VarReturningType::VAR_RETURNING_OLD }
}

/// Does a column in a RETURNING list mean the row as it was (18 and later)?
///
/// # Safety
/// `var` is valid.
#[cfg(not(feature = "pg18"))]
pub unsafe fn is_of_old_row(_var: *mut pg_sys::Var) -> bool {
    false
}
