//! Buffers whose rows wait beyond the end of their statement (flush policy `transaction`), found again by the next one.
//!
//! Nothing of a statement stays with such a buffer: what it needs later it owns. It belongs to a session and a nesting
//! level, and takes rows of every statement there that sends the same columns of the same, unchanged foreign table.

use crate::model::insert::Clauses;
use crate::pg::target::Target;
use crate::remote::pending::PendingRows;
use crate::remote::session::{Session, SessionRef};
use crate::write::buffer::RelationBuffer;
use crate::write::columns::Sent;
use pgrx::pg_sys::Oid;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

struct Entry {
    session: Weak<Session>,
    target: Rc<Target>,
    level: i32,
    sent: Sent,
    clauses: Clauses,
    buffer: Weak<RelationBuffer>,
}

/// As long as there are no more relations than this, those whose buffers are gone may stay.
const FEW: usize = 64;

thread_local! {
    /// By relation. The sessions hold the buffers.
    static KEPT: RefCell<HashMap<Oid, Vec<Entry>>> = RefCell::default();
    /// At so many relations those whose buffers are gone are taken out: a session may see any number come and go.
    static CROWDED: Cell<usize> = const { Cell::new(FEW) };
}

/// What a statement needs of a buffer.
pub struct Wanted<'a> {
    pub relation: Oid,
    pub session: &'a SessionRef,
    pub target: &'a Rc<Target>,
    pub level: i32,
    pub sent: &'a Sent,
    pub clauses: &'a Clauses,
}

impl Wanted<'_> {
    fn is_session(&self, entry: &Entry) -> bool {
        std::ptr::eq(Rc::as_ptr(self.session), entry.session.as_ptr())
    }

    fn is(&self, entry: &Entry) -> bool {
        self.is_session(entry)
            && Rc::ptr_eq(self.target, &entry.target)
            && self.level == entry.level
            && *self.sent == entry.sent
            && *self.clauses == entry.clauses
    }
}

/// The buffer that takes such rows, if there is one, and those that hold other rows for the same relation.
pub fn find(wanted: &Wanted) -> (Option<Rc<RelationBuffer>>, Vec<Rc<RelationBuffer>>) {
    KEPT.with_borrow(|kept| {
        let (mut found, mut others) = (None, Vec::new());
        for entry in kept.get(&wanted.relation).into_iter().flatten() {
            let open = entry.buffer.upgrade().filter(|buffer| !buffer.is_closed());
            match open {
                Some(buffer) if wanted.is(entry) => found = Some(buffer),
                Some(buffer) if wanted.is_session(entry) => others.push(buffer),
                _ => {}
            }
        }
        (found, others)
    })
}

/// The buffers of a session of which it is only assumed what the order of their rows may matter to, with their foreign
/// tables.
pub fn assumed(session: &SessionRef) -> Vec<(Oid, Rc<Target>, Rc<RelationBuffer>)> {
    KEPT.with_borrow(|kept| {
        let entries = kept
            .iter()
            .flat_map(|(relation, entries)| entries.iter().map(|entry| (*relation, entry)));
        let assumed = entries.filter_map(|(relation, entry)| {
            let is_session = std::ptr::eq(Rc::as_ptr(session), entry.session.as_ptr());
            let buffer = entry.buffer.upgrade().filter(|_| is_session)?;
            let is_assumed = buffer.kept().is_some_and(|kept| kept.is_assumed);
            (is_assumed && !buffer.is_closed()).then(|| (relation, entry.target.clone(), buffer))
        });
        assumed.collect()
    })
}

/// Makes a new buffer known.
pub fn add(wanted: &Wanted, buffer: &Rc<RelationBuffer>) {
    let is_alive = |entry: &Entry| entry.buffer.strong_count() > 0;
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= CROWDED.get() {
            kept.retain(|_, entries| entries.iter().any(is_alive));
            CROWDED.set((2 * kept.len()).max(FEW));
        }
        let entries = kept.entry(wanted.relation).or_default();
        entries.retain(is_alive);
        entries.push(Entry {
            session: Rc::downgrade(wanted.session),
            target: wanted.target.clone(),
            level: wanted.level,
            sent: wanted.sent.clone(),
            clauses: wanted.clauses.clone(),
            buffer: Rc::downgrade(buffer),
        });
    });
}
