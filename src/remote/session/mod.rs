//! A session: our one connection to a server for one user mapping, with its remote transaction.

mod begin;
mod cursors;
mod ends;
mod follow;
mod locale;
mod messages;
mod rows;
mod savepoint;

pub use messages::drain_all;
pub(super) use messages::wait_for;

use crate::model::depth::Depth;
use crate::model::error::{FdwError, Result};
use crate::model::locale::DatabaseLocale;
use crate::model::option::{self, MappingOptions, ServerOptions};
use crate::model::socket::Socket;
use crate::model::sql::Sql;
use crate::pg::invalidation::{self, Changed};
use crate::pg::{backend, catalog, xact};
use crate::pq::PgResult;
use crate::remote::connect::{self, Established};
use crate::remote::copyable::CopyQuestion;
use crate::remote::cursor::CursorState;
use crate::remote::key::RemoteKey;
use crate::remote::pending::PendingRows;
use crate::remote::queue::{Failure, Queue, Role};
use crate::remote::relation::{Known, RemoteRelation};
use crate::remote::statement::Statement;
use crate::remote::stats::{Counters, FlushCause};
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// How everybody holds a session.
pub type SessionRef = Rc<Session>;

/// The changing part of a session.
#[derive(Default)]
pub(super) struct State {
    pub link: Option<Established>,
    pub queue: Queue,
    pub depth: Depth,
    /// What has made the remote transaction useless at a nesting level and deeper, one for each level at most, the deepest
    /// and oldest first.
    lost: Vec<Failure>,
    /// Start of the statement in which the connection was lost, if it was.
    lost_in: i64,
    /// Level at which the remote transaction became READ ONLY.
    read_only_at: Option<i32>,
    /// Other settings of the local transaction that it has been told.
    told: follow::Told,
    /// Has the remote transaction changed data?
    pub wrote: bool,
    pub cursors: Vec<Weak<CursorState>>,
    /// Remote cursors to close with the next message, with the level they live at.
    pub closing: Vec<(i32, u64)>,
    /// The highest number that a cursor of this transaction has had.
    highest_cursor: u64,
    /// Numbers up to this one may belong to cursors that are open on the shard though nobody uses them.
    spoiled_cursors: u64,
    /// Errors read so far, and before the statements of [`Session::send_undo`].
    errors: u64,
    errors_before_undo: u64,
}

/// A backend of a shard.
pub(super) struct Place {
    /// When its server has started, which tells servers apart.
    pub server: Rc<[u8]>,
    pub pid: i32,
}

/// A session. Not connected before its first use.
pub struct Session {
    server: catalog::Server,
    mapping: catalog::UserMapping,
    name: String,
    options: ServerOptions,
    mapping_options: Rc<MappingOptions>,
    /// With whose rights, and the options of whose mapping, the next connection is made.
    asker: RefCell<(Oid, Rc<MappingOptions>)>,
    /// Somebody has asked for the session in this transaction who must have a password.
    pub(super) restricted: Cell<bool>,
    server_hash: u32,
    mapping_hash: u32,
    /// Server or mapping have changed: close the connection as soon as it is idle.
    stale: Cell<bool>,
    pub(super) state: RefCell<State>,
    pending: RefCell<Vec<Rc<dyn PendingRows>>>,
    pub(super) relations: RefCell<Known<RemoteRelation>>,
    pub(super) keys: RefCell<Known<RemoteKey>>,
    /// By text of the question.
    copyable: RefCell<HashMap<Rc<Sql>, Rc<CopyQuestion>>>,
    /// Number of the present part of a remote transaction: another one after each rollback to a savepoint, and in each
    /// transaction.
    pub(super) part: Cell<u64>,
    /// The shard has refused what its answers had said, and will say until the remote transaction ends.
    pub(super) is_doubtful: Cell<bool>,
    /// A constraint has been violated in this remote transaction.
    pub(super) had_violation: Cell<bool>,
    /// The last command that asked about all relations below one: its id, and that relation.
    pub(super) asked_by: Cell<(u32, Oid)>,
    /// Have rows been kept whose place among others may matter?
    has_ordered: Cell<bool>,
    /// How often rows have been sent before others because it was not known whether their order matters.
    alternations: Cell<u32>,
    counters: Rc<Counters>,
    /// Locale of the shard's database, as the last connection has found it.
    locale: RefCell<Option<Rc<DatabaseLocale>>>,
    /// Why planning could not connect, and the start of its statement.
    unreachable: RefCell<Option<(i64, FdwError)>>,
}

