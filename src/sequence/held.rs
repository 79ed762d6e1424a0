//! The sequences that this backend has used, and the values that it holds of them.
//!
//! A value is handed out only to the user it was drawn for, and only while server and user mapping are what they were.
//! What is looked up in the catalog for that is known to hold until core reports a change.

use super::draw;
use crate::model::error::{FdwError, Result, SqlState};
use crate::model::range::{Pace, Values};
use crate::model::sql::Sql;
use crate::model::text;
use crate::pg::invalidation::access_generation;
use crate::pg::{backend, catalog, guc, name, xact};
use crate::remote::autocommit::{self, Autocommit};
use crate::remote::cache;
use once_cell::sync::Lazy;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::new(Known::default());
}

/// Refills are timed from here.
static START: Lazy<Instant> = Lazy::new(Instant::now);

/// When and for whom something was found in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checked {
    generation: u64,
    user: Oid,
}

/// A sequence of a server.
struct Sequence {
    server: Oid,
    /// In the form that all its spellings have in common.
    name: Sql,
    checked: Cell<Checked>,
    state: RefCell<State>,
}

struct State {
    connection: Rc<Autocommit>,
    values: Values,
    pace: Pace,
    /// What currval gives to the user it was drawn for.
    last: Option<(Oid, i64)>,
    refills: u64,
    drawn: u64,
}

/// So many spellings are known; then they are looked up again.
const MOST_SPELLINGS: usize = 1000;

/// What a server and a sequence were called, and which they were found to be.
struct Spelling {
    generation: u64,
    sequence: Rc<Sequence>,
}

#[derive(Default)]
struct Known {
    spellings: HashMap<Box<[u8]>, Spelling>,
    /// By server and name.
    sequences: BTreeMap<(u32, Box<[u8]>), Rc<Sequence>>,
    /// For the key of a spelling, so that a call allocates nothing.
    key: Vec<u8>,
}

impl Known {
    fn make_key(&mut self, server: &[u8], name: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(&server.len().to_ne_bytes());
        self.key.extend_from_slice(server);
        self.key.extend_from_slice(name);
    }

    /// The sequence of this spelling, if that is known to be still right.
    fn find(&mut self, server: &[u8], name: &[u8], checked: Checked) -> Option<&Rc<Sequence>> {
        self.make_key(server, name);
        let spelling = self.spellings.get(self.key.as_slice())?;
        let is_right =
            spelling.generation == checked.generation && spelling.sequence.checked.get() == checked;
        is_right.then_some(&spelling.sequence)
    }

    /// Before another spelling is noted: names may be made up by a program, and most of them name nothing.
    fn make_room(&mut self) {
        if self.spellings.len() >= MOST_SPELLINGS {
            self.spellings.clear();
            self.sequences.retain(|_, sequence| sequence.is_used());
        }
    }
}

/// A row of `shard_fdw_sequences()`.
pub struct Report {
    pub server: Option<Vec<u8>>,
    pub sequence: Vec<u8>,
    /// The next value and the last one held.
    pub ends: Option<(i64, i64)>,
    pub left: u64,
    pub refills: u64,
    pub drawn: u64,
}

/// The next value, from those held or by a draw.
pub fn next_value(server: &[u8], name: &[u8]) -> Result<i64> {
    check_writable("shard_fdw_nextval()")?;
    let checked = Checked {
        generation: access_generation(),
        user: backend::current_user(),
    };
    let held = KNOWN.with_borrow_mut(|known| {
        let sequence = known.find(server, name, checked)?;
        sequence.state.borrow_mut().take(checked.user)
    });
    match held {
        Some(value) => Ok(value),
        None => sequence(server, name)?.draw(checked.user),
    }
}

/// The value that this backend last handed out to the current user.
pub fn current_value(server: &[u8], name: &[u8]) -> Result<i64> {
    let sequence = sequence(server, name)?;
    let last = sequence.state.borrow().last;
    match last {
        Some((user, value)) if user == backend::current_user() => Ok(value),
        _ => Err(FdwError::local(
            SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!(
                "shard_fdw_currval of sequence {} is not yet defined in this session",
                text::from_bytes(sequence.name.as_bytes())
            ),
        )),
    }
}

/// Sets the sequence, and forgets what is held of it.
pub fn set_value(server: &[u8], name: &[u8], value: i64, is_called: bool) -> Result<()> {
    check_writable("shard_fdw_setval()")?;
    let user = backend::current_user();
    let sequence = sequence(server, name)?;
    let connection = sequence.state.borrow().connection.clone();
    // Whether it succeeds or not: perhaps only the answer gets lost.
    sequence.state.borrow_mut().values.clear();
    draw::set(&connection, user, &sequence.name, value, is_called)?;
    if is_called {
        sequence.state.borrow_mut().last = Some((user, value));
    }
    Ok(())
}

/// Forgets all values, and everything else about sequences.
pub fn discard() {
    let known = KNOWN.take();
    drop(known);
}

