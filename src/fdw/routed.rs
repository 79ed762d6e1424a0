//! What EXPLAIN says about foreign partitions that rows were routed to. Core asks wrappers only about tables that a
//! statement names, so this is a hook, which PostgreSQL has from 18 on.

use crate::fdw::{explain, insert};
use crate::model::error::Result;
use crate::pg::catalog::nodes;
use crate::pg::explain::Explain;
use crate::pg::raise::guarded;
use crate::remote::session::SessionRef;
use crate::remote::stats::WaitStats;
use crate::write::insert::Insert;
use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use std::ffi::c_char;
use std::rc::Rc;

/// The hook that was there before.
static PREVIOUS: OnceCell<pg_sys::explain_per_node_hook_type> = OnceCell::new();

/// Sets the hook. To be called once, when the library is loaded.
pub fn register() {
    // SAFETY: a plain variable of the backend, read and set while the library is loaded.
    unsafe {
        if PREVIOUS.set(pg_sys::explain_per_node_hook).is_ok() {
            pg_sys::explain_per_node_hook = Some(explain_node);
        }
    }
}

unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::PlanState,
    ancestors: *mut pg_sys::List,
    relationship: *const c_char,
    plan_name: *const c_char,
    state: *mut pg_sys::ExplainState,
) {
    // SAFETY: this frame holds no destructors, so an error may pass over it both from the other library's hook, which
    // gets our arguments, and from ours; a node's tag says which struct it is.
    unsafe {
        if let Some(Some(previous)) = PREVIOUS.get() {
            previous(node, ancestors, relationship, plan_name, state);
        }
        if (*node).type_ == pg_sys::NodeTag::T_ModifyTableState {
            guarded(|| explain_leaves(node.cast(), &Explain::new(state)))
        }
    }
}

/// A leaf that rows were routed to.
struct Leaf<'a> {
    target: *mut pg_sys::ResultRelInfo,
    insert: &'a Insert,
}

/// The leaves of ours that have been routed to, in the order of their OIDs.
///
/// # Safety
/// `node` is valid, and no other borrow of its targets' states is alive.
unsafe fn leaves<'a>(node: *mut pg_sys::ModifyTableState) -> Vec<Leaf<'a>> {
    // SAFETY: by the contract. Core lists the leaves of all nodes of a statement together; their root tells them apart.
    // A leaf that is a target of UPDATE as well stands among the node's own targets.
    unsafe {
        let root = (*node).rootResultRelInfo;
        let mut targets: Vec<*mut pg_sys::ResultRelInfo> =
            nodes((*(*node).ps.state).es_tuple_routing_result_relations)
                .into_iter()
                .map(|target| target.cast())
                .filter(|&target: &*mut pg_sys::ResultRelInfo| {
                    (*target).ri_RootResultRelInfo == root
                })
                .collect();
        if (*node).operation != pg_sys::CmdType::CMD_INSERT {
            targets.extend((0..(*node).mt_nrels as usize).map(|n| (*node).resultRelInfo.add(n)));
        }
        let mut leaves: Vec<Leaf> = targets
            .into_iter()
            .filter(|&target| insert::is_ours(target))
            .filter_map(|target| {
                let insert = &insert::insert_of(target)?.insert;
                Some(Leaf { target, insert })
            })
            .collect();
        leaves.sort_by_key(|leaf| (*(*leaf.target).ri_RelationDesc).rd_id.to_u32());
        leaves
    }
}

/// # Safety
/// `node` is a ModifyTable node of a statement that EXPLAIN shows.
unsafe fn explain_leaves(node: *mut pg_sys::ModifyTableState, out: &Explain) -> Result<()> {
    // SAFETY: by the contract.
    let leaves = unsafe { leaves(node) };
    if leaves.is_empty() {
        return Ok(());
    }
    out.list(c"Foreign Partitions", || {
        for leaf in &leaves {
            let relation = &leaf.insert.target().relation;
            out.relation(
                c"Foreign Partition",
                &relation.schema,
                &relation.name,
                // SAFETY: the leaf belongs to the node.
                || unsafe { explain::explain_target(node, leaf.target, leaf.insert, out) },
            )?;
        }
        Ok(())
    })?;
    if !out.is_analyze() {
        return Ok(());
    }
    out.list(c"Foreign Servers", || {
        for (session, waits) in sessions(&leaves) {
            let name = &session.server().name;
            out.object(c"Foreign Server", c"Server Name", name, || {
                explain::explain_waits(out, waits);
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// The sessions that the leaves have used, with their waits since the first use.
fn sessions(leaves: &[Leaf]) -> Vec<(SessionRef, WaitStats)> {
    let mut sessions: Vec<(SessionRef, WaitStats)> = Vec::new();
    for leaf in leaves {
        let Some(session) = leaf.insert.usage().found() else {
            continue;
        };
        let waits = leaf.insert.usage().waits();
        match sessions
            .iter_mut()
            .find(|(known, _)| Rc::ptr_eq(known, session))
        {
            // The leaf that came first has seen the most.
            Some((_, known)) => {
                known.round_trips = known.round_trips.max(waits.round_trips);
                known.waited = known.waited.max(waits.waited);
            }
            None => sessions.push((session.clone(), waits)),
        }
    }
    sessions.sort_by_key(|(session, _)| session.mapping().oid.to_u32());
    sessions
}
