//! The part of libpq that is used: the only file that names `libpq_sys`.
//!
//! Functions that return a C enum are declared here as returning `c_int`: a libpq newer than the headers may return
//! a value that the generated Rust enum does not have, which would be undefined behaviour at once. The same goes for
//! what the headers of libpq 15 lack.

use std::ffi::{c_int, c_short, c_ulong};

pub use libpq_sys::{
    PGconn, PGresult, PQbackendPID, PQclear, PQcmdStatus, PQconndefaults, PQconnectStartParams,
    PQconnectionUsedPassword, PQconninfo, PQconninfoFree, PQconsumeInput, PQenterPipelineMode,
    PQerrorMessage, PQexitPipelineMode, PQfinish, PQflush, PQftype, PQgetResult, PQgetisnull,
    PQgetlength, PQgetvalue, PQisBusy, PQnfields, PQntuples, PQparameterStatus, PQpipelineSync,
    PQputCopyData, PQputCopyEnd, PQresultErrorField, PQresultErrorMessage, PQsendFlushRequest,
    PQsendQuery, PQsendQueryParams, PQserverVersion, PQsetNoticeReceiver, PQsetnonblocking,
    PQsocket,
};

extern "C" {
    pub fn PQresultStatus(result: *const PGresult) -> c_int;
    pub fn PQstatus(connection: *const PGconn) -> c_int;
    pub fn PQconnectPoll(connection: *mut PGconn) -> c_int;
}

/// `struct pollfd` of `poll.h`.
#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: c_short,
    pub revents: c_short,
}

pub const POLLIN: c_short = 1;

extern "C" {
    /// Of the C library: libpq has its own only from 17 on.
    pub fn poll(entries: *mut PollFd, count: c_ulong, timeout: c_int) -> c_int;
}

#[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
extern "C" {
    /// Since libpq 16.
    pub fn PQconnectionUsedGSSAPI(connection: *const PGconn) -> c_int;
}

#[cfg(not(any(feature = "pg17", feature = "pg18")))]
pub use libpq_sys::{PQcancel, PQfreeCancel, PQgetCancel};

#[cfg(any(feature = "pg17", feature = "pg18"))]
pub use cancel::*;

/// The cancel functions of libpq 17 that do not block.
#[cfg(any(feature = "pg17", feature = "pg18"))]
mod cancel {
    use super::PGconn;
    use std::ffi::{c_char, c_int};

    /// Opaque.
    #[repr(C)]
    pub struct PGcancelConn {
        _private: [u8; 0],
    }

    extern "C" {
        pub fn PQcancelCreate(connection: *mut PGconn) -> *mut PGcancelConn;
        pub fn PQcancelStart(cancel: *mut PGcancelConn) -> c_int;
        pub fn PQcancelPoll(cancel: *mut PGcancelConn) -> c_int;
        pub fn PQcancelSocket(cancel: *const PGcancelConn) -> c_int;
        pub fn PQcancelErrorMessage(cancel: *const PGcancelConn) -> *const c_char;
        pub fn PQcancelFinish(cancel: *mut PGcancelConn);
    }
}

// Values of `ConnStatusType`.
pub const CONNECTION_OK: c_int = 0;
pub const CONNECTION_BAD: c_int = 1;

// Values of `PostgresPollingStatusType`.
pub const PGRES_POLLING_READING: c_int = 1;
pub const PGRES_POLLING_WRITING: c_int = 2;
pub const PGRES_POLLING_OK: c_int = 3;

// Values of `ExecStatusType`.
pub const PGRES_EMPTY_QUERY: c_int = 0;
pub const PGRES_COMMAND_OK: c_int = 1;
pub const PGRES_TUPLES_OK: c_int = 2;
pub const PGRES_COPY_OUT: c_int = 3;
pub const PGRES_COPY_IN: c_int = 4;
pub const PGRES_BAD_RESPONSE: c_int = 5;
pub const PGRES_NONFATAL_ERROR: c_int = 6;
pub const PGRES_FATAL_ERROR: c_int = 7;
pub const PGRES_PIPELINE_SYNC: c_int = 10;
pub const PGRES_PIPELINE_ABORTED: c_int = 11;

/// Letters of the fields of an error report (`PG_DIAG_*` of `postgres_ext.h`).
pub mod field {
    pub const SEVERITY: u8 = b'S';
    pub const SEVERITY_NONLOCALIZED: u8 = b'V';
    pub const SOURCE_FUNCTION: u8 = b'R';
    pub const SQLSTATE: u8 = b'C';
    pub const MESSAGE_PRIMARY: u8 = b'M';
    pub const MESSAGE_DETAIL: u8 = b'D';
    pub const MESSAGE_HINT: u8 = b'H';
    pub const CONTEXT: u8 = b'W';
    pub const SCHEMA_NAME: u8 = b's';
    pub const TABLE_NAME: u8 = b't';
    pub const COLUMN_NAME: u8 = b'c';
    pub const DATATYPE_NAME: u8 = b'd';
    pub const CONSTRAINT_NAME: u8 = b'n';
}

#[cfg(test)]
mod tests {
    use super::*;
    use libpq_sys::PostgresPollingStatusType as Polling;
    use libpq_sys::{ConnStatusType, ExecStatusType};

    #[test]
    fn values_are_those_of_the_headers() {
        assert_eq!(CONNECTION_OK, ConnStatusType::CONNECTION_OK as c_int);
        assert_eq!(CONNECTION_BAD, ConnStatusType::CONNECTION_BAD as c_int);
        assert_eq!(
            PGRES_POLLING_READING,
            Polling::PGRES_POLLING_READING as c_int
        );
        assert_eq!(
            PGRES_POLLING_WRITING,
            Polling::PGRES_POLLING_WRITING as c_int
        );
        assert_eq!(PGRES_POLLING_OK, Polling::PGRES_POLLING_OK as c_int);
        assert_eq!(
            PGRES_EMPTY_QUERY,
            ExecStatusType::PGRES_EMPTY_QUERY as c_int
        );
        assert_eq!(PGRES_COMMAND_OK, ExecStatusType::PGRES_COMMAND_OK as c_int);
        assert_eq!(PGRES_TUPLES_OK, ExecStatusType::PGRES_TUPLES_OK as c_int);
        assert_eq!(PGRES_COPY_OUT, ExecStatusType::PGRES_COPY_OUT as c_int);
        assert_eq!(PGRES_COPY_IN, ExecStatusType::PGRES_COPY_IN as c_int);
        assert_eq!(
            PGRES_BAD_RESPONSE,
            ExecStatusType::PGRES_BAD_RESPONSE as c_int
        );
        assert_eq!(
            PGRES_NONFATAL_ERROR,
            ExecStatusType::PGRES_NONFATAL_ERROR as c_int
        );
        assert_eq!(
            PGRES_FATAL_ERROR,
            ExecStatusType::PGRES_FATAL_ERROR as c_int
        );
        assert_eq!(
            PGRES_PIPELINE_SYNC,
            ExecStatusType::PGRES_PIPELINE_SYNC as c_int
        );
        assert_eq!(
            PGRES_PIPELINE_ABORTED,
            ExecStatusType::PGRES_PIPELINE_ABORTED as c_int
        );
    }
}
