//! Text forms of values that do not depend on the settings of the session.

use crate::pg::raise::bytes;
use pgrx::pg_sys;
use pgrx::pg_sys::{Datum, Oid};
use std::ffi::{c_int, CStr};

extern "C" {
    /// The setting; not in pgrx's bindings. A `XmlOptionType`.
    static mut xmloption: c_int;
}

/// While it lives, the settings that text forms depend on have the values that remote sessions have: DateStyle ISO,
/// IntervalStyle postgres, extra_float_digits 3, search_path pg_catalog, xmloption content. They are set at a GUC
/// nest level of their own, as `set_transmission_modes` of postgres_fdw does; an unwinding error leaves the level to
/// the abort of the (sub)transaction.
pub struct Transmission {
    nest_level: i32,
}

impl Transmission {
    pub fn begin() -> Transmission {
        // SAFETY: the level is left in Drop or by the abort.
        let nest_level = unsafe { pg_sys::NewGUCNestLevel() };
        let transmission = Transmission { nest_level };
        // SAFETY: plain variables of the backend.
        unsafe {
            if pg_sys::DateStyle != pg_sys::USE_ISO_DATES as i32 {
                set(c"datestyle", c"ISO");
            }
            if pg_sys::IntervalStyle != pg_sys::INTSTYLE_POSTGRES as i32 {
                set(c"intervalstyle", c"postgres");
            }
            if pg_sys::extra_float_digits < 3 {
                set(c"extra_float_digits", c"3");
            }
            if xmloption as u32 != pg_sys::XmlOptionType::XMLOPTION_CONTENT {
                set(c"xmloption", c"content");
            }
        }
        // For reg* types.
        set(c"search_path", c"pg_catalog");
        transmission
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
