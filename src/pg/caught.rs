//! Errors of the backend's own functions as values, where something has to be added to them.

use crate::model::error::{FdwError, Result, SqlState};
use pgrx::pg_sys::panic::CaughtError;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// Runs `body` and turns an ERROR raised in it into an [`FdwError`] with the SQLSTATE, message, detail and hint that
/// pgrx keeps. Other panics go on. The caller must raise the error: the transaction cannot go on after it.
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Ok(value),
        Err(payload) => match payload.downcast::<CaughtError>() {
            Ok(error) => match *error {
                CaughtError::PostgresError(report) => Err(FdwError::Local {
                    sqlstate: SqlState::unpacked(report.sql_error_code() as i32),
                    message: report.message().to_owned(),
                    detail: report.detail().map(str::to_owned),
                    hint: report.hint().map(str::to_owned),
                }),
                other => resume_unwind(Box::new(other)),
            },
            Err(payload) => resume_unwind(payload),
        },
    }
}
