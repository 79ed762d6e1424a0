//! What the shard says of a target's relation, asked for a whole tree at once.

use crate::model::error::{FdwError, Result};
use crate::pg::catalog;
use crate::pg::target::Target;
use crate::remote::relation::{Asked, RemoteRelation};
use crate::remote::session::Session;
use pgrx::pg_sys::Oid;
use std::rc::Rc;

/// What is known of the shard's side of `target`, whose OID is `relid`. `root`: the relation that the statement names.
pub fn remote_relation(
    session: &Session,
    target: &Target,
    relid: Oid,
    root: Oid,
) -> Result<Rc<RemoteRelation>> {
    match session.known_relation(relid) {
        Some(known) => Ok(known),
        None => ask_tree(session, target, relid, root),
    }
}

/// Asks the shard about the table, and about all other foreign tables of the tree on the same server: one question serves
/// them all. Those are not locked, and may change while it is under way: what is kept then counts for nothing.
pub fn ask_tree(
    session: &Session,
    target: &Target,
    relid: Oid,
    root: Oid,
) -> Result<Rc<RemoteRelation>> {
    let tables = tables_of_tree(target, relid, root)?;
    let answers = session.ask_relations(&tables)?;
    answers
        .into_iter()
        .next()
        .ok_or_else(|| FdwError::internal("a question for relations was not answered"))
}

/// The table itself first.
pub fn tables_of_tree(target: &Target, relid: Oid, root: Oid) -> Result<Vec<Asked>> {
    let mut tables = vec![asked(relid, target)];
    if root != relid {
        for leaf in catalog::foreign_leaves(root)? {
            if leaf != relid && catalog::foreign_table(leaf)?.server == target.server.oid {
                tables.push(asked(leaf, &*Target::known(leaf)?));
            }
        }
    }
    Ok(tables)
}

/// What the shard is asked about a target.
pub fn asked(relid: Oid, target: &Target) -> Asked {
    Asked {
        relid,
        generation: target.generation,
        table: target.remote.clone(),
    }
}
