//! One connection to a server.

use crate::model::error::Diag;
use crate::model::socket::{Interest, Socket};
use crate::pq::notice::{self, Notice, NoticeQueue};
use crate::pq::params::{Param, ParamArrays};
use crate::pq::result::{bytes, trimmed, PgResult};
use crate::pq::{sys, PqError, Result};
use std::ffi::{c_int, CStr, CString};
use std::ptr::{self, NonNull};

/// Where an attempt to connect stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectProgress {
    /// Wait for this on the socket (which may be another one than before), then poll again.
    Wait(Interest),
    Done,
    /// [`Connection::error_message`] says why.
    Failed,
}

/// What [`Connection::flush`] could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    Done,
    /// Bytes are left. Wait for the socket to become readable or writable; when readable, consume input first: the
    /// server may be unable to read because nobody takes its answers.
    Pending,
}

/// The next answer of the server.
pub enum Answer {
    /// Not there yet: wait until the socket is readable, consume input, ask again.
    Pending,
    /// Nothing more for the statement. Follows the last result of each statement, but not a pipeline sync.
    End,
    Result(PgResult),
}

/// A `PGconn`, closed when dropped (on success, on unwind, and by whoever owns the session at an abort). Closing does
/// not block: libpq only tries to send its farewell.
pub struct Connection {
    raw: NonNull<sys::PGconn>,
    /// Also known to libpq, which writes to it only while one of its functions runs.
    notices: NonNull<NoticeQueue>,
}

