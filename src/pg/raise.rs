//! The one way out to PostgreSQL's error machinery, with every field of the report kept.
//!
//! pgrx's own report type has no room for CONTEXT, the object fields, or an SQLSTATE it does not know, so errors are raised
//! by hand: an [`FdwError`] with its fields, and an error of the backend, which has come here as a panic of pgrx, by the copy
//! that the callback's [`ErrorCopies`] has of it.

use crate::model::error::{Diag, FdwError, Result, SqlState};
use crate::pg::error_data::{copied, free, lasting, string, ErrorCopies};
use pgrx::pg_sys;
use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::pg_sys::{ErrorData, PgTryBuilder};
use std::any::Any;
use std::ffi::{c_char, c_int, CStr};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr;

extern "C-unwind" {
    // Not pgrx's binding, which would catch what is to be thrown.
    fn ThrowErrorData(error: *mut ErrorData);
}

/// What PostgreSQL reports, with strings in `context`.
fn error_data(elevel: u32, diag: &Diag, context: pg_sys::MemoryContext) -> ErrorData {
    let optional = |text: &Option<Vec<u8>>| {
        text.as_ref()
            .map_or(ptr::null_mut(), |text| string(text, context))
    };
    ErrorData {
        elevel: elevel as c_int,
        // 0 becomes the usual one of the level.
        sqlerrcode: diag.sqlstate.map_or(0, SqlState::packed),
        message: string(&diag.message, context),
        detail: optional(&diag.detail),
        hint: optional(&diag.hint),
        context: optional(&diag.context),
        schema_name: optional(&diag.schema),
        table_name: optional(&diag.table),
        column_name: optional(&diag.column),
        datatype_name: optional(&diag.datatype),
        constraint_name: optional(&diag.constraint),
        filename: c"shard_fdw".as_ptr(),
        funcname: c"report".as_ptr(),
        ..ErrorData::default()
    }
}

/// Runs the body of a callback that PostgreSQL calls, and raises its error.
///
/// # Safety
/// To be called as the outermost expression of an `extern "C-unwind"` function whose frame holds nothing with a
/// destructor: an error leaves by longjmp.
pub unsafe fn guarded<R: Copy>(body: impl FnOnce() -> Result<R>) -> R {
    // SAFETY: the closure's frames are gone when `run` returns; only plain data is left here.
    unsafe {
        let copies = ErrorCopies::new();
        copies.begin();
        let outcome = run(body, &copies);
        copies.end();
        match outcome {
            Outcome::Value(value) => value,
            Outcome::Error(mut error) => {
                ThrowErrorData(&raw mut error);
                unreachable!("an error report returned")
            }
        }
    }
}

/// What a callback's body has come to: plain data.
enum Outcome<R> {
    Value(R),
    Error(ErrorData),
}

/// Runs `body`. Its error has its strings in ErrorContext, which is emptied when somebody has caught it.
#[inline(never)]
fn run<R>(body: impl FnOnce() -> Result<R>, copies: &ErrorCopies) -> Outcome<R> {
    let outcome = catch_unwind(AssertUnwindSafe(body));
    // SAFETY: the context is there as long as the backend.
    let context = unsafe { pg_sys::ErrorContext };
    let outcome = match outcome {
        Ok(Ok(value)) => Outcome::Value(value),
        Ok(Err(error)) => Outcome::Error(error_data(pg_sys::PGERROR, &error.diag(), context)),
        Err(payload) => Outcome::Error(caught(payload, copies, context)),
    };
    copies.clear();
    outcome
}