/// All sequences used, in the order of servers' OIDs and names.
pub fn report() -> Result<Vec<Report>> {
    let sequences: Vec<_> = KNOWN.with_borrow(|known| known.sequences.values().cloned().collect());
    let user = backend::current_user();
    sequences
        .iter()
        .filter(|sequence| sequence.is_used())
        .map(|sequence| {
            let server = catalog::server_if_exists(sequence.server)?;
            let mut state = sequence.state.borrow_mut();
            if state.connection.is_stale() || sequence.checked.get().user != user {
                state.values.clear();
            }
            Ok(Report {
                server: server.map(|server| server.name),
                sequence: sequence.name.as_bytes().to_vec(),
                ends: state.values.ends(),
                left: state.values.len(),
                refills: state.refills,
                drawn: state.drawn,
            })
        })
        .collect()
}

/// As core's own functions on sequences do (25006).
fn check_writable(function: &str) -> Result<()> {
    if !xact::is_read_only() {
        return Ok(());
    }
    Err(FdwError::local(
        SqlState::READ_ONLY_TRANSACTION,
        format!("cannot execute {function} in a read-only transaction"),
    ))
}

/// Looks a sequence up for the current user, who must be allowed to use the server and have a mapping for it. Does not
/// connect.
fn sequence(server_name: &[u8], spelling: &[u8]) -> Result<Rc<Sequence>> {
    cache::listen();
    let user = backend::current_user();
    // From before the look: what changes meanwhile is looked up again.
    let generation = access_generation();
    let Some(server) = catalog::server_by_name(server_name)? else {
        return Err(FdwError::local(
            SqlState::UNDEFINED_OBJECT,
            format!(
                "server \"{}\" does not exist",
                text::from_bytes(server_name)
            ),
        ));
    };
    if !catalog::is_own_server(server.oid)? {
        return Err(FdwError::local(
            SqlState::WRONG_OBJECT_TYPE,
            format!(
                "server \"{}\" does not belong to shard_fdw",
                server.display_name()
            ),
        ));
    }
    catalog::check_server_usage(&server, user)?;
    let name = name::qualified(spelling)?;
    let connection = autocommit::connection(server.oid, user)?;
    let checked = Checked { generation, user };
    Ok(KNOWN.with_borrow_mut(|known| {
        known.make_room();
        let key = (server.oid.to_u32(), name.as_bytes().into());
        let sequence = known
            .sequences
            .entry(key)
            .or_insert_with(|| Rc::new(Sequence::new(server.oid, name, checked, &connection)))
            .clone();
        sequence.pass_to(checked, connection);
        known.make_key(server_name, spelling);
        let spelling = Spelling {
            generation,
            sequence: sequence.clone(),
        };
        known
            .spellings
            .insert(known.key.as_slice().into(), spelling);
        sequence
    }))
}

impl Sequence {
    fn new(server: Oid, name: Sql, checked: Checked, connection: &Rc<Autocommit>) -> Sequence {
        Sequence {
            server,
            name,
            checked: Cell::new(checked),
            state: RefCell::new(State {
                connection: connection.clone(),
                values: Values::default(),
                pace: Pace::default(),
                last: None,
                refills: 0,
                drawn: 0,
            }),
        }
    }

    /// One that never gave a value may not even exist.
    fn is_used(&self) -> bool {
        let state = self.state.borrow();
        state.refills > 0 || state.last.is_some()
    }

    /// Drops the values if they were drawn for another user, or over another connection.
    fn pass_to(&self, checked: Checked, connection: Rc<Autocommit>) {
        let before = self.checked.replace(checked);
        let mut state = self.state.borrow_mut();
        if before.user != checked.user || !Rc::ptr_eq(&state.connection, &connection) {
            state.values.clear();
            state.pace = Pace::default();
            state.connection = connection;
        }
    }

    /// Takes a value, drawing a new range unless one is held.
    fn draw(&self, user: Oid) -> Result<i64> {
        let (connection, size) = {
            let mut state = self.state.borrow_mut();
            if let Some(value) = state.take(user) {
                return Ok(value);
            }
            let size = state
                .pace
                .next(now(), guc::sequence_range(), backend::copy_is_running());
            (state.connection.clone(), size)
        };
        let drawn = draw::draw(&connection, user, &self.name, size)?;
        let mut state = self.state.borrow_mut();
        state.refills += 1;
        state.drawn += drawn.values.len();
        state.values = drawn.values;
        state.pace.drawn(drawn.size, now());
        state
            .take(user)
            .ok_or_else(|| FdwError::internal("a draw from a sequence brought no value"))
    }
}

impl State {
    #[inline]
    fn take(&mut self, user: Oid) -> Option<i64> {
        let value = self.values.take()?;
        self.last = Some((user, value));
        Some(value)
    }
}

fn now() -> Duration {
    START.elapsed()
}
