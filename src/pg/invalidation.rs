//! Notice of changed servers, user mappings and relations.

use pgrx::pg_sys;
use pgrx::pg_sys::Datum;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_int;

/// What has changed: the hash of an entry in its syscache, 0 for all entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Server(u32),
    Mapping(u32),
}

impl Changed {
    /// Does the change concern the server and mapping with these hash values?
    pub fn concerns(self, server: u32, mapping: u32) -> bool {
        match self {
            Changed::Server(hash) => hash == 0 || hash == server,
            Changed::Mapping(hash) => hash == 0 || hash == mapping,
        }
    }
}

thread_local! {
    static LISTENER: Cell<Option<fn(Changed)>> = const { Cell::new(None) };
    static ACCESS_GENERATION: Cell<u64> = const { Cell::new(0) };
}

/// A number that differs from an earlier one if something may have changed in between of who may use which server as whom:
/// servers, user mappings, roles and their members. Counted once a function is registered.
#[inline]
pub fn access_generation() -> u64 {
    ACCESS_GENERATION.get()
}

thread_local! {
    /// Relations somebody has asked for, with the number of changes seen; under 0 those that concern all.
    static RELATIONS: RefCell<HashMap<u32, u64>> = RefCell::new(HashMap::new());
}

/// A number that differs from an earlier one if the relation may have changed in between.
fn relation_generation(relid: Oid) -> u64 {
    if RELATIONS.with_borrow(HashMap::is_empty) {
        // SAFETY: a plain registration of a function that lives as long as the process.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), Datum::null()) };
    }
    RELATIONS.with_borrow_mut(|relations| {
        let all = *relations.entry(0).or_default();
        let own = *relations.entry(relid.to_u32()).or_default();
        all + own
    })
}

thread_local! {
    /// Changes of servers, user mappings and schemas seen; None before somebody has asked.
    static SURROUNDINGS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A number that differs from an earlier one if a server, a user mapping or a schema may have changed in between.
pub fn surroundings_generation() -> u64 {
    if let Some(changes) = SURROUNDINGS.get() {
        return changes;
    }
    let schemas = pg_sys::SysCacheIdentifier::NAMESPACEOID as c_int;
    for cache in [server_cache(), mapping_cache(), schemas] {
        // SAFETY: a plain registration of a function that lives as long as the process.
        unsafe {
            pg_sys::CacheRegisterSyscacheCallback(cache, Some(surroundings_changed), Datum::null())
        };
    }
    SURROUNDINGS.set(Some(0));
    0
}

/// A number that differs from an earlier one if anything of a foreign table may have changed in between: it, its server, or
/// the name of its schema, which may be part of its remote name. What is looked up after this was read, and kept with it,
/// is never older than it seems.
pub fn table_generation(relid: Oid) -> u64 {
    relation_generation(relid) + surroundings_generation()
}

unsafe extern "C-unwind" fn surroundings_changed(_argument: Datum, _cache: c_int, _hash: u32) {
    let _ = SURROUNDINGS.try_with(|changes| changes.set(changes.get().map(|count| count + 1)));
}

unsafe extern "C-unwind" fn relation_changed(_argument: Datum, relid: Oid) {
    // The map is never borrowed while core runs, but a callback must not panic in any case.
    let _ = RELATIONS.try_with(|relations| {
        if let Ok(mut relations) = relations.try_borrow_mut() {
            if let Some(changes) = relations.get_mut(&relid.to_u32()) {
                *changes += 1;
            }
        }
    });
}

/// Registers the function that hears of changes, once per backend. It must not fail, wait, or look at a catalog.
pub fn register(listener: fn(Changed)) {
    if LISTENER.replace(Some(listener)).is_none() {
        let roles = [
            pg_sys::SysCacheIdentifier::AUTHOID as c_int,
            pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM as c_int,
        ];
        for cache in [server_cache(), mapping_cache()].into_iter().chain(roles) {
            // SAFETY: a plain registration of a function that lives as long as the process.
            unsafe {
                pg_sys::CacheRegisterSyscacheCallback(cache, Some(callback), Datum::from(cache))
            };
        }
    }
}

/// Hash of an entry of `pg_foreign_server` as the callback reports it.
pub fn server_hash(server: Oid) -> u32 {
    hash(server_cache(), server)
}

/// Hash of an entry of `pg_user_mapping` as the callback reports it.
pub fn mapping_hash(mapping: Oid) -> u32 {
    hash(mapping_cache(), mapping)
}

/// Has all cached plans of this backend made anew before they are run again.
pub fn forget_plans() {
    // SAFETY: marks plans as invalid.
    unsafe { pg_sys::ResetPlanCache() };
}

fn server_cache() -> c_int {
    pg_sys::SysCacheIdentifier::FOREIGNSERVEROID as c_int
}

fn mapping_cache() -> c_int {
    pg_sys::SysCacheIdentifier::USERMAPPINGOID as c_int
}

fn hash(cache: c_int, oid: Oid) -> u32 {
    let none = Datum::null();
    // SAFETY: computes a hash of its arguments.
    unsafe { pg_sys::GetSysCacheHashValue(cache, Datum::from(oid), none, none, none) }
}

unsafe extern "C-unwind" fn callback(argument: Datum, _cache: c_int, hash: u32) {
    // A callback must not panic, which `set` would at the end of the process.
    let _ = ACCESS_GENERATION.try_with(|generation| generation.set(generation.get() + 1));
    let changed = match argument.value() as c_int {
        cache if cache == server_cache() => Changed::Server(hash),
        cache if cache == mapping_cache() => Changed::Mapping(hash),
        _ => return,
    };
    if let Ok(Some(listener)) = LISTENER.try_with(Cell::get) {
        listener(changed);
    }
}
