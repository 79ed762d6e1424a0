//! libpq in safe clothes, non-blocking from connect to close. Only this room knows `libpq_sys`.
//!
//! libpq's functions are plain C: they neither raise PostgreSQL errors nor call back into the backend, so they need
//! no guard of pgrx. Waiting is left to the caller, who has the latch.

pub mod cancel;
pub mod connection;
pub mod conninfo;
pub mod notice;
pub mod params;
pub mod result;
mod sys;

pub use cancel::{CancelProgress, CancelRequest};
pub use connection::{Answer, ConnectProgress, Connection, Flush};
pub use notice::{Notice, Severity};
pub use params::{Param, MAX_PARAMS};
pub use result::{PgResult, ResultStatus};

/// A libpq call failed; the text is libpq's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PqError {
    /// Without the line end that libpq adds.
    pub message: Vec<u8>,
}

impl PqError {
    pub fn new(message: impl Into<Vec<u8>>) -> PqError {
        PqError {
            message: message.into(),
        }
    }

    /// The last failure of a connection.
    pub fn of(connection: &Connection) -> PqError {
        PqError::new(connection.error_message())
    }
}

/// What fallible libpq calls return.
pub type Result<T> = std::result::Result<T, PqError>;
