//! Catalog entries as owned structs: nothing here points into a cache that an invalidation could free.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::text;
use crate::pg::raise::bytes;
use crate::pg::version;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// Name and value of an option of a server, mapping, table or column.
pub type OptionPair = (Vec<u8>, Vec<u8>);

/// A foreign server.
#[derive(Debug, Clone)]
pub struct Server {
    pub oid: Oid,
    pub name: Vec<u8>,
    pub options: Vec<OptionPair>,
}

impl Server {
    /// The name for messages.
    pub fn display_name(&self) -> String {
        text::from_bytes(&self.name)
    }
}

/// A user mapping. The one of PUBLIC may serve any user.
#[derive(Debug, Clone)]
pub struct UserMapping {
    pub oid: Oid,
    /// The user that the mapping was looked up for.
    pub user: Oid,
    /// The user that it belongs to; 0 for PUBLIC.
    pub owner: Oid,
    pub options: Vec<OptionPair>,
}

/// Server and options of a foreign table.
#[derive(Debug, Clone)]
pub struct ForeignTable {
    pub server: Oid,
    pub options: Vec<OptionPair>,
}

/// A column that is not dropped.
#[derive(Debug, Clone)]
pub struct Column {
    /// Attribute number, from 1.
    pub attnum: i16,
    pub name: Vec<u8>,
    pub type_oid: Oid,
    pub typmod: i32,
    /// Invalid for a type that has none.
    pub collation: Oid,
    /// `'s'` for stored, `'v'` for virtual generated columns, 0 otherwise.
    pub generated: u8,
    pub options: Vec<OptionPair>,
}

/// Names and columns of a relation.
#[derive(Debug, Clone)]
pub struct Relation {
    pub schema: Vec<u8>,
    pub name: Vec<u8>,
    pub columns: Vec<Column>,
}

impl Relation {
    /// The name for messages.
    pub fn display_name(&self) -> String {
        text::from_bytes(&self.name)
    }

    pub fn column(&self, attnum: i16) -> Option<&Column> {
        self.columns.iter().find(|column| column.attnum == attnum)
    }
}

/// The server with this OID; an error of core if there is none.
pub fn server(oid: Oid) -> Result<Server> {
    // SAFETY: GetForeignServer returns a palloc'd copy or raises.
    unsafe {
        let raw = &*pg_sys::GetForeignServer(oid);
        Ok(Server {
            oid,
            name: bytes(raw.servername),
            options: option_pairs(raw.options),
        })
    }
}

/// The server of this name, or None.
pub fn server_by_name(name: &[u8]) -> Result<Option<Server>> {
    let name = c_string(name)?;
    // SAFETY: the name is NUL-terminated; with missing_ok a null pointer says that there is none.
    let raw = unsafe { pg_sys::GetForeignServerByName(name.as_ptr(), true) };
    if raw.is_null() {
        return Ok(None);
    }
    // SAFETY: a palloc'd copy, not null.
    unsafe { server((*raw).serverid) }.map(Some)
}

/// The server with this OID, or None.
pub fn server_if_exists(oid: Oid) -> Result<Option<Server>> {
    // SAFETY: a syscache lookup; with this flag a null pointer says that there is none.
    let raw = unsafe { pg_sys::GetForeignServerExtended(oid, pg_sys::FSV_MISSING_OK as u16) };
    if raw.is_null() {
        return Ok(None);
    }
    server(oid).map(Some)
}

/// Does the server belong to a wrapper with this library's handler?
pub fn is_own_server(server: Oid) -> Result<bool> {
    // SAFETY: both return palloc'd copies or raise; the name is palloc'd, or null if there is no such function.
    unsafe {
        let wrapper = (*pg_sys::GetForeignServer(server)).fdwid;
        let handler = (*pg_sys::GetForeignDataWrapper(wrapper)).fdwhandler;
        let is_ours = handler != Oid::INVALID
            && bytes(pg_sys::get_func_name(handler)) == b"shard_fdw_handler";
        Ok(is_ours)
    }
}

/// Core's error (42501) unless `user` has USAGE on the server.
pub fn check_server_usage(server: &Server, user: Oid) -> Result<()> {
    let allowed = version::server_acl_check(server.oid, user, pg_sys::ACL_USAGE as pg_sys::AclMode);
    if allowed != pg_sys::AclResult::ACLCHECK_OK {
        let name = c_string(&server.name)?;
        let kind = pg_sys::ObjectType::OBJECT_FOREIGN_SERVER;
        // SAFETY: the name is NUL-terminated; the error is raised as a panic of pgrx, which frees it.
        unsafe { pg_sys::aclcheck_error(allowed, kind, name.as_ptr()) };
    }
    Ok(())
}

