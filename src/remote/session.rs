//! A session: our one connection to a server for one user mapping, with its remote transaction.

use crate::model::depth::Depth;
use crate::model::error::{FdwError, Result};
use crate::model::option::{Isolation, MappingOptions, ServerOptions};
use crate::model::socket::{Interest, Socket};
use crate::model::sql::Sql;
use crate::pg::invalidation::{self, Changed};
use crate::pg::version::WaitEvent;
use crate::pg::{backend, catalog, guc, wait, xact};
use crate::pq::{CancelRequest, PgResult};
use crate::remote::connect::Established;
use crate::remote::cursor::CursorState;
use crate::remote::pending::PendingRows;
use crate::remote::queue::{Queue, Reply, Role};
use crate::remote::relation::KnownRelations;
use crate::remote::statement::Statement;
use crate::remote::stats::{FlushCause, WaitStats, WriteStats};
use crate::remote::{connect, notice};
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Instant;

/// How everybody holds a session.
pub type SessionRef = Rc<Session>;

/// Local level `XACT_SERIALIZABLE` of `access/xact.h`, and the names of all levels.
const ISOLATION_NAMES: [&str; 4] = [
    "READ UNCOMMITTED",
    "READ COMMITTED",
    "REPEATABLE READ",
    "SERIALIZABLE",
];

/// An error that has made the remote transaction useless at a nesting level and above.
struct Lost {
    level: i32,
    error: FdwError,
}

/// The changing part of a session.
#[derive(Default)]
pub(super) struct State {
    pub link: Option<Established>,
    pub queue: Queue,
    pub depth: Depth,
    lost: Option<Lost>,
    /// Level at which the remote transaction became READ ONLY.
    read_only_at: Option<i32>,
    /// Has the remote transaction changed data?
    pub wrote: bool,
    pub cursors: Vec<Weak<CursorState>>,
    /// Remote cursors to close with the next message, with the level they live at.
    pub closing: Vec<(i32, u64)>,
    next_cursor: u64,
    /// Errors read so far, and before the statements of [`Session::send_undo`].
    errors: u64,
    errors_before_undo: u64,
    waits: WaitStats,
    /// Something was sent since the last wait.
    awaiting: bool,
}

/// A session. Not connected before its first use.
pub struct Session {
    server: catalog::Server,
    mapping: catalog::UserMapping,
    name: String,
    options: ServerOptions,
    mapping_options: MappingOptions,
    /// With whose rights the next connection is made.
    user: Cell<Oid>,
    server_hash: u32,
    mapping_hash: u32,
    /// Server or mapping have changed: close the connection as soon as it is idle.
    stale: Cell<bool>,
    pub(super) state: RefCell<State>,
    pending: RefCell<Vec<Rc<dyn PendingRows>>>,
    pub(super) relations: RefCell<KnownRelations>,
    /// The last command that asked about all relations below one: its id, and that relation.
    pub(super) asked_by: Cell<(u32, Oid)>,
    writes: Cell<WriteStats>,
}

