//! A request to a server to stop what it is doing for a connection.
//!
//! From libpq 17 on the request does not block, and is encrypted as the connection is. Before, libpq has blocking
//! requests only: `start` returns when the request is through, and a host that swallows packets holds it up for as
//! long as the kernel tries to connect.

use crate::model::socket::{Interest, Socket};
use crate::pq::{Connection, Result};

/// Where a request stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    not(any(feature = "pg17", feature = "pg18")),
    expect(dead_code, reason = "a blocking request is through when it returns")
)]
pub enum CancelProgress {
    /// Wait for this on the socket, then poll.
    Wait(Interest),
    /// The server has taken the request. Whether it stops anything shows in the answers of the connection.
    Done,
    /// libpq's text for what went wrong.
    Failed(Vec<u8>),
}

/// A request under way.
pub struct CancelRequest {
    inner: imp::Request,
}

impl CancelRequest {
    /// Begins a request; [`CancelRequest::progress`] says what to wait for.
    pub fn start(connection: &Connection) -> Result<CancelRequest> {
        imp::Request::start(connection).map(|inner| CancelRequest { inner })
    }

    /// The request's own socket; None once there is nothing to wait for. It may change between polls.
    pub fn socket(&self) -> Option<Socket> {
        self.inner.socket()
    }

    /// Where the request stands, as of the last poll.
    pub fn progress(&self) -> CancelProgress {
        self.inner.progress()
    }

    /// Takes the request one step further, after its socket became ready.
    pub fn poll(&mut self) -> CancelProgress {
        self.inner.poll()
    }
}

#[cfg(not(any(feature = "pg17", feature = "pg18")))]
mod imp {
    use super::*;
    use crate::pq::result::{bytes, trimmed};
    use crate::pq::{sys, PqError};
    use std::ffi::{c_char, c_int};

    /// Size that the documentation of PQcancel recommends for its error text.
    const ERROR_SIZE: usize = 256;

    /// A request that is through.
    pub struct Request;

    impl Request {
        pub fn start(connection: &Connection) -> Result<Request> {
            // SAFETY: the connection is valid.
            let cancel = unsafe { sys::PQgetCancel(connection.raw()) };
            if cancel.is_null() {
                return Err(PqError::new("no connection to cancel"));
            }
            let mut error: [c_char; ERROR_SIZE] = [0; ERROR_SIZE];
            // SAFETY: the buffer has the size given.
            let sent = unsafe { sys::PQcancel(cancel, error.as_mut_ptr(), ERROR_SIZE as c_int) };
            // SAFETY: owned and not used afterwards.
            unsafe { sys::PQfreeCancel(cancel) };
            if sent == 1 {
                return Ok(Request);
            }
            // SAFETY: libpq ends the text with a NUL, and the buffer was full of them.
            let text = unsafe { bytes(error.as_ptr()) }.unwrap_or_default();
            Err(PqError::new(trimmed(text)))
        }

        pub fn socket(&self) -> Option<Socket> {
            None
        }

        pub fn progress(&self) -> CancelProgress {
            CancelProgress::Done
        }

        pub fn poll(&mut self) -> CancelProgress {
            CancelProgress::Done
        }
    }
}

#[cfg(any(feature = "pg17", feature = "pg18"))]
mod imp {
    use super::*;
    use crate::pq::result::{bytes, trimmed};
    use crate::pq::{sys, PqError};
    use std::ptr::NonNull;

    /// A `PGcancelConn`, closed when dropped.
    pub struct Request {
        raw: NonNull<sys::PGcancelConn>,
        progress: CancelProgress,
    }

    impl Request {
        pub fn start(connection: &Connection) -> Result<Request> {
            // SAFETY: the connection is valid; what is needed of it is copied.
            let raw = unsafe { sys::PQcancelCreate(connection.raw()) };
            let raw = NonNull::new(raw).ok_or_else(|| PqError::new("out of memory"))?;
            // As with PQconnectPoll, the first wait is for writing.
            let request = Request {
                raw,
                progress: CancelProgress::Wait(Interest::WRITE),
            };
            // SAFETY: just made, and not started yet.
            if unsafe { sys::PQcancelStart(raw.as_ptr()) } == 0 {
                return Err(PqError::new(request.error_message()));
            }
            Ok(request)
        }

        pub fn socket(&self) -> Option<Socket> {
            if !matches!(self.progress, CancelProgress::Wait(_)) {
                return None;
            }
            // SAFETY: the request is valid.
            let socket = unsafe { sys::PQcancelSocket(self.raw.as_ptr()) };
            (socket >= 0).then_some(socket)
        }

        pub fn progress(&self) -> CancelProgress {
            self.progress.clone()
        }

        pub fn poll(&mut self) -> CancelProgress {
            if matches!(self.progress, CancelProgress::Wait(_)) {
                // SAFETY: the request is started and not at its end.
                self.progress = match unsafe { sys::PQcancelPoll(self.raw.as_ptr()) } {
                    sys::PGRES_POLLING_READING => CancelProgress::Wait(Interest::READ),
                    sys::PGRES_POLLING_WRITING => CancelProgress::Wait(Interest::WRITE),
                    sys::PGRES_POLLING_OK => CancelProgress::Done,
                    _ => CancelProgress::Failed(self.error_message()),
                };
            }
            self.progress.clone()
        }

        fn error_message(&self) -> Vec<u8> {
            // SAFETY: the request is valid.
            let message = unsafe { sys::PQcancelErrorMessage(self.raw.as_ptr()) };
            // SAFETY: null or NUL-terminated, and copied at once.
            trimmed(unsafe { bytes(message) }.unwrap_or_default())
        }
    }

    impl Drop for Request {
        fn drop(&mut self) {
            // SAFETY: owned and not used afterwards. Closing does not block.
            unsafe { sys::PQcancelFinish(self.raw.as_ptr()) }
        }
    }
}
