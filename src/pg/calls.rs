//! The functions in procedural languages that a plan calls while its rows are being written.
//!
//! What stands below a node that reads all of its input before it returns its first row is over when the first row is
//! written: Sort, the build side of a hash join, hashed and plain Agg. A plain Agg has also evaluated the arguments of its
//! aggregates by then; a hashed one may evaluate some later, for rows that it has written to disk. That holds only where the node is run once, and
//! first: not below something that is run again for each row, and not in a later part of an Append. Everything that does
//! not stand below such a node counts: where this file is in doubt, it says that a function is called.

use crate::pg::catalog::nodes;
use pgrx::pg_sys;
use pgrx::pg_sys::{NodeTag, Oid};
use std::ffi::c_void;

/// The first such function found in a statement's plan.
///
/// # Safety
/// `statement` is valid.
pub unsafe fn called_while_writing(statement: *mut pg_sys::PlannedStmt) -> Option<Oid> {
    // SAFETY: by the contract.
    unsafe {
        let subplans = nodes((*statement).subplans);
        let mut search = Search {
            visited: vec![false; subplans.len()],
            subplans,
        };
        // With a modifying CTE there are several writers, and what is over for one is not for another.
        search.plan((*statement).planTree, !(*statement).hasModifyingCTE)
    }
}

struct Search {
    /// The plans of sublinks and CTEs, by their number less one.
    subplans: Vec<*mut pg_sys::Node>,
    visited: Vec<bool>,
}

/// What the expressions of a node hold.
#[derive(Default)]
struct Found {
    functions: Vec<Oid>,
    /// Numbers of subplans.
    subplans: Vec<i32>,
    /// The arguments of aggregates are evaluated before the node returns its first row.
    without_arguments: bool,
}

impl Search {
    /// `first`: the node is run once, and before anything is written.
    ///
    /// # Safety
    /// `plan` is null or valid.
    unsafe fn plan(&mut self, plan: *mut pg_sys::Plan, first: bool) -> Option<Oid> {
        if plan.is_null() {
            return None;
        }
        // SAFETY: by the contract; each node is read as what its tag says.
        unsafe {
            let is_over = first && finishes_early(plan);
            if let Some(function) = self.expressions(plan, is_over) {
                return Some(function);
            }
            if is_over {
                return None;
            }
            children(plan, first)
                .into_iter()
                .find_map(|(child, first)| self.plan(child, first))
        }
    }

    /// Looks at what a node itself evaluates, and at the subplans that stand there.
    ///
    /// # Safety
    /// `plan` is valid.
    unsafe fn expressions(&mut self, plan: *mut pg_sys::Plan, is_over: bool) -> Option<Oid> {
        // SAFETY: by the contract.
        unsafe {
            let mut found = Found {
                without_arguments: is_over && !is_hashed_agg(plan),
                ..Found::default()
            };
            for expression in expressions_of(plan, is_over) {
                collect(expression, &mut found);
            }
            let procedural = found
                .functions
                .iter()
                .find(|function| is_procedural(**function, is_over));
            if procedural.is_some() {
                return procedural.copied();
            }
            found.subplans.iter().find_map(|number| {
                let index = usize::try_from(number - 1).ok()?;
                let visited = self.visited.get_mut(index)?;
                if std::mem::replace(visited, true) {
                    return None;
                }
                self.plan(self.subplans[index].cast(), false)
            })
        }
    }
}

/// Does the node read all of its input before it returns a row?
///
/// # Safety
/// `plan` is valid.
unsafe fn finishes_early(plan: *mut pg_sys::Plan) -> bool {
    // SAFETY: by the contract.
    unsafe {
        match (*plan).type_ {
            NodeTag::T_Sort | NodeTag::T_Hash => true,
            NodeTag::T_Agg => matches!(
                (*plan.cast::<pg_sys::Agg>()).aggstrategy,
                pg_sys::AggStrategy::AGG_PLAIN | pg_sys::AggStrategy::AGG_HASHED
            ),
            _ => false,
        }
    }
}

/// # Safety
/// `plan` is valid.
unsafe fn is_hashed_agg(plan: *mut pg_sys::Plan) -> bool {
    // SAFETY: by the contract.
    unsafe {
        (*plan).type_ == NodeTag::T_Agg
            && (*plan.cast::<pg_sys::Agg>()).aggstrategy == pg_sys::AggStrategy::AGG_HASHED
    }
}