/// May the user connect without a password of his own?
fn is_trusted(user: Oid, mapping: &MappingOptions) -> bool {
    backend::is_superuser(user) || !mapping.password_required
}

impl Session {
    pub(super) fn new(
        server: catalog::Server,
        mapping: catalog::UserMapping,
        options: ServerOptions,
        mapping_options: Rc<MappingOptions>,
        counters: Rc<Counters>,
    ) -> Session {
        Session {
            server_hash: invalidation::server_hash(server.oid),
            mapping_hash: invalidation::mapping_hash(mapping.oid),
            restricted: Cell::new(!is_trusted(mapping.user, &mapping_options)),
            asker: RefCell::new((mapping.user, mapping_options.clone())),
            name: server.display_name(),
            server,
            mapping,
            options,
            mapping_options,
            stale: Cell::new(false),
            state: RefCell::default(),
            pending: RefCell::default(),
            relations: RefCell::default(),
            keys: RefCell::default(),
            copyable: RefCell::default(),
            part: Cell::new(0),
            is_doubtful: Cell::new(false),
            had_violation: Cell::new(false),
            asked_by: Cell::new((0, Oid::INVALID)),
            has_ordered: Cell::new(false),
            alternations: Cell::new(0),
            counters,
            locale: RefCell::default(),
            unreachable: RefCell::default(),
        }
    }

    pub fn server(&self) -> &catalog::Server {
        &self.server
    }

    pub fn mapping(&self) -> &catalog::UserMapping {
        &self.mapping
    }

    pub fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// What has been sent, by this session and those before it for the same mapping.
    pub fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// Process id of the shard's backend, if connected.
    pub fn backend_pid(&self) -> Option<i32> {
        let state = self.state.borrow();
        state
            .link
            .as_ref()
            .map(|link| link.connection.backend_pid())
    }

    /// The shard's backend, if it is known: behind a pooler it is not.
    pub(super) fn place(&self) -> Option<Place> {
        let state = self.state.borrow();
        let link = state.link.as_ref().filter(|link| !link.pooled)?;
        Some(Place {
            server: link.server_start.clone()?,
            pid: link.connection.backend_pid(),
        })
    }

