//! Does an UPDATE leave rows inside the bounds of their partition, whatever rows they are?

use crate::pg::catalog::nodes;
use crate::pg::version;
use pgrx::pg_sys;
use pgrx::pg_sys::{Node, NodeTag};
use std::ptr;

/// A column and the expression for its new value.
pub type Assignment = (i16, *mut Node);

/// Is it certain that every row of `relation` is inside the bounds of that partition, and of those above it, once the
/// columns have their new values? True for a table that is no partition.
///
/// Rows are inside before, so conditions on other columns hold. The rest must be true by what can be computed now.
///
/// # Safety
/// `relation` is open, `relid` its range table index in the expressions, which are valid and have no subqueries.
pub unsafe fn stays_inside(
    relation: pg_sys::Relation,
    relid: pg_sys::Index,
    assignments: &[Assignment],
) -> bool {
    // SAFETY: by the contract; all nodes made here are valid.
    unsafe {
        let mut targets = ptr::null_mut();
        for &(attnum, value) in assignments {
            if !is_column(value, relid, attnum) {
                let target = pg_sys::makeTargetEntry(value.cast(), attnum, ptr::null_mut(), false);
                targets = pg_sys::lappend(targets, target.cast());
            }
        }
        if targets.is_null() {
            return true;
        }
        let changes: Vec<i16> = nodes(targets)
            .into_iter()
            .map(|target| (*target.cast::<pg_sys::TargetEntry>()).resno)
            .collect();
        nodes(version::partition_qual(relation))
            .into_iter()
            .all(|condition| match concerns(condition, &changes) {
                Concern::None => true,
                Concern::Columns => is_true(pg_sys::eval_const_expressions(
                    ptr::null_mut(),
                    version::replace_columns(condition, targets),
                )),
                Concern::WholeRow => false,
            })
    }
}

enum Concern {
    None,
    Columns,
    WholeRow,
}

/// # Safety
/// `condition` is one of a partition.
unsafe fn concerns(condition: *mut Node, changes: &[i16]) -> Concern {
    // SAFETY: by the contract.
    unsafe {
        let mut used = ptr::null_mut();
        pg_sys::pull_varattnos(condition, 1, &mut used);
        let uses = |attnum: i16| {
            let member = i32::from(attnum) - pg_sys::FirstLowInvalidHeapAttributeNumber;
            pg_sys::bms_is_member(member, used)
        };
        if uses(0) {
            Concern::WholeRow
        } else if changes.iter().any(|&attnum| uses(attnum)) {
            Concern::Columns
        } else {
            Concern::None
        }
    }
}

/// # Safety
/// `node` is a valid expression.
unsafe fn is_column(node: *mut Node, relid: pg_sys::Index, attnum: i16) -> bool {
    // SAFETY: by the contract; the tag says which struct it is.
    unsafe {
        let var = node.cast::<pg_sys::Var>();
        (*node).type_ == NodeTag::T_Var
            && i64::from((*var).varno) == i64::from(relid)
            && (*var).varattno == attnum
            && (*var).varlevelsup == 0
    }
}

/// # Safety
/// `node` is a valid expression.
unsafe fn is_true(node: *mut Node) -> bool {
    // SAFETY: by the contract; the tag says which struct it is.
    unsafe {
        let constant = node.cast::<pg_sys::Const>();
        (*node).type_ == NodeTag::T_Const
            && !(*constant).constisnull
            && (*constant).consttype == pg_sys::BOOLOID
            && (*constant).constvalue.value() != 0
    }
}