/// The inputs of a node, each with whether it is run once and before anything is written.
///
/// # Safety
/// `plan` is valid.
unsafe fn children(plan: *mut pg_sys::Plan, first: bool) -> Vec<(*mut pg_sys::Plan, bool)> {
    // SAFETY: by the contract.
    unsafe {
        let (left, right) = ((*plan).lefttree, (*plan).righttree);
        match (*plan).type_ {
            NodeTag::T_Append => {
                let parts = nodes((*plan.cast::<pg_sys::Append>()).appendplans);
                let numbered = parts.into_iter().enumerate();
                numbered
                    .map(|(number, part)| (part.cast(), first && number == 0))
                    .collect()
            }
            NodeTag::T_MergeAppend => all((*plan.cast::<pg_sys::MergeAppend>()).mergeplans, first),
            NodeTag::T_BitmapAnd => all((*plan.cast::<pg_sys::BitmapAnd>()).bitmapplans, first),
            NodeTag::T_BitmapOr => all((*plan.cast::<pg_sys::BitmapOr>()).bitmapplans, first),
            NodeTag::T_SubqueryScan => {
                vec![((*plan.cast::<pg_sys::SubqueryScan>()).subplan, first)]
            }
            NodeTag::T_CustomScan => {
                let mut plans = all((*plan.cast::<pg_sys::CustomScan>()).custom_plans, false);
                plans.extend([(left, false), (right, false)]);
                plans
            }
            NodeTag::T_NestLoop | NodeTag::T_RecursiveUnion => vec![(left, first), (right, false)],
            NodeTag::T_MergeJoin => {
                // A row without a match may be returned before the other side has begun.
                let fills = !matches!(
                    (*plan.cast::<pg_sys::MergeJoin>()).join.jointype,
                    pg_sys::JoinType::JOIN_INNER
                        | pg_sys::JoinType::JOIN_SEMI
                        | pg_sys::JoinType::JOIN_RIGHT
                );
                vec![(left, first), (right, first && !fills)]
            }
            _ => vec![(left, first), (right, first)],
        }
    }
}

/// # Safety
/// `plans` is a list of plans.
unsafe fn all(plans: *mut pg_sys::List, first: bool) -> Vec<(*mut pg_sys::Plan, bool)> {
    // SAFETY: by the contract.
    let plans = unsafe { nodes(plans) };
    plans.into_iter().map(|plan| (plan.cast(), first)).collect()
}

/// What a node evaluates, in the order of its fields. `is_over`: without what it evaluates before it returns a row.
///
/// # Safety
/// `plan` is valid.
unsafe fn expressions_of(plan: *mut pg_sys::Plan, is_over: bool) -> Vec<*mut pg_sys::Node> {
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        let mut found: Vec<*mut pg_sys::Node> = vec![
            (*plan).targetlist.cast(),
            (*plan).qual.cast(),
            (*plan).initPlan.cast(),
        ];
        macro_rules! fields {
            ($node:ident: $($field:ident),+) => {{
                let node = plan.cast::<pg_sys::$node>();
                found.extend([$((*node).$field.cast::<pg_sys::Node>()),+]);
            }};
        }
        match (*plan).type_ {
            NodeTag::T_Result => fields!(Result: resconstantqual),
            NodeTag::T_ModifyTable => {
                fields!(ModifyTable: withCheckOptionLists, returningLists, onConflictSet, onConflictWhere, mergeActionLists);
                #[cfg(any(feature = "pg17", feature = "pg18"))]
                fields!(ModifyTable: mergeJoinConditions);
            }
            NodeTag::T_SampleScan => fields!(SampleScan: tablesample),
            NodeTag::T_IndexScan => {
                fields!(IndexScan: indexqual, indexqualorig, indexorderby, indexorderbyorig);
            }
            NodeTag::T_IndexOnlyScan => {
                fields!(IndexOnlyScan: indexqual, recheckqual, indexorderby)
            }
            NodeTag::T_BitmapIndexScan => fields!(BitmapIndexScan: indexqual, indexqualorig),
            NodeTag::T_BitmapHeapScan => fields!(BitmapHeapScan: bitmapqualorig),
            NodeTag::T_TidScan => fields!(TidScan: tidquals),
            NodeTag::T_TidRangeScan => fields!(TidRangeScan: tidrangequals),
            NodeTag::T_FunctionScan => fields!(FunctionScan: functions),
            NodeTag::T_ValuesScan => fields!(ValuesScan: values_lists),
            NodeTag::T_TableFuncScan => fields!(TableFuncScan: tablefunc),
            NodeTag::T_ForeignScan => {
                fields!(ForeignScan: fdw_exprs, fdw_scan_tlist, fdw_recheck_quals);
            }
            NodeTag::T_CustomScan => fields!(CustomScan: custom_exprs, custom_scan_tlist),
            NodeTag::T_NestLoop => found.push((*plan.cast::<pg_sys::Join>()).joinqual.cast()),
            NodeTag::T_MergeJoin => {
                found.push((*plan.cast::<pg_sys::Join>()).joinqual.cast());
                fields!(MergeJoin: mergeclauses);
            }
            NodeTag::T_HashJoin => {
                found.push((*plan.cast::<pg_sys::Join>()).joinqual.cast());
                fields!(HashJoin: hashclauses, hashkeys);
            }
            NodeTag::T_Hash if !is_over => fields!(Hash: hashkeys),
            NodeTag::T_Memoize => fields!(Memoize: param_exprs),
            NodeTag::T_WindowAgg => {
                fields!(WindowAgg: startOffset, endOffset, runCondition, runConditionOrig);
            }
            NodeTag::T_Limit => fields!(Limit: limitOffset, limitCount),
            _ => {}
        }
        found
    }
}

