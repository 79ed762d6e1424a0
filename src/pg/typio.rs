//! Text forms of values that do not depend on the settings of the session.

use crate::pg::memory::MemoryContext;
use crate::pg::raise::bytes;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::{c_int, CStr};

extern "C" {
    /// The setting; not in pgrx's bindings. A `XmlOptionType`.
    static mut xmloption: c_int;
    /// The setting lc_monetary.
    static mut locale_monetary: *mut std::ffi::c_char;
}

/// What the text form of a type depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dependence {
    Nothing,
    /// Settings like DateStyle.
    Settings,
    /// These, and lc_monetary, which is seldom the one of remote sessions.
    Money,
    /// All these, and search_path, which is dear to change.
    Names,
}

impl Dependence {
    /// That of several together.
    pub fn of_all(all: impl Iterator<Item = Dependence>) -> Dependence {
        all.max().unwrap_or(Dependence::Nothing)
    }

    /// That of a type's output function.
    pub fn of_text(type_oid: Oid) -> Dependence {
        if names_matter(type_oid) {
            Dependence::Names
        } else if money_matters(type_oid) {
            Dependence::Money
        } else {
            Dependence::Settings
        }
    }
}

/// Built-in types whose text form leaves a schema out that is in search_path.
const NAMING_TYPES: [Oid; 11] = [
    pg_sys::REGPROCOID,
    pg_sys::REGPROCEDUREOID,
    pg_sys::REGOPEROID,
    pg_sys::REGOPERATOROID,
    pg_sys::REGCLASSOID,
    pg_sys::REGTYPEOID,
    pg_sys::REGROLEOID,
    pg_sys::REGNAMESPACEOID,
    pg_sys::REGCOLLATIONOID,
    pg_sys::REGCONFIGOID,
    pg_sys::REGDICTIONARYOID,
];

/// Is it such a type?
pub(super) fn names_objects(type_oid: Oid) -> bool {
    NAMING_TYPES.contains(&type_oid)
}

/// The arrays of these, and built-in types made of columns, whatever those are.
const COLLECTING_TYPES: [u32; 17] = [
    pg_sys::REGPROCARRAYOID.to_u32(),
    pg_sys::REGPROCEDUREARRAYOID.to_u32(),
    pg_sys::REGOPERARRAYOID.to_u32(),
    pg_sys::REGOPERATORARRAYOID.to_u32(),
    pg_sys::REGCLASSARRAYOID.to_u32(),
    pg_sys::REGTYPEARRAYOID.to_u32(),
    pg_sys::REGROLEARRAYOID.to_u32(),
    pg_sys::REGNAMESPACEARRAYOID.to_u32(),
    pg_sys::REGCOLLATIONARRAYOID.to_u32(),
    pg_sys::REGCONFIGARRAYOID.to_u32(),
    pg_sys::REGDICTIONARYARRAYOID.to_u32(),
    pg_sys::RECORDOID.to_u32(),
    pg_sys::RECORDARRAYOID.to_u32(),
    pg_sys::TypeRelation_Rowtype_Id,
    pg_sys::AttributeRelation_Rowtype_Id,
    pg_sys::ProcedureRelation_Rowtype_Id,
    pg_sys::RelationRelation_Rowtype_Id,
];

/// Could the text form of a type that another server has under this OID depend on search_path? What is not the same on all
/// servers could.
pub fn remote_names_matter(type_oid: u32) -> bool {
    type_oid >= pg_sys::FirstGenbkiObjectId
        || names_objects(Oid::from(type_oid))
        || COLLECTING_TYPES.contains(&type_oid)
}

/// Built-in types whose text form depends on TimeZone: timestamptz, its arrays, ranges and multiranges.
const ZONED_TYPES: [u32; 6] = [1184, 1185, 3910, 3911, 4534, 6153];

/// Is it such a type? Remote sessions have a time zone of their own.
pub fn time_zone_matters(type_oid: Oid) -> bool {
    ZONED_TYPES.contains(&type_oid.to_u32())
}

/// Could the text form depend on search_path? Of types that extensions have made nobody knows.
fn names_matter(type_oid: Oid) -> bool {
    // SAFETY: catalog lookups.
    let (kind, element) = unsafe {
        (
            pg_sys::get_typtype(type_oid) as u8,
            pg_sys::get_element_type(type_oid),
        )
    };
    match kind {
        _ if element != Oid::INVALID => names_matter(element),
        // SAFETY: as above.
        b'd' => names_matter(unsafe { pg_sys::getBaseType(type_oid) }),
        b'e' => false,
        b'b' => type_oid.to_u32() >= pg_sys::FirstNormalObjectId || names_objects(type_oid),
        _ => true,
    }
}

/// Is it money? Composite types, which may hold some, depend on names anyhow.
fn money_matters(type_oid: Oid) -> bool {
    // SAFETY: catalog lookups.
    let (base, element) = unsafe {
        let base = pg_sys::getBaseType(type_oid);
        (base, pg_sys::get_element_type(base))
    };
    base == pg_sys::MONEYOID || element != Oid::INVALID && money_matters(element)
}

/// While it lives, the settings that text forms depend on have the values that remote sessions have: DateStyle ISO,
/// IntervalStyle postgres, extra_float_digits 1 or more, xmloption content; where money or names matter, lc_monetary C; and where
/// names matter, search_path pg_catalog. They are set at a GUC nest level of their own, as `set_transmission_modes` of postgres_fdw does; an unwinding error leaves
/// the level to the abort of the (sub)transaction.
pub struct Transmission {
    nest_level: i32,
}