/// The mapping of `user` for `server`, else that of PUBLIC, else core's error.
pub fn user_mapping(user: Oid, server: Oid) -> Result<UserMapping> {
    // SAFETY: GetUserMapping returns a palloc'd copy or raises.
    unsafe {
        let raw = &*pg_sys::GetUserMapping(user, server);
        Ok(UserMapping {
            oid: raw.umid,
            user: raw.userid,
            owner: mapping_owner(raw.umid).unwrap_or(raw.userid),
            options: option_pairs(raw.options),
        })
    }
}

/// Has the user a mapping for the server, or PUBLIC?
pub fn has_user_mapping(user: Oid, server: Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::USERMAPPINGUSERSERVER as i32;
    let none = pg_sys::Datum::null();
    [user, Oid::INVALID].into_iter().any(|user| {
        // SAFETY: a syscache lookup by its two keys.
        unsafe { pg_sys::SearchSysCacheExists(cache, user.into(), server.into(), none, none) }
    })
}

/// The user that a mapping belongs to, 0 for that of PUBLIC; None if it is gone.
fn mapping_owner(mapping: Oid) -> Option<Oid> {
    // SAFETY: a syscache lookup; the entry is released before anything else happens.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::USERMAPPINGOID as i32,
            pg_sys::Datum::from(mapping),
        );
        if tuple.is_null() {
            return None;
        }
        let user = (*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_user_mapping>()).umuser;
        pg_sys::ReleaseSysCache(tuple);
        Some(user)
    }
}

/// Name of the user that a mapping is for, `public` for that of PUBLIC; None if mapping or user are gone.
pub fn mapping_user_name(mapping: Oid) -> Option<Vec<u8>> {
    match mapping_owner(mapping)? {
        Oid::INVALID => Some(b"public".to_vec()),
        user => role_name(user),
    }
}

/// Server and options of a foreign table.
pub fn foreign_table(relid: Oid) -> Result<ForeignTable> {
    // SAFETY: GetForeignTable returns a palloc'd copy or raises.
    unsafe {
        let raw = &*pg_sys::GetForeignTable(relid);
        Ok(ForeignTable {
            server: raw.serverid,
            options: option_pairs(raw.options),
        })
    }
}

/// Names and live columns of a relation that the caller has locked.
pub fn relation(relid: Oid) -> Result<Relation> {
    // SAFETY: the relcache entry is closed before anything of it could be freed; everything is copied out. An error
    // in between is cleaned up by the resource owner.
    unsafe {
        let raw = pg_sys::RelationIdGetRelation(relid);
        if raw.is_null() {
            return Err(FdwError::internal(format!(
                "could not open relation with OID {}",
                relid.to_u32()
            )));
        }
        let relation = describe(raw);
        pg_sys::RelationClose(raw);
        relation
    }
}

/// Names and live columns of an open relation.
///
/// # Safety
/// `raw` is a valid relcache entry.
pub unsafe fn describe(raw: pg_sys::Relation) -> Result<Relation> {
    // SAFETY: by the contract; the pointers of a relcache entry are valid while it is open.
    unsafe {
        let form = &*(*raw).rd_rel;
        let tupdesc = (*raw).rd_att;
        let mut columns = Vec::with_capacity((*tupdesc).natts as usize);
        for index in 0..(*tupdesc).natts as usize {
            let attribute = version::tupdesc_attribute(tupdesc, index);
            if attribute.attisdropped {
                continue;
            }
            let options = if form.relkind as u8 == pg_sys::RELKIND_FOREIGN_TABLE {
                option_pairs(pg_sys::GetForeignColumnOptions(
                    (*raw).rd_id,
                    attribute.attnum,
                ))
            } else {
                Vec::new()
            };
            columns.push(Column {
                attnum: attribute.attnum,
                name: bytes(attribute.attname.data.as_ptr()),
                type_oid: attribute.atttypid,
                typmod: attribute.atttypmod,
                collation: attribute.attcollation,
                generated: attribute.attgenerated as u8,
                options,
            });
        }
        Ok(Relation {
            schema: bytes(pg_sys::get_namespace_name(form.relnamespace)),
            name: bytes(form.relname.data.as_ptr()),
            columns,
        })
    }
}

/// Name of an open relation.
///
/// # Safety
/// `raw` is a valid relcache entry.
pub unsafe fn name_of(raw: pg_sys::Relation) -> Vec<u8> {
    // SAFETY: by the contract.
    unsafe { bytes((*(*raw).rd_rel).relname.data.as_ptr()) }
}

/// Name of a relation, if it exists.
pub fn relation_name(relid: Oid) -> Option<Vec<u8>> {
    // SAFETY: get_rel_name returns null or a palloc'd copy.
    unsafe {
        let name = pg_sys::get_rel_name(relid);
        (!name.is_null()).then(|| bytes(name))
    }
}

