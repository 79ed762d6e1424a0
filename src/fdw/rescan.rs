//! Can a plan node be run more than once in one execution?

use crate::pg::catalog::nodes;
use pgrx::pg_sys;
use pgrx::pg_sys::{NodeTag, Plan};

/// May the executor restart `node`? No, if all nodes from a root of the plan down to it run their children once.
///
/// # Safety
/// `statement` is valid and contains `node`.
pub unsafe fn may_rescan(statement: *mut pg_sys::PlannedStmt, node: *mut Plan) -> bool {
    // SAFETY: by the contract; subplans is a list of plans, with null for those that are unused.
    unsafe {
        let data_modifying = nodes((*statement).subplans)
            .into_iter()
            .map(|plan| plan.cast::<Plan>())
            .filter(|&plan| !plan.is_null() && (*plan).type_ == NodeTag::T_ModifyTable);
        let mut roots = data_modifying.chain([(*statement).planTree]);
        !roots.any(|root| runs_once(root, node))
    }
}

/// Is `node` below `plan`, by ways that are taken once?
///
/// # Safety
/// `plan` is null or valid.
unsafe fn runs_once(plan: *mut Plan, node: *mut Plan) -> bool {
    if plan.is_null() {
        return false;
    }
    if plan == node {
        return true;
    }
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        let below = |list| {
            nodes(list)
                .into_iter()
                .any(|child| runs_once(child.cast(), node))
        };
        match (*plan).type_ {
            NodeTag::T_Append => below((*plan.cast::<pg_sys::Append>()).appendplans),
            NodeTag::T_MergeAppend => below((*plan.cast::<pg_sys::MergeAppend>()).mergeplans),
            NodeTag::T_SubqueryScan => {
                runs_once((*plan.cast::<pg_sys::SubqueryScan>()).subplan, node)
            }
            NodeTag::T_NestLoop => runs_once((*plan).lefttree, node),
            NodeTag::T_RecursiveUnion => false,
            _ => runs_once((*plan).lefttree, node) || runs_once((*plan).righttree, node),
        }
    }
}