    /// Name of the user on the shard, if connected.
    pub(super) fn remote_user(&self) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        state.link.as_ref()?.connection.option("user")
    }

    /// With whose rights the connection was made.
    pub(super) fn user(&self) -> Oid {
        self.asker.borrow().0
    }

    /// Version of the shard in the form of `server_version_num`; 0 while not connected.
    pub fn shard_version(&self) -> i32 {
        let state = self.state.borrow();
        state.link.as_ref().map_or(0, |link| link.version)
    }

    pub fn is_connected(&self) -> bool {
        self.state.borrow().link.is_some()
    }

    pub fn in_transaction(&self) -> bool {
        self.state.borrow().depth.is_open()
    }

    /// Must statements go on using this session rather than one made anew after a change of its server or mapping? Else a
    /// statement could have two connections, and wait for a row lock of its own for ever.
    pub(super) fn is_in_use(&self) -> bool {
        let state = self.state.borrow();
        let is_running =
            |cursor: &Weak<CursorState>| cursor.upgrade().is_some_and(|cursor| !cursor.is_gone());
        state.depth.is_open() || state.cursors.iter().any(is_running)
    }

    pub fn is_stale(&self) -> bool {
        self.stale.get()
    }

    /// Closes the connection as soon as it is idle if the change concerns its server or mapping. Safe to call from an
    /// invalidation callback at any moment.
    pub(super) fn invalidate(&self, changed: Changed) {
        if !changed.concerns(self.server_hash, self.mapping_hash) {
            return;
        }
        self.stale.set(true);
        if let Ok(mut state) = self.state.try_borrow_mut() {
            if !state.depth.is_open() {
                state.link = None;
            }
        }
    }

    /// The socket of the connection, if there is one.
    pub fn socket(&self) -> Option<Socket> {
        self.state.borrow().link.as_ref()?.connection.socket()
    }

    /// Closes the connection, which no transaction may be using. Returns whether there was one.
    pub fn disconnect(&self) -> bool {
        self.state.borrow_mut().link.take().is_some()
    }

    /// Would a connection for a mapping with these options, of a server with these, be just like this session's?
    pub(super) fn connects_like(&self, server: &ServerOptions, mapping: &MappingOptions) -> bool {
        option::conninfo(&self.options, &self.mapping_options) == option::conninfo(server, mapping)
    }

    /// What the rules for credentials need to know when `user`, whose mapping has these options, is the one with whose rights tables
    /// are used.
    pub(super) fn inputs<'a>(
        &'a self,
        user: Oid,
        mapping: &'a MappingOptions,
        application_name: &'a [u8],
    ) -> connect::Inputs<'a> {
        connect::Inputs {
            server: &self.name,
            options: &self.options,
            mapping,
            superuser: backend::is_superuser(user),
            application_name,
        }
    }

    /// May `user`, whose mapping has these options, use the session? The mapping of PUBLIC serves users with different rights, and so
    /// does a session that several mappings share.
    pub(super) fn check_user(&self, user: Oid, mapping: &Rc<MappingOptions>) -> Result<()> {
        match &self.state.borrow().link {
            Some(link) => connect::check_reuse(&self.inputs(user, mapping, b""), link),
            None => {
                // Of several users who wait for a connection, the one with less rights decides over it.
                let is_trusted = is_trusted(user, mapping);
                if !is_trusted || !self.restricted.get() {
                    self.asker.replace((user, mapping.clone()));
                }
                if !is_trusted {
                    self.restricted.set(true);
                }
                Ok(())
            }
        }
    }

    /// Bytes of rows that wait here, in buffers or on their way to the socket.
    pub fn held_bytes(&self) -> usize {
        let waiting: usize = self.pending.borrow().iter().map(|rows| rows.bytes()).sum();
        waiting + self.state.borrow().queue.unsent_bytes()
    }

    /// Is the remote transaction still good for the running statement?
    pub fn check(&self) -> Result<()> {
        self.state.borrow().check()
    }

    /// Connects, begins the remote transaction and sets savepoints, as far as the current local level needs it.
    /// What it sends goes out with the next message.
    pub fn enter(&self) -> Result<()> {
        self.check()?;
        let level = xact::nest_level();
        if !self.in_transaction() {
            self.begin(level)?;
        }
        let depth = {
            let mut state = self.state.borrow_mut();
            state.depth.used_at(level);
            state.depth
        };
        if depth.get() < level {
            self.flush_where(FlushCause::Savepoint, |_| true)?;
            self.drain()?;
            for savepoint in depth.missing(level) {
                self.set_savepoint(savepoint)?;
            }
        }
        self.follow()?;
        self.enter_read_only(level)
    }

    /// Runs a statement after everything that waits, and returns its answer.
    pub fn execute(&self, statement: &Statement) -> Result<PgResult> {
        self.enter()?;
        self.flush_where(FlushCause::Barrier, |_| true)?;
        if let Some(written_by) = statement.written_by {
            self.declare_where(|cursor| cursor.command_id <= written_by)?;
            self.state.borrow_mut().wrote = true;
        }
        self.ask(statement)
    }

    /// Runs a statement that changes no data and looks at no rows that still wait, and returns its answer.
    pub fn execute_beside(&self, statement: &Statement) -> Result<PgResult> {
        self.enter()?;
        self.ask(statement)
    }

    /// Runs a statement between two others in the same message, and returns its answer. It must not change data.
    pub fn execute_between(
        &self,
        before: &Statement,
        statement: &Statement,
        after: &Statement,
    ) -> Result<PgResult> {
        self.enter()?;
        self.flush_where(FlushCause::Barrier, |_| true)?;
        self.close_cursors()?;
        self.renew_settings()?;
        self.queue(before, Role::Forget)?;
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.queue(statement, Role::Ticket(ticket))?;
        self.queue(after, Role::Forget)?;
        self.answer_to(ticket)
    }

    /// Sends a statement as the last of the current message, and waits for its answer.
    pub(super) fn ask(&self, statement: &Statement) -> Result<PgResult> {
        self.close_cursors()?;
        self.renew_settings()?;
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.queue(statement, Role::Ticket(ticket))?;
        self.answer_to(ticket)
    }

    /// Ends the message, and waits for the answer to a statement of it.
    fn answer_to(&self, ticket: u64) -> Result<PgResult> {
        self.end_message()?;
        self.wait_until(|state| {
            state.queue.has_answer(ticket) || state.queue.is_empty() || state.link.is_none()
        })?;
        let reply = self.state.borrow_mut().queue.take_answer(ticket);
        match reply {
            Some(Ok(result)) => {
                self.check()?;
                Ok(result)
            }
            Some(Err(error)) => Err(self.check().err().unwrap_or(error)),
            None => {
                self.check()?;
                Err(FdwError::lost(&self.name, b"no answer arrived"))
            }
        }
    }

    /// Waits until everything sent has been answered.
    pub fn drain(&self) -> Result<()> {
        drain_all(&[self])
    }
}