/// All foreign tables below `relid`, itself included, in the order of core's catalogs.
pub fn foreign_leaves(relid: Oid) -> Result<Vec<Oid>> {
    // SAFETY: find_all_inheritors returns a palloc'd list of OIDs; nothing is locked, only names are looked at.
    unsafe {
        let mut leaves = oid_list(version::inheritors(relid));
        leaves.retain(|leaf| relkind(*leaf) == pg_sys::RELKIND_FOREIGN_TABLE);
        Ok(leaves)
    }
}

/// The partitioned table at the top of the tree that `relid` is a partition in; `relid` itself if it is none.
pub fn topmost_parent(relid: Oid) -> Oid {
    // SAFETY: get_partition_ancestors returns a palloc'd list of OIDs, the topmost one last.
    let ancestors = unsafe { oid_list(version::partition_ancestors(relid)) };
    ancestors.last().copied().unwrap_or(relid)
}

/// The relation's kind (`pg_class.relkind`), 0 if there is no such relation.
pub fn relkind(relid: Oid) -> u8 {
    // SAFETY: a syscache lookup of a plain value.
    unsafe { pg_sys::get_rel_relkind(relid) as u8 }
}

/// Name of a role for messages and for `user` columns; None if it is gone.
pub fn role_name(role: Oid) -> Option<Vec<u8>> {
    // SAFETY: with noerr a null pointer says that there is none; the string is palloc'd.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| bytes(name))
    }
}

/// Name and argument types of a function, with its schema where search_path does not find it; its OID if it is gone.
pub fn function_name(function: Oid) -> Vec<u8> {
    // SAFETY: a catalog lookup; the name is palloc'd.
    unsafe { bytes(pg_sys::format_procedure(function)) }
}

/// Copies a list of DefElem options.
///
/// # Safety
/// `list` is null or a List of DefElem with string values.
pub unsafe fn option_pairs(list: *mut pg_sys::List) -> Vec<OptionPair> {
    // SAFETY: by the contract.
    unsafe {
        let length = pg_sys::list_length(list);
        (0..length)
            .map(|position| {
                let element = pg_sys::list_nth(list, position).cast::<pg_sys::DefElem>();
                (
                    bytes((*element).defname),
                    bytes(pg_sys::defGetString(element)),
                )
            })
            .collect()
    }
}

/// Copies a list of OIDs.
///
/// # Safety
/// `list` is null or an OID list.
pub unsafe fn oid_list(list: *mut pg_sys::List) -> Vec<Oid> {
    // SAFETY: by the contract.
    unsafe {
        (0..pg_sys::list_length(list))
            .map(|position| pg_sys::list_nth_oid(list, position))
            .collect()
    }
}

/// Text as a C string; an embedded NUL, which no SQL text can hold, is an error.
pub fn c_string(text: &[u8]) -> Result<std::ffi::CString> {
    std::ffi::CString::new(text).map_err(|_| {
        FdwError::local(
            SqlState::INVALID_PARAMETER_VALUE,
            "a NUL character is not allowed in text",
        )
    })
}

/// The cells of a list of nodes.
///
/// # Safety
/// `list` is null or a list of pointers.
pub unsafe fn nodes(list: *mut pg_sys::List) -> Vec<*mut pg_sys::Node> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: by the contract; a list has `length` cells, and at least one.
    unsafe {
        std::slice::from_raw_parts((*list).elements, (*list).length as usize)
            .iter()
            .map(|cell| cell.ptr_value.cast())
            .collect()
    }
}

/// A type as written in a cast: with its schema unless built in, and with the modifier (-1 for none).
pub fn type_name(oid: Oid, typmod: i32) -> Vec<u8> {
    let mut flags = pg_sys::FORMAT_TYPE_TYPEMOD_GIVEN;
    if oid.to_u32() >= pg_sys::FirstGenbkiObjectId {
        flags |= pg_sys::FORMAT_TYPE_FORCE_QUALIFY;
    }
    // SAFETY: a catalog lookup; the name is palloc'd.
    unsafe { bytes(pg_sys::format_type_extended(oid, typmod, flags as u16)) }
}

/// Schema and name of a type.
pub fn qualified_type(oid: Oid) -> (Vec<u8>, Vec<u8>) {
    // SAFETY: a syscache lookup; the entry is released before anything can be raised, its name is copied.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::TYPEOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return (Vec::new(), Vec::new());
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_type>();
        let name = bytes((*form).typname.data.as_ptr());
        let namespace = (*form).typnamespace;
        pg_sys::ReleaseSysCache(tuple);
        (bytes(pg_sys::get_namespace_name(namespace)), name)
    }
}

/// Schema and name of the output function of a type.
pub fn output_function(type_oid: Oid) -> (Vec<u8>, Vec<u8>) {
    let mut function = Oid::INVALID;
    let mut is_varlena = false;
    // SAFETY: catalog lookups; the names are palloc'd copies.
    unsafe {
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        let namespace = pg_sys::get_func_namespace(function);
        (
            bytes(pg_sys::get_namespace_name(namespace)),
            bytes(pg_sys::get_func_name(function)),
        )
    }
}
