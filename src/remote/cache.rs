//! The sessions of this backend: one per server and user there, made when first asked for.
//!
//! Mappings of one server whose connection options are equal share a session, if each may connect by its own rules: two sessions of
//! one user would not see what the other has written, and could wait for each other's locks for ever.
//!
//! A transaction that uses a session goes on using it, whatever becomes of the user mapping and the server meanwhile: a second
//! session would not see what the first has written, and could wait for its locks for ever.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::locale::DatabaseLocale;
use crate::model::option::{MappingOptions, ServerOptions};
use crate::pg::invalidation::{self, Changed};
use crate::pg::{catalog, xact};
use crate::pq::conninfo;
use crate::remote::autocommit;
use crate::remote::session::{Session, SessionRef};
use crate::remote::transaction;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

thread_local! {
    /// By OID of the user mapping that was the first to ask: the order in which shards are talked to where there is a choice.
    static SESSIONS: RefCell<BTreeMap<u32, SessionRef>> = const { RefCell::new(BTreeMap::new()) };
}

/// A session that was asked for, and what had changed until then.
struct Found {
    generation: u64,
    session: SessionRef,
    /// Of the mapping that it was asked for with.
    mapping: Rc<MappingOptions>,
    /// It was asked for in the present local transaction.
    is_bound: bool,
}

impl Found {
    fn must_stay(&self) -> bool {
        self.is_bound && self.session.is_in_use()
    }
}

thread_local! {
    /// By server and user.
    static FOUND: RefCell<HashMap<(Oid, Oid), Found>> = RefCell::default();
}

/// The session for tables of `server` used with the rights of `user`. Does not connect.
pub fn session(server: Oid, user: Oid) -> Result<SessionRef> {
    let generation = invalidation::surroundings_generation();
    let found = FOUND.with_borrow_mut(|found| {
        let found = found.get_mut(&(server, user))?;
        let is_good = found.session.is_in_use() || !found.session.is_stale();
        let is_right = found.must_stay() || (found.generation == generation && is_good);
        found.is_bound |= is_right;
        is_right.then(|| (found.session.clone(), found.mapping.clone()))
    });
    if let Some((session, mapping)) = found {
        session.check_user(user, &mapping)?;
        return Ok(session);
    }
    let (session, mapping) = look_for_session(server, user)?;
    session.check_user(user, &mapping)?;
    let found = Found {
        generation,
        session: session.clone(),
        mapping,
        is_bound: true,
    };
    FOUND.with_borrow_mut(|all| {
        // Those of before the change are of no use.
        all.retain(|_, found| found.generation == generation || found.must_stay());
        all.insert((server, user), found)
    });
    Ok(session)
}

/// The session that a user is to have, whether or not he may, and the options of his mapping.
fn look_for_session(server: Oid, user: Oid) -> Result<(SessionRef, Rc<MappingOptions>)> {
    listen();
    let mapping = catalog::user_mapping(user, server)?;
    let server = catalog::server(server)?;
    let libpq = conninfo::options().map_err(|error| {
        FdwError::local(SqlState::FDW_ERROR, String::from_utf8_lossy(&error.message))
    })?;
    let options = ServerOptions::new(&server.options, libpq)?;
    let mapping_options = Rc::new(MappingOptions::new(&mapping.options, libpq)?);
    let key = mapping.oid.to_u32();
    let known = SESSIONS.with_borrow(|sessions| sessions.get(&key).cloned());
    let usable = |session: &SessionRef| session.is_in_use() || !session.is_stale();
    let equal = |session: &SessionRef| {
        session.server().oid == server.oid
            && usable(session)
            && session.connects_like(&options, &mapping_options)
    };
    let mut equals = all();
    equals.retain(equal);
    // What the transaction uses already goes before what it has not begun to use.
    let in_use = |session: &SessionRef| session.is_in_use();
    let found = match known.clone().filter(in_use) {
        Some(session) => Some(session),
        None => match equals.iter().find(|session| in_use(session)) {
            Some(session) => Some(session.clone()),
            None => session_in_use(&server, &mapping)?,
        },
    };
    let found = found
        .or_else(|| known.clone().filter(usable))
        .or_else(|| equals.into_iter().next());
    if let Some(session) = found {
        return Ok((session, mapping_options));
    }
    let counters = known.map_or_else(Rc::default, |replaced| replaced.counters().clone());
    let session = Session::new(server, mapping, options, mapping_options.clone(), counters);
    let session = Rc::new(session);
    SESSIONS.with_borrow_mut(|sessions| sessions.insert(key, session.clone()));
    Ok((session, mapping_options))
}

/// The locale of the database that tables of `server` are in for `user`, for a plan: connects if no connection has told. None: it
/// cannot be known now, for whatever reason.
pub fn database_locale(server: Oid, user: Oid) -> Option<Rc<DatabaseLocale>> {
    catalog::has_user_mapping(user, server)
        .then(|| session(server, user).ok())
        .flatten()?
        .find_locale()
}

/// The session that the transaction uses for the same user on the same server, where the user mapping has been made anew since. The
/// server itself made anew is an error (55000): it may be another one.
fn session_in_use(
    server: &catalog::Server,
    mapping: &catalog::UserMapping,
) -> Result<Option<SessionRef>> {
    let mut sessions = all();
    sessions.retain(|session| session.is_in_use());
    for session in &sessions {
        let used = session.server();
        let is_remade = used.oid != server.oid
            && used.name == server.name
            && catalog::server_if_exists(used.oid)?.is_none();
        if is_remade {
            return Err(FdwError::local(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!(
                    "server \"{}\" has been dropped and made anew while a transaction uses it",
                    server.display_name()
                ),
            )
            .with_hint("Use it in a new transaction."));
        }
    }
    Ok(sessions.into_iter().find(|session| {
        session.server().oid == server.oid && session.mapping().owner == mapping.owner
    }))
}

/// The local transaction is over: the next one uses what the catalogs say.
pub(super) fn unbind() {
    FOUND.with_borrow_mut(|all| {
        for found in all.values_mut() {
            found.is_bound = false;
        }
    });
}

/// From now on hears of the ends of transactions, and of changed servers and mappings.
pub fn listen() {
    xact::register(transaction::HOOKS);
    invalidation::register(invalidate);
}

/// All sessions, in the order of their mappings' OIDs.
pub fn all() -> Vec<SessionRef> {
    SESSIONS.with_borrow(|sessions| sessions.values().cloned().collect())
}

/// Sessions whose remote transaction is open, or was when it was lost.
pub fn in_transaction() -> Vec<SessionRef> {
    let mut sessions = all();
    sessions.retain(|session| session.in_transaction());
    sessions
}

/// A callback may come in the middle of anything, so nothing here may fail or wait.
fn invalidate(changed: Changed) {
    let sessions = SESSIONS.try_with(|sessions| {
        let sessions = sessions.try_borrow();
        sessions.map_or_else(
            |_| Vec::new(),
            |sessions| sessions.values().cloned().collect(),
        )
    });
    for session in sessions.unwrap_or_default() {
        session.invalidate(changed);
    }
    autocommit::invalidate(changed);
}
