//! Connections for statements that are no part of a remote transaction, at most one for each user mapping, beside that of
//! its session. Such a statement commits at once, whatever becomes of the local transaction.
//!
//! A connection is held by whoever waits on it, not by the cache. So an interrupt, which unwinds, closes it, and one in
//! the cache never has anything under way.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::option::{MappingOptions, ServerOptions};
use crate::model::socket::{Interest, Socket};
use crate::pg::invalidation::{self, Changed};
use crate::pg::version::WaitEvent;
use crate::pg::{backend, catalog, guc, wait};
use crate::pq::{conninfo, Answer, Connection, Flush, PgResult, ResultStatus};
use crate::remote::connect::{self, Established};
use crate::remote::queue::{error_of, End};
use crate::remote::statement::{add_context, Statement};
use crate::remote::{cache, notice};
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

thread_local! {
    /// By OID of the user mapping.
    static ALL: RefCell<BTreeMap<u32, Rc<Autocommit>>> = const { RefCell::new(BTreeMap::new()) };
}

struct Link {
    established: Established,
    /// Has a request been answered on it?
    is_known: bool,
}

/// What a request can build on.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Nothing has been asked on the connection before.
    pub is_new: bool,
    /// A pooler stands in between: nothing outlives the transaction.
    pub is_pooled: bool,
}

/// Statements that make one remote transaction.
pub type Transaction = Vec<Statement>;

/// How a remote transaction went.
#[derive(Default)]
pub struct Outcome {
    /// Of the statements that succeeded. They have been undone if there is an error.
    pub results: Vec<PgResult>,
    pub error: Option<FdwError>,
}

/// The connection of a user mapping. Not connected before its first use.
pub struct Autocommit {
    server: catalog::Server,
    mapping: catalog::UserMapping,
    name: String,
    options: ServerOptions,
    mapping_options: MappingOptions,
    server_hash: u32,
    mapping_hash: u32,
    /// Server or mapping have changed.
    stale: Cell<bool>,
    link: RefCell<Option<Link>>,
}

/// The connection to `server` with the mapping of `user`, made anew where either has changed.
pub fn connection(server: Oid, user: Oid) -> Result<Rc<Autocommit>> {
    cache::listen();
    let mapping = catalog::user_mapping(user, server)?;
    let key = mapping.oid.to_u32();
    if let Some(known) = ALL.with_borrow(|all| all.get(&key).cloned()) {
        if !known.is_stale() {
            return Ok(known);
        }
    }
    let server = catalog::server(server)?;
    let libpq = conninfo::options().map_err(|error| {
        FdwError::local(SqlState::FDW_ERROR, String::from_utf8_lossy(&error.message))
    })?;
    let new = Rc::new(Autocommit {
        options: ServerOptions::new(&server.options, libpq)?,
        mapping_options: MappingOptions::new(&mapping.options, libpq)?,
        server_hash: invalidation::server_hash(server.oid),
        mapping_hash: invalidation::mapping_hash(mapping.oid),
        name: server.display_name(),
        server,
        mapping,
        stale: Cell::new(false),
        link: RefCell::new(None),
    });
    ALL.with_borrow_mut(|all| all.insert(key, new.clone()));
    Ok(new)
}

/// All of them, in the order of the mappings' OIDs.
pub fn all() -> Vec<Rc<Autocommit>> {
    ALL.with_borrow(|all| all.values().cloned().collect())
}

/// A callback may come in the middle of anything, so nothing here may fail or wait.
pub(super) fn invalidate(changed: Changed) {
    let _ = ALL.try_with(|all| {
        let Ok(all) = all.try_borrow() else { return };
        for one in all.values() {
            if changed.concerns(one.server_hash, one.mapping_hash) {
                one.stale.set(true);
                if let Ok(mut link) = one.link.try_borrow_mut() {
                    *link = None;
                }
            }
        }
    });
}

/// The local transaction is over.
pub(super) fn end_transaction() {
    for one in all() {
        if !one.options.keep_connections {
            one.disconnect();
        }
    }
}

impl Autocommit {
    pub fn server(&self) -> &catalog::Server {
        &self.server
    }

    pub fn mapping(&self) -> &catalog::UserMapping {
        &self.mapping
    }

    /// Have server or mapping changed?
    pub fn is_stale(&self) -> bool {
        self.stale.get()
    }

    pub fn socket(&self) -> Option<Socket> {
        let link = self.link.borrow();
        link.as_ref()?.established.connection.socket()
    }

