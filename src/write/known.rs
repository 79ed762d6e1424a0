//! What the shard says of a target's relation, asked for a whole tree at once.

use crate::model::error::{FdwError, Result};
use crate::model::table::RemoteTable;
use crate::pg::catalog;
use crate::pg::target::Target;
use crate::remote::relation::RemoteRelation;
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
    if let Some(known) = session.known_relation(relid) {
        return Ok(known);
    }
    session.ask_relations(&tables_of_tree(target, relid, root)?)?;
    session.known_relation(relid).ok_or_else(|| {
        FdwError::internal(format!(
            "foreign table \"{}\" changed while it was looked at",
            target.relation.display_name()
        ))
    })
}

/// The table itself, or all foreign tables of the tree on the same server: one question serves them all.
pub fn tables_of_tree(target: &Target, relid: Oid, root: Oid) -> Result<Vec<(Oid, RemoteTable)>> {
    let mut tables = vec![(relid, target.remote.clone())];
    if root != relid {
        for leaf in catalog::foreign_leaves(root)? {
            if leaf != relid && catalog::foreign_table(leaf)?.server == target.server.oid {
                tables.push((leaf, Target::of(leaf)?.remote));
            }
        }
    }
    Ok(tables)
}
