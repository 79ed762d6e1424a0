//! Making a connection to a shard, up to the moment when the first statement can be sent.

mod keywords;
mod policy;
mod settings;
mod setup;

pub use settings::{Difference, Renewal, SettingsWatch};

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::locale::DatabaseLocale;
use crate::model::lock_timeout;
use crate::model::option::{MappingOptions, ServerOptions};
use crate::model::socket::Interest;
use crate::pg::fd::ExternalFd;
use crate::pg::version::WaitEvent;
use crate::pg::{backend, wait};
use crate::pq::{ConnectProgress, Connection, PqError};
use crate::remote::statement::Statement;
use std::ffi::CString;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Whom to connect to, and as whom.
pub struct Inputs<'a> {
    /// Name of the server, for messages.
    pub server: &'a str,
    pub options: &'a ServerOptions,
    pub mapping: &'a MappingOptions,
    /// Is the user whom the mapping was looked up for a superuser?
    pub superuser: bool,
    /// The setting `shard_fdw.application_name`, which goes before the server's option when it is not empty.
    pub application_name: &'a [u8],
}

/// A connection in pipeline mode, with our settings made and nothing under way.
pub struct Established {
    pub connection: Connection,
    /// Dropped after the connection.
    pub _fd: ExternalFd,
    /// `server_version_num` of the shard.
    pub version: i32,
    /// Does a pooler stand in between, which may change the server's session between transactions?
    pub pooled: bool,
    /// When the shard's server has started, in microseconds.
    pub server_start: Option<Rc<[u8]>>,
    /// The session's `lock_timeout` without ours, in milliseconds.
    pub lock_timeout: i32,
    /// That of the shard's database.
    pub locale: Rc<DatabaseLocale>,
    /// What makes the settings for a transaction.
    pub renewal: Renewal,
    /// What the shard reports of them.
    pub watch: SettingsWatch,
}

/// Connects, waiting for the latch and the sockets only. An interrupt unwinds and closes what was begun.
///
/// Attempts end after `connect_timeout` seconds times the number of hosts, all of them together: libpq leaves the
/// timeout to callers that do not block, and they cannot make it go on to the next host. 0 or no value: no limit but
/// the kernel's. The settings afterwards have no limit of their own.
pub fn connect(inputs: &Inputs) -> Result<Established> {
    let login = policy::Login::new(inputs);
    policy::check_before(&login, backend::has_delegated_credentials())?;
    let encoding = backend::encoding_name();
    let params = keywords::params(inputs, &backend::application_name_facts(), &encoding)?;
    let fd = ExternalFd::acquire(inputs.server)?;
    let mut connection = open(inputs.server, &params)?;
    drop(params);
    policy::check_after(
        &login,
        connection.used_password(),
        connection.used_gssapi() && backend::has_delegated_credentials(),
    )?;
    let version = setup::check_version(inputs.server, &connection)?;
    connection
        .set_nonblocking()
        .map_err(|error| failed(inputs.server, error))?;
    connection
        .enter_pipeline()
        .map_err(|error| failed(inputs.server, error))?;
    let found = setup::run(inputs, &mut connection)?;
    let mut watch = SettingsWatch::new(inputs.options, &encoding, version, found.pooled);
    watch.disregard(&connection);
    Ok(Established {
        connection,
        _fd: fd,
        version,
        pooled: found.pooled,
        server_start: found.server_start,
        lock_timeout: found.lock_timeout,
        locale: Rc::new(found.locale),
        renewal: Renewal::new(inputs.options, &encoding, version, found.pooled),
        watch,
    })
}

impl Established {
    /// How long the session is to wait for locks, in milliseconds.
    pub fn wanted_lock_timeout(&self) -> i32 {
        lock_timeout::wanted(backend::lock_timeout(), self.lock_timeout)
    }
}

/// What gives a transaction of a session this `lock_timeout`.
pub fn lock_timeout_statement(milliseconds: i32) -> Statement {
    let sql = format!("SELECT pg_catalog.set_config('lock_timeout', '{milliseconds}', true)");
    Statement::own(sql.as_str())
}

/// May the user of `inputs` use a connection that was made for another user of the same mapping (that of PUBLIC)?
pub fn check_reuse(inputs: &Inputs, link: &Established) -> Result<()> {
    let login = policy::Login::new(inputs);
    policy::check_before(&login, backend::has_delegated_credentials())?;
    policy::check_after(
        &login,
        link.connection.used_password(),
        link.connection.used_gssapi() && backend::has_delegated_credentials(),
    )
}

/// Connects and authenticates.
fn open(server: &str, params: &[(CString, CString)]) -> Result<Connection> {
    let mut connection = Connection::start(params).map_err(|error| failed(server, error))?;
    let limit = time_limit(&connection).map_err(|error| failed(server, error))?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut interest = Interest::WRITE;
    loop {
        let Some(socket) = connection.socket() else {
            return Err(failed(server, PqError::of(&connection)));
        };
        let came = wait::for_socket(socket, interest, deadline, WaitEvent::Connect);
        if came.is_none() {
            return Err(timed_out(server, limit.unwrap_or_default(), &connection));
        }
        match connection.poll_connect() {
            ConnectProgress::Wait(next) => interest = next,
            ConnectProgress::Done => return Ok(connection),
            ConnectProgress::Failed => return Err(failed(server, PqError::of(&connection))),
        }
    }
}

/// How long all attempts may take together; None: as long as they take.
fn time_limit(connection: &Connection) -> std::result::Result<Option<Duration>, PqError> {
    let Some(timeout) = connection.option("connect_timeout") else {
        return Ok(None);
    };
    let hosts = keywords::host_count(
        connection.option("hostaddr").as_deref(),
        connection.option("host").as_deref(),
    );
    keywords::time_limit(&timeout, hosts).map_err(PqError::new)
}

fn failed(server: &str, error: PqError) -> FdwError {
    FdwError::Connect {
        server: server.to_owned(),
        sqlstate: SqlState::CONNECTION_UNABLE,
        detail: backend::displayable(error.message),
        hint: None,
    }
}

fn timed_out(server: &str, limit: Duration, connection: &Connection) -> FdwError {
    let mut detail = connection.error_message();
    if !detail.is_empty() {
        detail.push(b'\n');
    }
    detail.extend_from_slice(
        format!("The server did not answer within {} s.", limit.as_secs()).as_bytes(),
    );
    failed(server, PqError::new(detail))
        .with_hint("The limit is the option connect_timeout times the number of hosts.")
}