impl Session {
    pub(super) fn new(
        server: catalog::Server,
        mapping: catalog::UserMapping,
        options: ServerOptions,
        mapping_options: MappingOptions,
    ) -> Session {
        Session {
            server_hash: invalidation::server_hash(server.oid),
            mapping_hash: invalidation::mapping_hash(mapping.oid),
            user: Cell::new(mapping.user),
            name: server.display_name(),
            server,
            mapping,
            options,
            mapping_options,
            stale: Cell::new(false),
            state: RefCell::default(),
            pending: RefCell::default(),
            relations: RefCell::default(),
            asked_by: Cell::new((0, Oid::INVALID)),
            writes: Cell::default(),
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

    /// Counters of all writes since the session object was made.
    pub fn write_stats(&self) -> WriteStats {
        self.writes.get()
    }

    pub fn wait_stats(&self) -> WaitStats {
        self.state.borrow().waits
    }

    /// Process id of the shard's backend, if connected.
    pub fn backend_pid(&self) -> Option<i32> {
        let state = self.state.borrow();
        state
            .link
            .as_ref()
            .map(|link| link.connection.backend_pid())
    }

    pub fn is_connected(&self) -> bool {
        self.state.borrow().link.is_some()
    }

    pub fn in_transaction(&self) -> bool {
        self.state.borrow().depth.is_open()
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
            if !state.depth.is_open() && state.lost.is_none() {
                state.link = None;
            }
        }
    }

    /// Closes the connection unless a transaction uses it. Returns whether it is closed now.
    pub fn disconnect(&self) -> bool {
        let mut state = self.state.borrow_mut();
        if state.depth.is_open() {
            return false;
        }
        state.link = None;
        true
    }

    /// What the rules for credentials need to know when `user` is the one with whose rights tables are used.
    pub(super) fn inputs<'a>(
        &'a self,
        user: Oid,
        application_name: &'a [u8],
    ) -> connect::Inputs<'a> {
        connect::Inputs {
            server: &self.name,
            options: &self.options,
            mapping: &self.mapping_options,
            superuser: backend::is_superuser(user),
            application_name,
        }
    }

    /// May `user` use the session? The mapping of PUBLIC serves users with different rights.
    pub(super) fn check_user(&self, user: Oid) -> Result<()> {
        match &self.state.borrow().link {
            Some(link) => connect::check_reuse(&self.inputs(user, b""), link),
            None => {
                self.user.set(user);
                Ok(())
            }
        }
    }

    /// The server's name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    // Use by statements -----------------------------------------------------------------------------------------

    /// Is the remote transaction still good for the running statement?
    pub fn check(&self) -> Result<()> {
        match &self.state.borrow().lost {
            Some(lost) => Err(lost.error.clone()),
            None => Ok(()),
        }
    }

    /// Connects, begins the remote transaction and sets savepoints, as far as the current local level needs it.
    /// What it sends goes out with the next message.
    pub fn enter(&self) -> Result<()> {
        self.check()?;
        let level = xact::nest_level();
        if !self.in_transaction() {
            self.begin(level)?;
        }
        let depth = self.state.borrow().depth;
        if depth.get() < level {
            self.flush_where(FlushCause::Savepoint, |_| true)?;
            self.drain()?;
            self.declare_where(|_| true)?;
            for savepoint in depth.missing(level) {
                self.queue(
                    &Statement::plain(format!("SAVEPOINT s{savepoint}").as_str()),
                    Role::Forget,
                )?;
                self.state.borrow_mut().depth.deepen(savepoint);
            }
        }
        self.enter_read_only(level)
    }

    /// Runs a statement after everything that waits, and returns its answer.
    pub fn execute(&self, statement: &Statement) -> Result<PgResult> {
        self.enter()?;
        self.flush_where(FlushCause::Barrier, |_| true)?;
        if statement.writes {
            self.declare_where(|_| true)?;
            self.state.borrow_mut().wrote = true;
        }
        self.ask(statement)
    }

    /// Sends a statement as the last of the current message, and waits for its answer.
    pub(super) fn ask(&self, statement: &Statement) -> Result<PgResult> {
        self.close_cursors()?;
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.queue(statement, Role::Ticket(ticket))?;
        self.end_message()?;
        self.wait_until(|state| state.queue.has_answer(ticket) || state.link.is_none())?;
        let reply = self.state.borrow_mut().queue.take_answer(ticket);
        match reply {
            Some(Ok(result)) => {
                self.check()?;
                Ok(result)
            }
            Some(Err(error)) => Err(self.check().err().unwrap_or(error)),
            None => {
                self.check()?;
                Err(self.lost_error(b"no answer arrived"))
            }
        }
    }

    /// Waits until everything sent has been answered.
    pub fn drain(&self) -> Result<()> {
        drain_all(&[self])
    }

    // Rows that wait --------------------------------------------------------------------------------------------

    /// Makes a relation buffer known, so that barriers find it.
    pub fn add_pending(&self, rows: Rc<dyn PendingRows>) {
        self.pending.borrow_mut().push(rows);
    }

    /// Forgets a relation buffer that will not get rows any more.
    pub fn remove_pending(&self, rows: &Rc<dyn PendingRows>) {
        self.pending
            .borrow_mut()
            .retain(|other| !Rc::ptr_eq(other, rows));
    }

    pub(super) fn has_pending_rows(&self) -> bool {
        self.pending.borrow().iter().any(|rows| !rows.is_empty())
    }

    /// Sends the rows of one buffer, as far as the limit of bytes in flight allows without waiting longer.
    pub fn flush(&self, rows: &Rc<dyn PendingRows>, cause: FlushCause) -> Result<()> {
        self.check()?;
        for batch in rows.take(cause)? {
            self.send_batch(rows, &batch, cause)?;
        }
        Ok(())
    }

    /// Sends the rows of all buffers that `which` names by their command id.
    pub(super) fn flush_where(&self, cause: FlushCause, which: impl Fn(u32) -> bool) -> Result<()> {
        let waiting: Vec<_> = self
            .pending
            .borrow()
            .iter()
            .filter(|rows| !rows.is_empty() && which(rows.command_id()))
            .cloned()
            .collect();
        waiting.iter().try_for_each(|rows| self.flush(rows, cause))
    }

    /// Sends the rows that statements of `level` have left.
    pub fn flush_level(&self, cause: FlushCause, level: i32) -> Result<()> {
        let waiting: Vec<_> = self
            .pending
            .borrow()
            .iter()
            .filter(|rows| !rows.is_empty() && rows.level() == level)
            .cloned()
            .collect();
        waiting.iter().try_for_each(|rows| self.flush(rows, cause))
    }

    fn send_batch(
        &self,
        rows: &Rc<dyn PendingRows>,
        batch: &Statement,
        cause: FlushCause,
    ) -> Result<()> {
        let limit = guc::max_in_flight();
        let bytes = batch.len();
        self.wait_until(|state| {
            state.queue.bytes_in_flight() == 0 || state.queue.bytes_in_flight() + bytes <= limit
        })?;
        self.check()?;
        let written_by = rows.command_id();
        self.declare_where(|cursor| cursor.command_id <= written_by)?;
        self.state.borrow_mut().wrote = true;
        let count = batch
            .subject
            .rows
            .map_or(0, |(first, last)| last - first + 1);
        let mut writes = self.writes.get();
        writes.count(cause, count, bytes as u64);
        self.writes.set(writes);
        self.queue(batch, Role::Batch(rows.clone()))?;
        self.end_message()
    }

    // Cursors ---------------------------------------------------------------------------------------------------

    pub(super) fn new_cursor_number(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next_cursor += 1;
        state.next_cursor
    }

    pub(super) fn register_cursor(&self, cursor: &Rc<CursorState>) {
        let mut state = self.state.borrow_mut();
        state.cursors.retain(|cursor| cursor.strong_count() > 0);
        state.cursors.push(Rc::downgrade(cursor));
    }

    /// Declares the registered cursors that `which` names and that have not been declared, so that what is sent
    /// next stays invisible to them.
    pub(super) fn declare_where(&self, which: impl Fn(&CursorState) -> bool) -> Result<()> {
        let waiting: Vec<_> = self
            .state
            .borrow()
            .cursors
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|cursor| cursor.can_be_declared() && which(cursor))
            .collect();
        for cursor in waiting {
            self.queue(&cursor.declaration(), Role::Forget)?;
            cursor.set_declared(true);
        }
        Ok(())
    }

    fn close_cursors(&self) -> Result<()> {
        let closing = std::mem::take(&mut self.state.borrow_mut().closing);
        for (_, number) in closing {
            self.queue(
                &Statement::plain(format!("CLOSE c{number}").as_str()),
                Role::Forget,
            )?;
        }
        Ok(())
    }

    // Transaction -----------------------------------------------------------------------------------------------

    fn begin(&self, level: i32) -> Result<()> {
        let reused = self.connect()?;
        let begin = self.begin_statement();
        if reused && !self.begin_answered(&begin)? {
            // The one silent reconnect: nothing of this transaction has been sent to the shard that could be lost.
            self.connect()?;
            self.queue(&begin, Role::Forget)?;
        } else if !reused {
            self.queue(&begin, Role::Forget)?;
        }
        let mut state = self.state.borrow_mut();
        state.depth.begin(level);
        state.read_only_at = xact::is_read_only().then_some(1);
        Ok(())
    }

    /// Makes the connection if there is none. Returns whether an older one is used again.
    fn connect(&self) -> Result<bool> {
        {
            let mut state = self.state.borrow_mut();
            if let Some(link) = &mut state.link {
                // A shard that has gone away in the meantime has often said so.
                let alive = link.connection.consume_input().is_ok() && link.connection.is_ok();
                if alive && !self.stale.get() {
                    return Ok(true);
                }
                state.link = None;
            }
            state.queue = Queue::default();
        }
        let application_name = guc::application_name();
        self.forget_relations();
        let link = connect::connect(&self.inputs(self.user.get(), &application_name))?;
        self.state.borrow_mut().link = Some(link);
        Ok(false)
    }

    /// Sends BEGIN alone over a connection that may be dead. False: it is.
    fn begin_answered(&self, begin: &Statement) -> Result<bool> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        let sent = self
            .queue(begin, Role::Ticket(ticket))
            .and_then(|()| self.end_message());
        if sent.is_ok() {
            self.wait_until(|state| state.queue.has_answer(ticket) || state.link.is_none())?;
        }
        let mut state = self.state.borrow_mut();
        state.lost = None;
        match state.queue.take_answer(ticket) {
            _ if state.link.is_none() => Ok(false),
            Some(Err(error)) => {
                state.link = None;
                if super::queue::is_farewell(&error) {
                    return Ok(false);
                }
                Err(error)
            }
            _ => Ok(true),
        }
    }

    /// BEGIN with the modes of the local transaction. A local SERIALIZABLE is SERIALIZABLE everywhere; otherwise
    /// REPEATABLE READ lets all scans of a query share a snapshot, unless the option asks for the local level.
    fn begin_statement(&self) -> Statement {
        let local = xact::isolation_level().clamp(0, 3) as usize;
        let level = match self.options.isolation {
            Isolation::Match => local,
            Isolation::RepeatableRead => local.max(2),
        };
        let mut sql = Sql::from("START TRANSACTION ISOLATION LEVEL ");
        sql.push(ISOLATION_NAMES[level]);
        if xact::is_read_only() {
            sql.push(", READ ONLY");
        }
        if xact::is_deferrable() {
            sql.push(", DEFERRABLE");
        }
        Statement::plain(sql)
    }

    /// Follows a local transaction that has become READ ONLY since the remote one began.
    fn enter_read_only(&self, level: i32) -> Result<()> {
        if !xact::is_read_only() || self.state.borrow().read_only_at.is_some() {
            return Ok(());
        }
        self.queue(&Statement::plain("SET TRANSACTION READ ONLY"), Role::Forget)?;
        self.state.borrow_mut().read_only_at = Some(level);
        Ok(())
    }

    /// The subtransaction at `level` is about to end well.
    pub(super) fn pre_commit_sub(&self, level: i32) -> Result<()> {
        if self
            .pending
            .borrow()
            .iter()
            .any(|rows| rows.level() >= level && !rows.is_empty())
        {
            return Err(FdwError::internal(format!(
                "rows for server \"{}\" were left behind at the end of a subtransaction",
                self.name
            )));
        }
        if self.state.borrow().depth.get() >= level {
            self.check()?;
            self.close_cursors()?;
            self.queue(
                &Statement::plain(format!("RELEASE SAVEPOINT s{level}").as_str()),
                Role::Forget,
            )?;
            self.end_message()?;
        }
        let mut state = self.state.borrow_mut();
        state.depth.commit_sub(level);
        for cursor in state.cursors.iter().filter_map(Weak::upgrade) {
            cursor.leave_level(level);
        }
        for (of, _) in &mut state.closing {
            *of = (*of).min(level - 1);
        }
        state.leave_read_only(level);
        Ok(())
    }

    /// The subtransaction at `level` is undone: drops what waits, and says whether the shard must hear of it.
    pub(super) fn abort_sub_locally(&self, level: i32) -> bool {
        self.drop_pending(level);
        let mut state = self.state.borrow_mut();
        let used = state.depth.get() >= level;
        if used {
            state.cursors.retain(|cursor| {
                cursor.upgrade().is_some_and(|cursor| {
                    let survives = cursor.level() < level;
                    if !survives {
                        cursor.forget();
                    }
                    survives
                })
            });
            state.closing.retain(|(of, _)| *of < level);
        }
        state.leave_read_only(level);
        used
    }

    /// The savepoint of `level` has been rolled back.
    pub(super) fn rolled_back_to(&self, level: i32) {
        let mut state = self.state.borrow_mut();
        state.depth.abort_sub(level);
        state.queue.forget_answers();
        if state.lost.as_ref().is_some_and(|lost| lost.level >= level) {
            state.lost = None;
            if state.link.is_none() {
                // Lost with all it had done, which was nothing that the outer levels asked for.
                state.depth.end();
            }
        }
    }

    fn drop_pending(&self, level: i32) {
        self.pending.borrow_mut().retain(|rows| {
            let undone = rows.level() >= level;
            if undone {
                rows.discard();
            }
            !undone
        });
    }

    /// The remote transaction is over: forgets all of it, and closes the connection where that is due.
    pub(super) fn end_transaction(&self) {
        self.drop_pending(1);
        let mut state = self.state.borrow_mut();
        state.depth.end();
        state.lost = None;
        state.read_only_at = None;
        state.wrote = false;
        for cursor in state
            .cursors
            .drain(..)
            .filter_map(|cursor| cursor.upgrade())
        {
            cursor.forget();
        }
        state.closing.clear();
        state.queue.forget_answers();
        self.asked_by.set((0, Oid::INVALID));
        if self.stale.get() || !self.options.keep_connections || !state.queue.is_empty() {
            state.link = None;
        }
    }

    /// Closes a connection whose state is in doubt. Its remote transaction, if one is open, is lost.
    pub(super) fn give_up(&self, reason: &[u8]) {
        let error = self.lost_error(reason);
        self.state.borrow_mut().lose_connection(error);
    }

    fn lost_error(&self, detail: &[u8]) -> FdwError {
        FdwError::Lost {
            server: self.name.clone(),
            detail: detail.to_vec(),
        }
    }

    // Ends of transactions, step by step ------------------------------------------------------------------------

    /// Is nobody in the middle of using the session? Not so when the process ends inside a wait.
    pub(super) fn is_free(&self) -> bool {
        self.state.try_borrow_mut().is_ok() && self.pending.try_borrow_mut().is_ok()
    }

    pub(super) fn wrote(&self) -> bool {
        self.state.borrow().wrote
    }

    /// Has everything sent been answered?
    pub(super) fn is_quiet(&self) -> bool {
        self.state.borrow().queue.is_empty()
    }

    /// Sends COMMIT. None: it could not be sent, and the session is lost.
    pub(super) fn send_commit(&self) -> Option<u64> {
        let ticket = self.state.borrow_mut().queue.new_ticket();
        self.queue(
            &Statement::plain("COMMIT TRANSACTION"),
            Role::Ticket(ticket),
        )
        .and_then(|()| self.end_message())
        .ok()
        .map(|()| ticket)
    }

    pub(super) fn take_answer(&self, ticket: u64) -> Option<Reply> {
        self.state.borrow_mut().queue.take_answer(ticket)
    }

    pub(super) fn start_cancel(&self) -> Option<CancelRequest> {
        let state = self.state.borrow();
        CancelRequest::start(&state.link.as_ref()?.connection).ok()
    }

    /// Sends the statements that undo, after everything before has been answered.
    pub(super) fn send_undo(&self, statements: &[Statement]) {
        {
            let mut state = self.state.borrow_mut();
            state.queue.forget_answers();
            state.errors_before_undo = state.errors;
        }
        for statement in statements {
            if self.queue(statement, Role::Forget).is_err() {
                return;
            }
        }
        // An error shows as a lost connection.
        let _ = self.end_message();
    }

    /// After [`Session::send_undo`] and its answers: did all statements succeed?
    pub(super) fn undo_succeeded(&self) -> bool {
        let state = self.state.borrow();
        state.link.is_some() && state.errors == state.errors_before_undo
    }

    // Messages --------------------------------------------------------------------------------------------------

    /// Adds a statement to the current message.
    pub(super) fn queue(&self, statement: &Statement, role: Role) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let sent = match link {
            Some(link) => queue.send(&mut link.connection, statement, role),
            None => Err(b"there is no connection".to_vec()),
        };
        self.lose_on_error(&mut state, sent)
    }

    /// Ends the current message, and sends what the socket takes.
    pub(super) fn end_message(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let sent = match link {
            Some(link) => queue.end_message(&mut link.connection),
            None => Err(b"there is no connection".to_vec()),
        };
        state.awaiting = true;
        self.lose_on_error(&mut state, sent)
    }

    fn lose_on_error(
        &self,
        state: &mut State,
        sent: std::result::Result<(), Vec<u8>>,
    ) -> Result<()> {
        let Err(reason) = sent else { return Ok(()) };
        let bad = state
            .link
            .as_ref()
            .is_none_or(|link| link.connection.is_bad());
        let error = self.lost_error(&reason);
        if !bad {
            return Err(FdwError::Protocol {
                message: format!("could not send a statement to server \"{}\"", self.name),
                detail: Some(reason),
            });
        }
        state.lose_connection(error.clone());
        Err(state.lost.as_ref().map_or(error, |lost| lost.error.clone()))
    }

    /// Sends and reads what can be done without waiting, and notes errors.
    pub(super) fn advance(&self) {
        let mut state = self.state.borrow_mut();
        let State { link, queue, .. } = &mut *state;
        let Some(link) = link else { return };
        let alive = queue.advance(&mut link.connection, &self.server.name);
        if let Some(error) = state.queue.take_error() {
            self.forget_relations();
            state.lose(error);
        }
        if let Err(reason) = alive {
            let error = self.lost_error(&reason);
            state.lose_connection(error);
        }
    }

    /// Ends a message that has been begun: without that the shard would answer nothing of it. An error shows as a
    /// lost connection.
    fn finish_message(&self) {
        if self.state.borrow().queue.has_open_message() {
            let _ = self.end_message();
        }
    }

    /// What a wait for answers waits for.
    fn wanted(&self) -> Option<(Socket, Interest)> {
        let state = self.state.borrow();
        let socket = state.link.as_ref()?.connection.socket()?;
        let interest = Interest {
            read: true,
            write: state.queue.has_unsent(),
        };
        Some((socket, interest))
    }

    fn wait_until(&self, done: impl Fn(&State) -> bool) -> Result<()> {
        wait_for(&[self], |session| done(&session.state.borrow()), None).map(|_| ())
    }

    fn relay_notices(&self) {
        let mut state = self.state.borrow_mut();
        let Some(link) = &mut state.link else { return };
        if link.connection.has_notices() {
            let (notices, dropped) = link.connection.take_notices();
            drop(state);
            notice::relay(&self.name, notices, dropped);
        }
    }
}