/// The error that has come as a panic: from the backend, by pgrx, or by a fault of our own.
#[cold]
fn caught(
    payload: Box<dyn Any + Send>,
    copies: &ErrorCopies,
    context: pg_sys::MemoryContext,
) -> ErrorData {
    // There is no other way to the place of a panic.
    let caught = PgTryBuilder::new(AssertUnwindSafe(|| resume_unwind(payload)))
        .catch_others(|caught| caught)
        .execute();
    match caught {
        CaughtError::PostgresError(report) => match copies.take(&report) {
            Some(copy) => {
                // SAFETY: a valid copy.
                let data = unsafe { copied(&*copy, context) };
                free(copy);
                data
            }
            None => reported(&report, context),
        },
        CaughtError::ErrorReport(report) => reported(&report, context),
        CaughtError::RustPanic { ereport, .. } => {
            let diag = Diag {
                sqlstate: Some(SqlState::INTERNAL_ERROR),
                message: b"unexpected failure in shard_fdw".to_vec(),
                hint: Some(b"The server log has the details.".to_vec()),
                ..Diag::default()
            };
            ErrorData {
                detail_log: string(ereport.message().as_bytes(), context),
                filename: lasting(ereport.file().as_bytes()),
                lineno: ereport.line_number() as c_int,
                ..error_data(pg_sys::PGERROR, &diag, context)
            }
        }
    }
}

/// What pgrx keeps of an error.
fn reported(report: &ErrorReportWithLevel, context: pg_sys::MemoryContext) -> ErrorData {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    let diag = Diag {
        message: report.message().as_bytes().to_vec(),
        detail: bytes(report.detail()),
        hint: bytes(report.hint()),
        ..Diag::default()
    };
    ErrorData {
        sqlerrcode: report.sql_error_code() as c_int,
        filename: lasting(report.file().as_bytes()),
        lineno: report.line_number() as c_int,
        ..error_data(pg_sys::PGERROR, &diag, context)
    }
}

/// Reports at a level below ERROR (`pg_sys::WARNING` and so on).
pub fn report(elevel: u32, diag: &Diag) {
    debug_assert!(elevel < pg_sys::PGERROR);
    // SAFETY: the current context outlives the call. The closure holds plain data only; a report below ERROR returns.
    unsafe {
        let mut data = error_data(elevel, diag, pg_sys::CurrentMemoryContext);
        let data = &raw mut data;
        pg_sys::ffi::pg_guard_ffi_boundary(|| ThrowErrorData(data));
    }
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
    let outcome = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            let _ = catch_unwind(AssertUnwindSafe(|| warn(&error)));
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

#[cfg(feature = "pg_test")]
#[pgrx::pg_schema]
mod tests {
    use super::*;
    use pgrx::prelude::*;

    /// What comes out of a callback with this body, as pgrx sees it.
    fn error_of(body: fn() -> Result<()>) -> ErrorReportWithLevel {
        PgTryBuilder::new(|| {
            // SAFETY: nothing but the callback is in the guard.
            unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| guarded(body)) };
            unreachable!("the callback has returned")
        })
        .catch_others(|caught| match caught {
            CaughtError::PostgresError(report) => report,
            other => other.rethrow(),
        })
        .execute()
    }

    /// The entry on top of those who add to the CONTEXT.
    fn top_entry() -> *mut pg_sys::ErrorContextCallback {
        // SAFETY: a plain variable of the backend.
        unsafe { pg_sys::error_context_stack }
    }

    #[pg_test]
    fn a_fault_of_our_own_shows_no_text_of_rust() {
        let before = top_entry();
        let report = error_of(|| panic!("index out of bounds"));
        assert_eq!(report.message(), "unexpected failure in shard_fdw");
        assert_eq!(report.detail(), None);
        assert_eq!(report.file(), "raise.rs");
        assert_eq!(top_entry(), before);
    }

    #[pg_test]
    fn errors_of_callbacks_inside_of_callbacks_come_out_once() {
        let before = top_entry();
        let report = error_of(|| {
            // SAFETY: as for `error_of`.
            unsafe {
                pg_sys::ffi::pg_guard_ffi_boundary(|| {
                    guarded(|| {
                        Err::<(), _>(
                            FdwError::internal("inner").with_context("a line of the inner one"),
                        )
                    })
                });
            }
            Ok(())
        });
        assert_eq!(report.message(), "inner");
        assert_eq!(top_entry(), before);
    }

    #[pg_test]
    fn a_callback_that_succeeds_leaves_no_entry() {
        let before = top_entry();
        // SAFETY: as for `error_of`.
        let value = unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| guarded(|| Ok(7))) };
        assert_eq!((value, top_entry()), (7, before));
    }
}