impl Transmission {
    pub fn begin() -> Transmission {
        let transmission = Transmission::with_own_level();
        set_values();
        set_money();
        set(c"search_path", c"pg_catalog");
        transmission
    }

    /// As far as something that depends so much needs it.
    pub fn begin_for(dependence: Dependence) -> Option<Transmission> {
        match dependence {
            Dependence::Nothing => None,
            Dependence::Settings if values_are_set() => None,
            Dependence::Settings => {
                let transmission = Transmission::with_own_level();
                set_values();
                Some(transmission)
            }
            Dependence::Money if values_are_set() && money_is_set() => None,
            Dependence::Money => {
                let transmission = Transmission::with_own_level();
                set_values();
                set_money();
                Some(transmission)
            }
            Dependence::Names => Some(Transmission::begin()),
        }
    }

    /// So that NULL in the text of an array is NULL, where the user has switched that off.
    pub fn begin_for_arrays() -> Option<Transmission> {
        // SAFETY: a plain variable of the backend.
        if unsafe { pg_sys::Array_nulls } {
            return None;
        }
        let transmission = Transmission::with_own_level();
        set(c"array_nulls", c"on");
        Some(transmission)
    }

    fn with_own_level() -> Transmission {
        Transmission {
            // SAFETY: the level is left in Drop or by the abort.
            nest_level: unsafe { pg_sys::NewGUCNestLevel() },
        }
    }
}

/// The settings but for search_path, with the value that they must have and whether they have it. Digits from 1 up all
/// mean the shortest exact form.
fn values() -> [(bool, &'static CStr, &'static CStr); 4] {
    // SAFETY: plain variables of the backend.
    unsafe {
        [
            (
                pg_sys::DateStyle == pg_sys::USE_ISO_DATES as i32,
                c"datestyle",
                c"ISO",
            ),
            (
                pg_sys::IntervalStyle == pg_sys::INTSTYLE_POSTGRES as i32,
                c"intervalstyle",
                c"postgres",
            ),
            (pg_sys::extra_float_digits > 0, c"extra_float_digits", c"3"),
            (
                xmloption as u32 == pg_sys::XmlOptionType::XMLOPTION_CONTENT,
                c"xmloption",
                c"content",
            ),
        ]
    }
}

fn values_are_set() -> bool {
    values().iter().all(|(is_set, ..)| *is_set)
}

fn set_values() {
    for (is_set, name, value) in values() {
        if !is_set {
            set(name, value);
        }
    }
}

/// In this locale money has two digits after a point.
const PLAIN_LOCALE: &CStr = c"C";

fn money_is_set() -> bool {
    // SAFETY: a variable of the backend, null or NUL-terminated.
    unsafe { !locale_monetary.is_null() && CStr::from_ptr(locale_monetary) == PLAIN_LOCALE }
}

fn set_money() {
    if !money_is_set() {
        set(c"lc_monetary", PLAIN_LOCALE);
    }
}

impl Drop for Transmission {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: the level was opened by `begin` and everything opened inside it is closed.
            unsafe { pg_sys::AtEOXact_GUC(true, self.nest_level) }
        }
    }
}

fn set(name: &CStr, value: &CStr) {
    // SAFETY: both strings are NUL-terminated and copied by core; GUC_ACTION_SAVE restores the value with the level.
    unsafe {
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_USERSET,
            pg_sys::GucSource::PGC_S_SESSION,
            pg_sys::GucAction::GUC_ACTION_SAVE,
            true,
            0,
            false,
        );
    }
}

/// The text form of a value under the settings of the moment, by the output function of its type.
///
/// # Safety
/// `value` is a valid, non-null value of type `type_oid`.
pub unsafe fn output(type_oid: Oid, value: Datum) -> Vec<u8> {
    let mut function = Oid::INVALID;
    let mut is_varlena = false;
    // SAFETY: by the contract; the text is palloc'd and freed after it is copied.
    unsafe {
        pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(function, value);
        let copy = bytes(text);
        pg_sys::pfree(text.cast());
        copy
    }
}

/// An output function, looked up once. What it remembers between calls lives as long.
#[derive(Debug)]
pub struct OutputFunction {
    info: *mut pg_sys::FmgrInfo,
    /// None: freed.
    context: Option<MemoryContext>,
}

impl OutputFunction {
    /// That of a type.
    pub fn of(type_oid: Oid) -> OutputFunction {
        let mut function = Oid::INVALID;
        let mut is_varlena = false;
        let info = Box::into_raw(Box::<pg_sys::FmgrInfo>::default());
        // SAFETY: catalog lookups; the context is deleted with the value.
        unsafe {
            let parent = pg_sys::TopMemoryContext;
            let context = MemoryContext::small_child_of(parent, c"shard_fdw output function");
            let memory = context.as_ptr();
            let output = OutputFunction {
                info,
                context: Some(context),
            };
            pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
            pg_sys::fmgr_info_cxt(function, info, memory);
            output
        }
    }

    /// Appends the text form. Leaves garbage in the current memory context.
    ///
    /// # Safety
    /// `value` is not null and of the function's type.
    pub unsafe fn append(&self, value: Datum, out: &mut Vec<u8>) {
        // SAFETY: by the contract; the text is NUL-terminated.
        unsafe {
            let text = pg_sys::OutputFunctionCall(self.info, value);
            out.extend_from_slice(CStr::from_ptr(text).to_bytes());
        }
    }
}

impl Drop for OutputFunction {
    fn drop(&mut self) {
        if let Some(context) = self.context.take() {
            context.delete();
        }
        // SAFETY: it is owned, and nobody uses it any more.
        drop(unsafe { Box::from_raw(self.info) });
    }
}