impl State {
    /// Notes an error that spoils the remote transaction at its present depth.
    fn lose(&mut self, error: FdwError) {
        self.errors += 1;
        let level = self.depth.get();
        if self.lost.is_none() {
            self.lost = Some(Lost { level, error });
        }
    }

    /// Drops the connection. With a remote transaction open, all of that is lost.
    fn lose_connection(&mut self, error: FdwError) {
        self.link = None;
        let level = self.depth.begun_at();
        match &mut self.lost {
            Some(lost) => lost.level = lost.level.min(level),
            None => self.lost = Some(Lost { level, error }),
        }
    }

    fn leave_read_only(&mut self, level: i32) {
        if self.read_only_at.is_some_and(|at| at >= level) {
            self.read_only_at = None;
        }
    }

    pub(super) fn lost_error(&self) -> Option<&FdwError> {
        self.lost.as_ref().map(|lost| &lost.error)
    }
}

/// Waits until `done` holds for each of the sessions, working on all of them meanwhile. False: the deadline came
/// first. An interrupt leaves everything as consistent as it was.
pub(super) fn wait_for(
    sessions: &[&Session],
    done: impl Fn(&Session) -> bool,
    deadline: Option<Instant>,
) -> Result<bool> {
    let started = Instant::now();
    let mut waited = false;
    for session in sessions {
        session.finish_message();
    }
    loop {
        let mut sockets = Vec::new();
        for session in sessions {
            session.advance();
            if !done(session) {
                sockets.extend(session.wanted());
            }
        }
        if sockets.is_empty() {
            break;
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(false);
        }
        waited = true;
        wait::for_sockets(&sockets, deadline, WaitEvent::Result)?;
    }
    for session in sessions {
        let mut state = session.state.borrow_mut();
        if waited && std::mem::take(&mut state.awaiting) {
            state.waits.round_trips += 1;
            state.waits.waited += started.elapsed();
        }
        drop(state);
        session.relay_notices();
    }
    Ok(true)
}

/// Waits until everything sent on the sessions has been answered, and returns the first error.
pub fn drain_all(sessions: &[&Session]) -> Result<()> {
    wait_for(
        sessions,
        |session| session.state.borrow().queue.is_empty(),
        None,
    )?;
    sessions.iter().try_for_each(|session| session.check())
}