impl Connection {
    /// Begins to connect with these keywords and values. libpq may block while it resolves a host name and reads
    /// service and password files; it never blocks on the network.
    pub fn start(params: &[(CString, CString)]) -> Result<Connection> {
        let mut keywords: Vec<_> = params.iter().map(|(keyword, _)| keyword.as_ptr()).collect();
        let mut values: Vec<_> = params.iter().map(|(_, value)| value.as_ptr()).collect();
        keywords.push(ptr::null());
        values.push(ptr::null());
        // SAFETY: both arrays end in a null pointer, and their strings outlive the call. `dbname` is not expanded.
        let raw = unsafe { sys::PQconnectStartParams(keywords.as_ptr(), values.as_ptr(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| PqError::new("out of memory"))?;
        let notices = NonNull::from(Box::leak(Box::<NoticeQueue>::default()));
        let connection = Connection { raw, notices };
        // SAFETY: the queue is freed after the connection.
        unsafe {
            sys::PQsetNoticeReceiver(raw.as_ptr(), Some(notice::receive), notices.as_ptr().cast())
        };
        if connection.is_bad() {
            return Err(PqError::of(&connection));
        }
        Ok(connection)
    }

    fn as_ptr(&self) -> *mut sys::PGconn {
        self.raw.as_ptr()
    }

    pub(super) fn raw(&self) -> *mut sys::PGconn {
        self.as_ptr()
    }

    /// Takes the attempt to connect one step further. The first wait, before the first call, is for writing.
    pub fn poll_connect(&mut self) -> ConnectProgress {
        // SAFETY: the connection is valid.
        match unsafe { sys::PQconnectPoll(self.as_ptr()) } {
            sys::PGRES_POLLING_READING => ConnectProgress::Wait(Interest::READ),
            sys::PGRES_POLLING_WRITING => ConnectProgress::Wait(Interest::WRITE),
            sys::PGRES_POLLING_OK => ConnectProgress::Done,
            _ => ConnectProgress::Failed,
        }
    }

    /// Value of an option in force for this connection, defaults of environment and service file included; None if
    /// it has none, or is unknown to libpq.
    pub fn option(&self, keyword: &str) -> Option<Vec<u8>> {
        // SAFETY: the connection is valid.
        let options = unsafe { sys::PQconninfo(self.as_ptr()) };
        if options.is_null() {
            return None;
        }
        let mut value = None;
        let mut next = options;
        loop {
            // SAFETY: the array ends with an entry whose keyword is null, and that is not passed.
            let option = unsafe { &*next };
            // SAFETY: null or NUL-terminated, valid until the array is freed.
            let Some(name) = (unsafe { bytes(option.keyword) }) else {
                break;
            };
            if name == keyword.as_bytes() {
                // SAFETY: as above.
                value = unsafe { bytes(option.val) }.map(<[u8]>::to_vec);
                break;
            }
            // SAFETY: this was not the last entry.
            next = unsafe { next.add(1) };
        }
        // SAFETY: the array is owned and not used afterwards.
        unsafe { sys::PQconninfoFree(options) };
        value
    }

    /// The socket. It may change as long as the connection is being made.
    pub fn socket(&self) -> Option<Socket> {
        // SAFETY: the connection is valid.
        let socket = unsafe { sys::PQsocket(self.as_ptr()) };
        (socket >= 0).then_some(socket)
    }

    /// Is the connection known to be unusable? A broken one is noticed when it is read from or written to.
    pub fn is_bad(&self) -> bool {
        // SAFETY: the connection is valid.
        unsafe { sys::PQstatus(self.as_ptr()) == sys::CONNECTION_BAD }
    }

    /// Is the connection made, and not known to be broken?
    pub fn is_ok(&self) -> bool {
        // SAFETY: the connection is valid.
        unsafe { sys::PQstatus(self.as_ptr()) == sys::CONNECTION_OK }
    }

    /// libpq's text for the last failure, empty if there was none.
    pub fn error_message(&self) -> Vec<u8> {
        // SAFETY: the connection is valid.
        let message = unsafe { sys::PQerrorMessage(self.as_ptr()) };
        // SAFETY: NUL-terminated, and copied before libpq runs again.
        trimmed(unsafe { bytes(message) }.unwrap_or_default())
    }

    /// Version of the server as `server_version_num` has it, 0 if it could not tell.
    pub fn server_version(&self) -> i32 {
        // SAFETY: the connection is valid.
        unsafe { sys::PQserverVersion(self.as_ptr()) }
    }

    /// A setting that the server reports, as it was last reported. What has changed is reported before the end of a message.
    pub fn parameter_status(&self, name: &CStr) -> Option<&[u8]> {
        // SAFETY: the connection is valid and the name NUL-terminated.
        let value = unsafe { sys::PQparameterStatus(self.as_ptr(), name.as_ptr()) };
        // SAFETY: null or NUL-terminated; only functions that read replace it, and those need `&mut self`.
        unsafe { bytes(value) }
    }

    /// Process id of the server's backend, 0 if it gave none.
    pub fn backend_pid(&self) -> i32 {
        // SAFETY: the connection is valid.
        unsafe { sys::PQbackendPID(self.as_ptr()) }
    }

    /// Did the server ask for a password, and get one?
    pub fn used_password(&self) -> bool {
        // SAFETY: the connection is valid.
        unsafe { sys::PQconnectionUsedPassword(self.as_ptr()) != 0 }
    }

    /// Was GSSAPI used to authenticate? Known from libpq 16 on.
    pub fn used_gssapi(&self) -> bool {
        #[cfg(any(feature = "pg16", feature = "pg17", feature = "pg18"))]
        // SAFETY: the connection is valid.
        let used = unsafe { sys::PQconnectionUsedGSSAPI(self.as_ptr()) } != 0;
        #[cfg(not(any(feature = "pg16", feature = "pg17", feature = "pg18")))]
        let used = false;
        used
    }

    /// Makes sending non-blocking. To be called once the connection is made.
    pub fn set_nonblocking(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQsetnonblocking(self.as_ptr(), 1) };
        self.check(outcome == 0)
    }

    /// Enters pipeline mode; nothing may be under way.
    pub fn enter_pipeline(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQenterPipelineMode(self.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Leaves pipeline mode; every answer must have been read.
    pub fn exit_pipeline(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQexitPipelineMode(self.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Puts a simple query, which may hold several statements, into the output buffer. Not in pipeline mode.
    pub fn send_query(&mut self, sql: &CStr) -> Result<()> {
        // SAFETY: the connection is valid and the text NUL-terminated.
        let outcome = unsafe { sys::PQsendQuery(self.as_ptr(), sql.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Puts one statement into the output buffer; its values come as text. libpq copies text and parameters once,
    /// and sends what the socket takes without waiting. In pipeline mode the server answers when a sync
    /// follows.
    ///
    /// An error leaves the statement unsent and, unless [`Connection::is_bad`], the connection usable.
    pub fn send_query_params(&mut self, sql: &CStr, params: &[Param]) -> Result<()> {
        let arrays = ParamArrays::new(params)?;
        // At most MAX_PARAMS, so the number fits.
        let count = params.len() as c_int;
        // SAFETY: the arrays have `count` entries; text, values and connection are valid during the call.
        let outcome = unsafe {
            sys::PQsendQueryParams(
                self.as_ptr(),
                sql.as_ptr(),
                count,
                arrays.types.as_ptr(),
                arrays.values.as_ptr(),
                arrays.lengths.as_ptr(),
                arrays.formats.as_ptr(),
                0,
            )
        };
        self.check(outcome == 1)
    }

    /// Adds data to the COPY that is under way, and sends what the socket takes. False: there was no room, nothing was added.
    pub fn put_copy_data(&mut self, data: &[u8]) -> Result<bool> {
        let Ok(length) = c_int::try_from(data.len()) else {
            return Err(PqError::new("a piece of COPY data is too long"));
        };
        // SAFETY: the connection is valid, and the data is copied during the call.
        let outcome = unsafe { sys::PQputCopyData(self.as_ptr(), data.as_ptr().cast(), length) };
        self.check(outcome >= 0).map(|()| outcome == 1)
    }

    /// Has something come that has not been read? The end of the stream counts too.
    pub fn has_input(&self) -> bool {
        let Some(socket) = self.socket() else {
            return false;
        };
        let mut wanted = sys::PollFd {
            fd: socket,
            events: sys::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry; with a timeout of 0 the call returns at once.
        unsafe { sys::poll(&mut wanted, 1, 0) > 0 }
    }

    /// Ends the COPY that is under way; with a message, it fails with that. False: there was no room, try again.
    pub fn put_copy_end(&mut self, failure: Option<&CStr>) -> Result<bool> {
        let failure = failure.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the connection is valid, and the message null or NUL-terminated.
        let outcome = unsafe { sys::PQputCopyEnd(self.as_ptr(), failure) };
        self.check(outcome >= 0).map(|()| outcome == 1)
    }

    /// Ends a message: the server answers everything up to here, and goes on after an error from here.
    pub fn pipeline_sync(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQpipelineSync(self.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Asks the server to send the answers to what came before at once, though the message has not ended.
    pub fn send_flush_request(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQsendFlushRequest(self.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Sends as much of the output buffer as the socket takes.
    ///
    /// Where it does not take all, libpq reads what has come meanwhile. So look for answers before waiting for the
    /// socket: what is already read does not make it readable again.
    pub fn flush(&mut self) -> Result<Flush> {
        // SAFETY: the connection is valid.
        match unsafe { sys::PQflush(self.as_ptr()) } {
            0 => Ok(Flush::Done),
            1 => Ok(Flush::Pending),
            _ => Err(PqError::of(self)),
        }
    }

    /// Reads what has come. An error means that the connection is lost; answers read before are still delivered.
    pub fn consume_input(&mut self) -> Result<()> {
        // SAFETY: the connection is valid.
        let outcome = unsafe { sys::PQconsumeInput(self.as_ptr()) };
        self.check(outcome == 1)
    }

    /// Would the next answer have to be waited for? Never true of a lost connection.
    pub fn is_busy(&mut self) -> bool {
        // SAFETY: the connection is valid.
        unsafe { sys::PQisBusy(self.as_ptr()) != 0 }
    }

    /// The next answer, without waiting. On a lost connection: what was read, then one error without SQLSTATE if a
    /// statement was under way, then [`Answer::End`] for ever.
    pub fn next_result(&mut self) -> Answer {
        if self.is_busy() {
            return Answer::Pending;
        }
        // SAFETY: the connection is valid; as it is not busy the call returns at once.
        match PgResult::new(unsafe { sys::PQgetResult(self.as_ptr()) }) {
            Some(result) => Answer::Result(result),
            None => Answer::End,
        }
    }

    /// Takes the stored notices, oldest first, and the number of older ones that there was no room for.
    pub fn take_notices(&mut self) -> (Vec<Notice>, u64) {
        // SAFETY: libpq does not run, and `self` is borrowed exclusively.
        unsafe { self.notices.as_mut() }.take()
    }

    /// Why the server ends the session, as far as that has been read and came outside of an answer.
    pub fn farewell(&mut self) -> Option<Diag> {
        // libpq looks at what it has read when it is asked for answers.
        self.is_busy();
        // SAFETY: libpq does not run, and the borrow ends here.
        unsafe { self.notices.as_ref() }.farewell().cloned()
    }

    /// Is the connection good for another statement, as far as is known after reading what has come? Nothing may be under
    /// way. A server that has gone away has often said so.
    pub fn is_alive(&mut self) -> bool {
        self.consume_input().is_ok() && self.farewell().is_none() && self.is_ok()
    }

    pub fn has_notices(&self) -> bool {
        // SAFETY: libpq does not run, and the borrow ends here.
        unsafe { !self.notices.as_ref().is_empty() }
    }

    fn check(&self, succeeded: bool) -> Result<()> {
        if succeeded {
            Ok(())
        } else {
            Err(PqError::of(self))
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the connection is owned and not used afterwards.
        unsafe { sys::PQfinish(self.as_ptr()) };
        // SAFETY: leaked from a box in `start`; results remember the pointer but never use it (see PgResult).
        drop(unsafe { Box::from_raw(self.notices.as_ptr()) });
    }
}