    pub fn backend_pid(&self) -> Option<i32> {
        let link = self.link.borrow();
        link.as_ref()
            .map(|link| link.established.connection.backend_pid())
    }

    pub fn is_connected(&self) -> bool {
        self.link.borrow().is_some()
    }

    /// Closes the connection. Returns whether there was one.
    pub fn disconnect(&self) -> bool {
        self.link.borrow_mut().take().is_some()
    }

    /// Runs the transactions that `make` gives, all in one message, with the rights of `user`, and returns how each
    /// went.
    ///
    /// A kept connection may turn out to be dead. If it is lost before it has answered, and `repeatable` says that asking
    /// twice does no harm, all is sent again over a new one.
    pub fn ask(
        &self,
        user: Oid,
        repeatable: bool,
        make: impl Fn(Facts) -> Vec<Transaction>,
    ) -> Result<Vec<Outcome>> {
        let (mut link, reused) = self.take_or_connect(user)?;
        let outcome = match self.exchange(&mut link, &make) {
            Err(error) if reused && repeatable && error.is_connection_loss() => {
                link = self.connect(user)?;
                self.exchange(&mut link, &make)
            }
            other => other,
        };
        let outcomes = outcome?;
        let is_settled = settle(&mut link);
        link.is_known = true;
        let notices = link
            .established
            .connection
            .has_notices()
            .then(|| link.established.connection.take_notices());
        if is_settled && !self.is_stale() {
            *self.link.borrow_mut() = Some(link);
        }
        if let Some((notices, dropped)) = notices {
            notice::relay(&self.name, notices, dropped);
        }
        Ok(outcomes)
    }

    fn inputs<'a>(&'a self, user: Oid, application_name: &'a [u8]) -> connect::Inputs<'a> {
        connect::Inputs {
            server: &self.name,
            options: &self.options,
            mapping: &self.mapping_options,
            superuser: backend::is_superuser(user),
            application_name,
        }
    }

    /// The connection, taken out of the cache, and whether it has been used before.
    fn take_or_connect(&self, user: Oid) -> Result<(Link, bool)> {
        let kept = self.link.borrow_mut().take();
        if let Some(mut link) = kept {
            // The mapping of PUBLIC serves users with different rights.
            if let Err(error) = connect::check_reuse(&self.inputs(user, b""), &link.established) {
                *self.link.borrow_mut() = Some(link);
                return Err(error);
            }
            if link.established.connection.is_alive() {
                return Ok((link, true));
            }
        }
        Ok((self.connect(user)?, false))
    }

    fn connect(&self, user: Oid) -> Result<Link> {
        let application_name = guc::application_name();
        let established = connect::connect(&self.inputs(user, &application_name))?;
        Ok(Link {
            established,
            is_known: false,
        })
    }

    /// An error means that the connection is lost, or must not be used any more.
    fn exchange(
        &self,
        link: &mut Link,
        make: &impl Fn(Facts) -> Vec<Transaction>,
    ) -> Result<Vec<Outcome>> {
        let is_pooled = link.established.pooled;
        let is_new = !link.is_known;
        let mut transactions = make(Facts { is_new, is_pooled });
        // What a pooler's server has been told last is not known.
        let mut settings: Transaction = match is_pooled {
            true => vec![Statement::kept(link.established.renewal.all.clone())],
            false => Vec::new(),
        };
        if is_new || is_pooled {
            // The option session_settings may have named another path.
            let path =
                format!("SELECT pg_catalog.set_config('search_path', 'pg_catalog', {is_pooled})");
            settings.push(Statement::own(path.as_str()));
        }
        let extra = settings.len();
        let told = if is_pooled { transactions.len() } else { 1 };
        for transaction in transactions.iter_mut().take(told) {
            transaction.splice(0..0, settings.iter().cloned());
        }
        // Each transaction forgets it at its end.
        let lock_timeout = link.established.wanted_lock_timeout();
        let tells = lock_timeout != link.established.lock_timeout;
        let before = |place: usize| if place < told { extra } else { 0 };
        for (place, transaction) in transactions.iter_mut().enumerate().filter(|_| tells) {
            let statement = connect::lock_timeout_statement(lock_timeout);
            transaction.insert(before(place), statement);
        }
        let connection = &mut link.established.connection;
        self.send(connection, &transactions)?;
        let mut outcomes = self.receive(connection, &transactions)?;
        for (place, outcome) in outcomes.iter_mut().enumerate() {
            let count = before(place) + usize::from(tells);
            let count = count.min(outcome.results.len());
            outcome.results.drain(..count);
        }
        Ok(outcomes)
    }