/// Adds the functions and subplans of an expression, or of a list of them.
///
/// # Safety
/// `node` is null or an expression of a plan.
unsafe fn collect(node: *mut pg_sys::Node, found: &mut Found) {
    let context = std::ptr::from_mut(found).cast::<c_void>();
    // SAFETY: the walk holds plain data only in all of its frames, so that an error may pass over them up to this guard.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| collect_from(node, context));
    }
}

extern "C-unwind" {
    // Not by pgrx's bindings: those would turn an error into a panic in the middle of C's frames.
    #[cfg_attr(not(feature = "pg15"), link_name = "expression_tree_walker_impl")]
    fn expression_tree_walker(
        node: *mut pg_sys::Node,
        walker: unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool,
        context: *mut c_void,
    ) -> bool;
    fn check_functions_in_node(
        node: *mut pg_sys::Node,
        checker: unsafe extern "C-unwind" fn(Oid, *mut c_void) -> bool,
        context: *mut c_void,
    ) -> bool;
}

/// # Safety
/// As for [`collect`]; `context` is a [`Found`].
unsafe extern "C-unwind" fn collect_from(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    if node.is_null() {
        return false;
    }
    // SAFETY: by the contract; nothing here has a destructor that runs.
    unsafe {
        let found = &mut *context.cast::<Found>();
        match (*node).type_ {
            NodeTag::T_SubPlan => found
                .subplans
                .push((*node.cast::<pg_sys::SubPlan>()).plan_id),
            NodeTag::T_Aggref if found.without_arguments => {
                found
                    .functions
                    .push((*node.cast::<pg_sys::Aggref>()).aggfnoid);
                return false;
            }
            _ => {}
        }
        check_functions_in_node(node, add_function, context);
        expression_tree_walker(node, collect_from, context)
    }
}

/// # Safety
/// `context` is a [`Found`].
unsafe extern "C-unwind" fn add_function(function: Oid, context: *mut c_void) -> bool {
    // SAFETY: by the contract.
    unsafe { (*context.cast::<Found>()).functions.push(function) };
    false
}

/// Positions in `pg_aggregate` (`catalog/pg_aggregate.h`) of the functions that an aggregate is made of: aggfinalfn and
/// aggmfinalfn, then aggtransfn, aggcombinefn, aggmtransfn and aggminvtransfn.
const FINAL_FUNCTIONS: [i16; 2] = [5, 11];
const OTHER_FUNCTIONS: [i16; 4] = [4, 6, 9, 10];

/// Is the function neither C nor built in? That includes functions in SQL, which the planner has inlined where it could.
/// An aggregate is what its functions are: `final_only` leaves out those that see single rows.
fn is_procedural(function: Oid, final_only: bool) -> bool {
    // SAFETY: a syscache lookup; the entry is released before anything else happens.
    let (language, kind) = unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::PROCOID as i32,
            pg_sys::Datum::from(function),
        );
        if tuple.is_null() {
            return false;
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let found = ((*form).prolang, (*form).prokind as u8);
        pg_sys::ReleaseSysCache(tuple);
        found
    };
    if kind != pg_sys::PROKIND_AGGREGATE {
        return language != INTERNAL_LANGUAGE && language != C_LANGUAGE;
    }
    let others = match final_only {
        true => &[],
        false => OTHER_FUNCTIONS.as_slice(),
    };
    FINAL_FUNCTIONS.iter().chain(others).any(|position| {
        aggregate_part(function, *position).is_some_and(|part| is_procedural(part, false))
    })
}

/// `INTERNALlanguageId` and `ClanguageId` of `catalog/pg_language.h`.
const INTERNAL_LANGUAGE: Oid = Oid::from_u32(12);
const C_LANGUAGE: Oid = Oid::from_u32(13);

/// One of the functions that an aggregate is made of.
fn aggregate_part(aggregate: Oid, position: i16) -> Option<Oid> {
    // SAFETY: as above; the attribute is a regproc, which is passed by value.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::AGGFNOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(aggregate));
        if tuple.is_null() {
            return None;
        }
        let mut is_null = false;
        let value = pg_sys::SysCacheGetAttr(cache, tuple, position, &mut is_null);
        pg_sys::ReleaseSysCache(tuple);
        let part = Oid::from_u32(value.value() as u32);
        (!is_null && part != Oid::INVALID).then_some(part)
    }
}
