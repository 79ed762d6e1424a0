//! Accounting for file descriptors that libpq holds and PostgreSQL's fd.c does not know.

use crate::model::error::{FdwError, Result, SqlState};
use pgrx::pg_sys;

/// One descriptor reserved with fd.c, given back when dropped: on success, on unwind and at an abort alike. To be
/// dropped after what uses the descriptor.
#[derive(Debug)]
pub struct ExternalFd {
    _private: (),
}

impl ExternalFd {
    /// Reserves a descriptor, for which fd.c closes files of its own if need be.
    pub fn acquire(server: &str) -> Result<ExternalFd> {
        // SAFETY: no preconditions.
        if unsafe { pg_sys::AcquireExternalFD() } {
            return Ok(ExternalFd { _private: () });
        }
        Err(FdwError::Connect {
            server: server.to_owned(),
            sqlstate: SqlState::CONNECTION_UNABLE,
            detail: b"There are too many open files on the local server.".to_vec(),
            hint: Some(
                "Raise the local server's max_files_per_process, or its limit of open files (ulimit -n)."
                    .to_owned(),
            ),
        })
    }
}

impl Drop for ExternalFd {
    fn drop(&mut self) {
        // SAFETY: pairs with the reservation in `acquire`. The function only counts down.
        unsafe { pg_sys::ReleaseExternalFD() }
    }
}