    fn send(&self, connection: &mut Connection, transactions: &[Transaction]) -> Result<()> {
        for transaction in transactions {
            for statement in transaction {
                statement
                    .hand_over(connection)
                    .map_err(|detail| self.lost(connection, detail))?;
            }
            connection
                .pipeline_sync()
                .map_err(|error| self.lost(connection, error.message))?;
        }
        Ok(())
    }

    /// Sends what is left, and reads all answers.
    fn receive(
        &self,
        connection: &mut Connection,
        transactions: &[Transaction],
    ) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::with_capacity(transactions.len());
        let mut current = Outcome::default();
        let mut place = 0;
        // libpq says that a statement has no more answers; a second time in a row, that it has nothing at all.
        let mut has_ended = false;
        loop {
            let flushed = connection.flush();
            loop {
                let answer = connection.next_result();
                let was_end = std::mem::replace(&mut has_ended, matches!(answer, Answer::End));
                match answer {
                    Answer::Result(result) => match result.status() {
                        ResultStatus::PipelineSync => {
                            outcomes.push(std::mem::take(&mut current));
                            place = 0;
                            if outcomes.len() == transactions.len() {
                                return Ok(outcomes);
                            }
                        }
                        ResultStatus::PipelineAborted => {}
                        status if status.is_success() => current.results.push(result),
                        _ => {
                            let error = match error_of(&self.server.name, &result, connection) {
                                Ok(error) => error,
                                Err(end) => {
                                    let under_way = under_way(transactions, outcomes.len(), place);
                                    return Err(self.ended(connection, end, under_way));
                                }
                            };
                            let statement = transactions[outcomes.len()].get(place);
                            let error = self.in_context(error, statement);
                            current.error.get_or_insert(error);
                        }
                    },
                    Answer::End if connection.is_bad() => {
                        // What the shard said before it went tells more than the loss.
                        if let Some(said) = current.error.take() {
                            return Err(said);
                        }
                        let end = End::Found(connection.error_message());
                        let under_way = under_way(transactions, outcomes.len(), place);
                        return Err(self.ended(connection, end, under_way));
                    }
                    Answer::End if was_end => break,
                    Answer::End => place += 1,
                    Answer::Pending => break,
                }
            }
            let interest = Interest {
                read: true,
                write: flushed.map_err(|error| self.lost(connection, error.message))?
                    == Flush::Pending,
            };
            let Some(socket) = connection.socket() else {
                let reason = connection.error_message();
                return Err(self.lost(connection, reason));
            };
            let came = wait::for_socket(socket, interest, None, WaitEvent::Result);
            if came.is_some_and(|came| came.read) {
                let consumed = connection.consume_input();
                // Of a lost connection, the answers that were read are still to be looked at.
                if !connection.is_bad() {
                    consumed.map_err(|error| self.lost(connection, error.message))?;
                }
            }
        }
    }

    fn lost(&self, connection: &mut Connection, reason: Vec<u8>) -> FdwError {
        self.ended(connection, End::Found(reason), None)
    }

    /// The error of a connection that is lost: what the shard said, or else what has been found.
    fn ended(
        &self,
        connection: &mut Connection,
        end: End,
        under_way: Option<&Statement>,
    ) -> FdwError {
        let mut farewell = None;
        let detail = end.note(&mut farewell);
        let farewell = farewell.or_else(|| connection.farewell().map(Box::new));
        let error = FdwError::Lost {
            server: self.name.clone(),
            farewell,
            detail,
        };
        self.in_context(error, under_way)
    }

    fn in_context(&self, error: FdwError, statement: Option<&Statement>) -> FdwError {
        match statement {
            Some(Statement { sql, subject, .. }) => {
                add_context(error, &self.server.name, sql, subject)
            }
            None => error,
        }
    }
}

/// Has the session on the shard still the settings that it had after the first request? What other clients of a pooler do does
/// not count.
fn settle(link: &mut Link) -> bool {
    let Established {
        connection,
        watch,
        pooled,
        ..
    } = &mut link.established;
    if *pooled || !link.is_known {
        watch.disregard(connection);
    }
    watch.check(connection).is_none()
}

/// The first statement that has not been answered and is not one of our own.
fn under_way(transactions: &[Transaction], answered: usize, place: usize) -> Option<&Statement> {
    let rest = transactions.iter().skip(answered).flatten().skip(place);
    rest.into_iter()
        .find(|statement| !statement.subject.is_question)
}
