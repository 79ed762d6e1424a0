//! The one way out to PostgreSQL's error machinery, with every field of the report kept.
//!
//! pgrx's own report type has no room for CONTEXT, the object fields, or an SQLSTATE it does not know, so an
//! [`FdwError`] is raised by hand. PostgreSQL errors caught on the way (as panics of pgrx) are relayed by pgrx.

use crate::model::error::{Diag, FdwError, Result, SqlState};
use pgrx::pg_sys;
use std::ffi::{c_char, c_int, CStr};
use std::panic::AssertUnwindSafe;
use std::ptr;

extern "C-unwind" {
    fn errstart(elevel: c_int, domain: *const c_char) -> bool;
    fn errcode(sqlerrcode: c_int) -> c_int;
    fn errmsg_internal(format: *const c_char, ...) -> c_int;
    fn errdetail_internal(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
    fn errcontext_msg(format: *const c_char, ...) -> c_int;
    fn err_generic_string(field: c_int, text: *const c_char) -> c_int;
    fn errfinish(file: *const c_char, line: c_int, function: *const c_char);
}

const PERCENT_S: *const c_char = c"%s".as_ptr();

/// Field numbers of `err_generic_string`: the `PG_DIAG_*` letters of `postgres_ext.h`.
const FIELDS: [u8; 5] = [b's', b't', b'c', b'd', b'n'];

/// An error report in PostgreSQL's memory: plain data, so that a longjmp may pass over it.
#[derive(Clone, Copy)]
struct RawDiag {
    sqlstate: c_int,
    message: *const c_char,
    detail: *const c_char,
    hint: *const c_char,
    context: *const c_char,
    fields: [*const c_char; 5],
}

impl RawDiag {
    /// Copies `diag` into the current memory context.
    fn new(diag: &Diag, default: SqlState) -> RawDiag {
        RawDiag {
            sqlstate: diag.sqlstate.unwrap_or(default).packed(),
            message: copy(&diag.message),
            detail: copy_option(&diag.detail),
            hint: copy_option(&diag.hint),
            context: copy_option(&diag.context),
            fields: [
                copy_option(&diag.schema),
                copy_option(&diag.table),
                copy_option(&diag.column),
                copy_option(&diag.datatype),
                copy_option(&diag.constraint),
            ],
        }
    }

    /// Reports, and does not return where `elevel` is ERROR or higher.
    ///
    /// # Safety
    /// No frame between here and PostgreSQL may hold a destructor or a `catch_unwind`.
    unsafe fn emit(self, elevel: c_int) {
        // SAFETY: the strings live in a memory context that outlives the report, which copies them.
        unsafe {
            if !errstart(elevel, ptr::null()) {
                return;
            }
            errcode(self.sqlstate);
            errmsg_internal(PERCENT_S, self.message);
            if !self.detail.is_null() {
                errdetail_internal(PERCENT_S, self.detail);
            }
            if !self.hint.is_null() {
                errhint(PERCENT_S, self.hint);
            }
            if !self.context.is_null() {
                errcontext_msg(PERCENT_S, self.context);
            }
            for (field, text) in FIELDS.iter().zip(self.fields) {
                if !text.is_null() {
                    err_generic_string(c_int::from(*field), text);
                }
            }
            errfinish(c"shard_fdw".as_ptr(), 0, c"report".as_ptr());
        }
    }
}

fn copy_option(text: &Option<Vec<u8>>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |text| copy(text))
}

/// Copies text into the current memory context as a C string; a NUL inside ends it.
fn copy(text: &[u8]) -> *const c_char {
    let length = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    // SAFETY: palloc returns length + 1 writable bytes or raises.
    unsafe {
        let target = pg_sys::palloc(length + 1).cast::<u8>();
        ptr::copy_nonoverlapping(text.as_ptr(), target, length);
        target.add(length).write(0);
        target.cast()
    }
}

/// Runs the body of a callback that PostgreSQL calls, and raises its error.
///
/// # Safety
/// To be called as the outermost expression of an `extern "C-unwind"` function whose frame holds nothing with a
/// destructor: an error leaves by longjmp.
pub unsafe fn guarded<R: Copy>(body: impl FnOnce() -> Result<R>) -> R {
    // SAFETY: the closure's frames are gone when pgrx returns or relays; only plain data is left here.
    unsafe {
        let outcome = pgrx::pgrx_extern_c_guard(AssertUnwindSafe(|| {
            body().map_err(|error| RawDiag::new(&error.diag(), SqlState::FDW_ERROR))
        }));
        match outcome {
            Ok(value) => value,
            Err(diag) => {
                diag.emit(pg_sys::PGERROR as c_int);
                unreachable!("an error report returned")
            }
        }
    }
}

/// Reports at a level below ERROR (`pg_sys::WARNING` and so on).
pub fn report(elevel: u32, diag: &Diag) {
    debug_assert!(elevel < pg_sys::PGERROR);
    let raw = RawDiag::new(diag, SqlState::SUCCESSFUL_COMPLETION);
    // SAFETY: the closure holds plain data only; a report below ERROR returns.
    unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| raw.emit(elevel as c_int)) }
}

/// Reports an error as a WARNING: for places where nothing may be thrown.
pub fn warn(error: &FdwError) {
    report(pg_sys::WARNING, &error.diag());
}

/// Runs `body` where nothing may be thrown (abort processing). An error or panic becomes a WARNING where that is
/// still possible, and None is returned. Interrupts stay held as they were: every ERROR of the backend lets go of them.
pub fn contained<R>(body: impl FnOnce() -> Result<R>) -> Option<R> {
    // SAFETY: a plain variable of the backend.
    let held = unsafe { pg_sys::InterruptHoldoffCount };
    let outcome = match std::panic::catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            let _ = std::panic::catch_unwind(AssertUnwindSafe(|| warn(&error)));
            None
        }
        Err(_) => None,
    };
    // SAFETY: as above.
    unsafe { pg_sys::InterruptHoldoffCount = held };
    outcome
}

/// The bytes of a C string that PostgreSQL owns; empty for a null pointer.
///
/// # Safety
/// `text` is null or points to a NUL-terminated string.
pub unsafe fn bytes(text: *const c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: by the contract above.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}
