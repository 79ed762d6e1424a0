//! The table option `on_conflict`: what it adds to an INSERT, and when a batch may not take a further row.
//!
//! A shard refuses to update a row twice in one command. So with `update` a batch ends before a row whose key may be that of
//! one in it, and then all is as row by row. With `nothing` the shard does that by itself.

use crate::model::error::{FdwError, Result, SqlState};
use crate::model::insert::Conflict;
use crate::model::option::OnConflict;
use crate::pg::catalog::{self, Column};
use crate::pg::keyhash::{is_deterministic, KeyHash};
use crate::pg::target::Target;
use crate::pg::value::Row;
use crate::remote::key::{KeyColumn, KeyOf};
use crate::remote::session::Session;
use crate::write::columns::Sent;
use crate::write::policy::SingleReason;
use pgrx::pg_sys::Oid;
use std::cell::RefCell;
use std::collections::HashSet;

/// The keys of the rows that wait in a buffer.
pub struct Keys {
    hash: KeyHash,
    waiting: RefCell<HashSet<u64>>,
}

impl Keys {
    /// For a target without a [`single_reason`].
    pub fn new(target: &Target) -> Option<Keys> {
        KeyHash::new(key_columns(target)).map(|hash| Keys {
            hash,
            waiting: RefCell::default(),
        })
    }

    /// Adds a row's key. False: one that waits may be the same.
    pub fn add(&self, row: &Row) -> bool {
        self.waiting.borrow_mut().insert(self.hash.of(row))
    }

    /// No row waits any more.
    pub fn clear(&self) {
        self.waiting.borrow_mut().clear();
    }
}

/// The option where it needs a key and there is none: an error.
pub fn check_key(target: &Target) -> Result<()> {
    if !target.key.is_empty() {
        return Ok(());
    }
    Err(FdwError::local(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!(
            "foreign table \"{}\" has the option \"on_conflict\" but no key column",
            target.relation.display_name()
        ),
    )
    .with_hint(
        "Give the columns of a unique constraint of the remote table the option \"key\": ALTER FOREIGN TABLE ... ALTER COLUMN ... OPTIONS (ADD key 'true').",
    ))
}

/// What the option adds to an INSERT. Only columns that the statement names are changed in a row that is there.
pub fn conflict(option: OnConflict, target: &Target, sent: &Sent) -> Conflict {
    let name = |attnum: &i16| {
        let column = target.remote.column(*attnum);
        column.map(|column| column.name.clone())
    };
    let key = target.key.iter().filter_map(name).collect();
    match option {
        OnConflict::Error => Conflict::Fail,
        OnConflict::Nothing => Conflict::Keep { key },
        OnConflict::Update => {
            let named = sent.named.iter();
            Conflict::Update {
                key,
                columns: named
                    .filter(|attnum| !target.key.contains(attnum))
                    .filter_map(name)
                    .collect(),
            }
        }
    }
}

/// Why rows that update others go one at a time, as far as it shows here.
pub fn local_reason(target: &Target, sent: &Sent) -> Option<SingleReason> {
    let mut columns = key_columns(target);
    if !target
        .key
        .iter()
        .all(|attnum| sent.attnums.contains(attnum))
    {
        Some(SingleReason::Upsert("the shard makes the key"))
    } else if !columns.all(|column| is_deterministic(column.collation)) {
        Some(SingleReason::Upsert(
            "the key's collation is nondeterministic",
        ))
    } else if KeyHash::new(key_columns(target)).is_none() {
        Some(SingleReason::Upsert(
            "keys of this type cannot be compared here",
        ))
    } else {
        None
    }
}

/// Why rows that update others go one at a time, if they do. `root`: the relation that the statement names; all leaves of
/// its tree are asked about at once.
pub fn single_reason(
    session: &Session,
    target: &Target,
    sent: &Sent,
    (relid, root): (Oid, Oid),
) -> Result<Option<SingleReason>> {
    if let Some(reason) = local_reason(target, sent) {
        return Ok(Some(reason));
    }
    let known = match session.known_key(relid) {
        Some(known) => known,
        None => {
            let answers = session.ask_keys(&keys_of_tree(target, relid, root)?)?;
            answers
                .into_iter()
                .next()
                .ok_or_else(|| FdwError::internal("a question for keys was not answered"))?
        }
    };
    let mut pairs = key_columns(target).zip(known.iter());
    Ok(
        if !pairs.clone().all(|(here, there)| is_same(here, there)) {
            Some(SingleReason::Upsert(
                "the shard may compare keys in another way",
            ))
        } else if pairs.any(|(_, there)| there.is_some_and(|there| there.may_be_changed)) {
            Some(SingleReason::Upsert("the shard may change rows"))
        } else {
            None
        },
    )
}

fn key_columns(target: &Target) -> impl Iterator<Item = &Column> + Clone {
    let numbers = target.key.iter();
    numbers.filter_map(|attnum| target.relation.column(*attnum))
}

/// Does the shard take values as they are, and find the same ones equal? A modifier that is not that of the column here
/// could round or cut them.
fn is_same(here: &Column, there: &Option<KeyColumn>) -> bool {
    there.is_some_and(|there| {
        there.type_oid == here.type_oid.to_u32()
            && (there.typmod == here.typmod || there.typmod == -1)
            && !there.is_odd
    })
}

fn key_of(relid: Oid, target: &Target) -> KeyOf {
    let columns = target.key.iter();
    KeyOf {
        relid,
        generation: target.generation,
        schema: target.remote.schema.clone(),
        table: target.remote.name.clone(),
        columns: columns
            .filter_map(|attnum| target.remote.column(*attnum))
            .map(|column| column.name.clone())
            .collect(),
    }
}

/// The table itself, and the other foreign tables of the tree on the same server that have the option.
fn keys_of_tree(target: &Target, relid: Oid, root: Oid) -> Result<Vec<KeyOf>> {
    let mut keys = vec![key_of(relid, target)];
    if root == relid {
        return Ok(keys);
    }
    for leaf in catalog::foreign_leaves(root)? {
        if leaf == relid || catalog::foreign_table(leaf)?.server != target.server.oid {
            continue;
        }
        let other = Target::known(leaf)?;
        if other.options.on_conflict == OnConflict::Update && !other.key.is_empty() {
            keys.push(key_of(leaf, &other));
        }
    }
    Ok(keys)
}
