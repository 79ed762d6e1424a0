//! How the text of a column's values becomes values.
//!
//! Text comes from a session whose settings are those of [`Transmission`]. Most types read it in the same way whatever the
//! settings here are, and so they do it under the user's: reading may run code of the user. It does so where a domain has
//! a check, and where a type of a range has been made by a user. Such code never sees another search_path than the user's.
//! Of a column whose type is a domain, only the base type is read under other settings.
//!
//! [`Transmission`]: crate::pg::typio::Transmission

use crate::pg::typio::{names_objects, Dependence};
use crate::pg::value::binary_type_name;
use crate::pg::version;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::{c_char, c_void, CStr};
use std::ptr;

extern "C-unwind" {
    // Called many times inside one guard, instead of through the guard that pgrx puts around each call.
    fn InputFunctionCall(
        flinfo: *mut pg_sys::FmgrInfo,
        text: *mut c_char,
        typioparam: Oid,
        typmod: i32,
    ) -> Datum;
    fn domain_check(
        value: Datum,
        isnull: bool,
        domain: Oid,
        extra: *mut *mut c_void,
        context: pg_sys::MemoryContext,
    );
}

/// Reads the values of one column.
pub(super) struct Input {
    function: pg_sys::FmgrInfo,
    io_param: Oid,
    typmod: i32,
    /// What its text depends on.
    dependence: Dependence,
    /// The domain to be checked afterwards, and what core remembers of it.
    domain: Option<(Oid, *mut c_void)>,
    /// For what is remembered between calls.
    context: pg_sys::MemoryContext,
}

impl Input {
    /// # Safety
    /// `context` is valid as long as the value is used.
    pub unsafe fn of(type_oid: Oid, typmod: i32, context: pg_sys::MemoryContext) -> Input {
        // The most frequent types need no lookups.
        let (mut base, mut base_typmod) = (type_oid, typmod);
        let mut dependence = Dependence::Nothing;
        if binary_type_name(type_oid).is_none() {
            // SAFETY: catalog lookups.
            base = unsafe { pg_sys::getBaseTypeAndTypmod(type_oid, &mut base_typmod) };
            dependence = Reading::of(base).dependence();
        }
        // A domain's own input function reads and checks at once.
        let (read, typmod, domain) = match dependence {
            Dependence::Nothing => (type_oid, typmod, None),
            _ if base == type_oid => (type_oid, typmod, None),
            _ => (base, base_typmod, Some((type_oid, ptr::null_mut()))),
        };
        // SAFETY: catalog lookups; the context is valid by the contract.
        unsafe {
            let mut function = Oid::INVALID;
            let mut io_param = Oid::INVALID;
            pg_sys::getTypeInputInfo(read, &mut function, &mut io_param);
            let mut input = Input {
                function: pg_sys::FmgrInfo::default(),
                io_param,
                typmod,
                dependence,
                domain,
                context,
            };
            pg_sys::fmgr_info_cxt(function, &mut input.function, context);
            input
        }
    }

    /// What must be pinned while [`Input::read`] runs.
    pub fn dependence(&self) -> Dependence {
        self.dependence
    }

    /// The value of a text, in the current memory context. None is NULL, which is read as well: a domain may refuse it.
    ///
    /// # Safety
    /// Must run inside a guard.
    #[inline]
    pub unsafe fn read(&mut self, text: Option<&CStr>) -> Datum {
        let text = text.map_or(ptr::null_mut(), |text| text.as_ptr().cast_mut());
        // SAFETY: the function was looked up for the type; it does not change the text.
        unsafe { InputFunctionCall(&mut self.function, text, self.io_param, self.typmod) }
    }

    /// What is left to be done with a value that has been read, under the settings of the user.
    ///
    /// # Safety
    /// Must run inside a guard, with what [`Input::read`] has given for a text, or for NULL.
    pub unsafe fn check(&mut self, value: Datum, is_null: bool) {
        if let Some((domain, extra)) = &mut self.domain {
            // SAFETY: by the contract; core keeps what it remembers in the context.
            unsafe { domain_check(value, is_null, *domain, extra, self.context) }
        }
    }
}

/// What happens when a value of a type is read.
#[derive(Clone, Copy)]
struct Reading {
    dependence: Dependence,
    has_money: bool,
    runs_user_code: bool,
}

impl Reading {
    /// That of a type.
    fn of(type_oid: Oid) -> Reading {
        let is_users = type_oid.to_u32() >= pg_sys::FirstNormalObjectId;
        // SAFETY: catalog lookups.
        unsafe {
            let element = pg_sys::get_element_type(type_oid);
            if element != Oid::INVALID {
                return Reading::of(element);
            }
            match pg_sys::get_typtype(type_oid) as u8 {
                pg_sys::TYPTYPE_ENUM => Reading::plain(Dependence::Nothing),
                pg_sys::TYPTYPE_DOMAIN => Reading {
                    runs_user_code: true,
                    ..Reading::of(pg_sys::getBaseType(type_oid))
                },
                pg_sys::TYPTYPE_COMPOSITE => Reading::of_columns(type_oid),
                pg_sys::TYPTYPE_RANGE => {
                    let bounds = Reading::of(pg_sys::get_range_subtype(type_oid));
                    Reading {
                        runs_user_code: bounds.runs_user_code || is_users,
                        ..bounds
                    }
                }
                pg_sys::TYPTYPE_MULTIRANGE => Reading::of(pg_sys::get_multirange_range(type_oid)),
                // Of types that extensions have made nobody knows.
                _ if is_users || names_objects(type_oid) => Reading::plain(Dependence::Names),
                _ if type_oid == pg_sys::XMLOID => Reading::plain(Dependence::Settings),
                _ if type_oid == pg_sys::MONEYOID => Reading::plain(Dependence::Money),
                // ISO dates, and intervals with all their signs, are read alike under every DateStyle and IntervalStyle.
                pg_sys::TYPTYPE_BASE => Reading::plain(Dependence::Nothing),
                _ => Reading::plain(Dependence::Names),
            }
        }
    }

    fn plain(dependence: Dependence) -> Reading {
        Reading {
            dependence,
            has_money: dependence == Dependence::Money,
            runs_user_code: false,
        }
    }

    /// That of a composite type.
    fn of_columns(type_oid: Oid) -> Reading {
        // SAFETY: the copy is complete, and freed after it has been read.
        unsafe {
            let columns = pg_sys::lookup_rowtype_tupdesc_copy(type_oid, -1);
            let types: Vec<Oid> = (0..(*columns).natts as usize)
                .map(|index| version::tupdesc_attribute(columns, index))
                .filter(|attribute| !attribute.attisdropped)
                .map(|attribute| attribute.atttypid)
                .collect();
            pg_sys::FreeTupleDesc(columns);
            let nothing = Reading::plain(Dependence::Nothing);
            types
                .into_iter()
                .map(Reading::of)
                .fold(nothing, Reading::and)
        }
    }

    fn and(self, other: Reading) -> Reading {
        Reading {
            dependence: self.dependence.max(other.dependence),
            has_money: self.has_money || other.has_money,
            runs_user_code: self.runs_user_code || other.runs_user_code,
        }
    }

    /// What is pinned while a value is read: never search_path where code of the user runs.
    fn dependence(self) -> Dependence {
        match (self.runs_user_code, self.has_money) {
            (true, true) => self.dependence.min(Dependence::Money),
            (true, false) => self.dependence.min(Dependence::Settings),
            (false, _) => self.dependence,
        }
    }
}
