//! May a shard do an UPDATE or DELETE whole? What PlanDirectModify decides, and the statement.
//!
//! Core has ruled out what needs each row here: row triggers of the table, stored generated columns, check options of
//! views and, in its later releases, transition tables. The rest is for us: that every part of the statement means the
//! same on the shard, and that nothing which happens here meanwhile could be told from what a scan would show.

use crate::fdw::direct::plan_direct_modify;
use crate::fdw::inside::{self, Assignment};
use crate::fdw::modify::is_row_by_row;
use crate::fdw::plan::{self, columns_of, Base};
use crate::model::adjust::Places;
use crate::model::error::{FdwError, Result};
use crate::model::expr::Expr;
use crate::model::sql::Sql;
use crate::model::statement;
use crate::pg::catalog::nodes;
use crate::pg::expr::Converter;
use crate::pg::list;
use crate::pg::version;
use crate::read::assign::is_computed;
use crate::read::deparse::Printer;
use crate::read::plan::{LocaleReason, ScanPlan};
use crate::write::assigned::depends_on_type;
use crate::write::direct::DirectPlan;
use pgrx::pg_sys;
use pgrx::pg_sys::{CmdType, Index, List, Node, NodeTag, Oid};
use std::ptr;

/// Turns the scan of the target into the statement if that may be. False: it is left as it is.
///
/// # Safety
/// The arguments are those of the callback.
pub unsafe fn plan(
    root: *mut pg_sys::PlannerInfo,
    modify: *mut pg_sys::ModifyTable,
    target: Index,
    position: i32,
) -> Result<bool> {
    // SAFETY: by the contract; the planner's structs are valid throughout the call.
    unsafe {
        if !is_row_by_row((*modify).operation) {
            return Ok(false);
        }
        let scans = scans(modify)?;
        let Some(scan) = scan_of(&scans, target, position) else {
            return Ok(false);
        };
        let rel = *(*root).simple_rel_array.add(target as usize);
        let base = plan::base(rel)?;
        let mut parts = Parts {
            base,
            converter: Converter::new(target, base.policy.has_extensions()),
            known: known_params(root),
        };
        let Some(conditions) = parts.conditions(rel) else {
            return Ok(false);
        };
        let assignments = match (*modify).operation {
            CmdType::CMD_UPDATE => assignments(root, target)?,
            _ => Vec::new(),
        };
        let relid = (**(*root).simple_rte_array.add(target as usize)).relid;
        if !stays_inside(relid, target, &assignments) {
            return Ok(false);
        }
        let Some(values) = parts.values(&assignments) else {
            note_reason(scan, base.policy.locale_reason())?;
            return Ok(false);
        };
        let returning = returning_of(modify, position);
        // What holds for one target of a statement holds for all.
        let is_known = scans.iter().rev().any(|&scan| is_direct(root, scan));
        if !is_known && !is_alone(root, modify, target, returning) {
            return Ok(false);
        }
        let mut used = ptr::null_mut();
        pg_sys::pull_varattnos(returning.cast(), target, &mut used);
        let returning = (!returning.is_null()).then(|| columns_of(used, &base.target));

        let remote = &base.target.remote;
        let new_values = values.iter().map(|(_, value)| value);
        let locale = base.policy.relied_on(conditions.iter().chain(new_values));
        let mut printer = Printer::new(remote);
        let set: Vec<(i16, Sql, bool)> = values
            .iter()
            .map(|(attnum, value)| {
                let may_change = is_computed(value) && depends_on_type(Oid::from(value.result.oid));
                (*attnum, printer.assigned(value), may_change)
            })
            .collect();
        let conditions: Vec<Sql> = conditions
            .iter()
            .map(|condition| printer.condition(condition))
            .collect();
        let (sql, places) = match (*modify).operation {
            CmdType::CMD_UPDATE => {
                statement::update(remote, &set, &conditions, returning.as_deref())
            }
            _ => (
                statement::delete(remote, &conditions, returning.as_deref()),
                Places::default(),
            ),
        };
        let plan = DirectPlan {
            sql,
            places,
            returning,
            can_set_tag: (*modify).canSetTag,
            locale,
        };
        let mut params = ptr::null_mut();
        for given in printer.into_params() {
            let param = parts.converter.given(&given)?;
            params = pg_sys::lappend(params, pg_sys::copyObjectImpl(param.cast()));
        }
        (*scan).operation = (*modify).operation;
        (*scan).resultRelation = target;
        (*scan).fdw_exprs = params;
        (*scan).fdw_private = list::encode(&plan.to_items())?;
        (*scan).scan.plan.qual = ptr::null_mut();
        empty_targets((*scan).scan.plan.targetlist);
        Ok(true)
    }
}

/// Has EXPLAIN say with the scan why new values are computed here.
///
/// # Safety
/// `scan` is a foreign scan of ours that only reads.
unsafe fn note_reason(scan: *mut pg_sys::ForeignScan, reason: Option<LocaleReason>) -> Result<()> {
    if reason.is_some() {
        // SAFETY: by the contract.
        unsafe {
            let mut plan = ScanPlan::from_items(list::decode((*scan).fdw_private)?)?;
            plan.locale_reason = reason;
            (*scan).fdw_private = list::encode(&plan.to_items())?;
        }
    }
    Ok(())
}

/// What of the statement goes to the shard.
struct Parts<'a> {
    base: &'a Base,
    converter: Converter,
    /// Parameters of the running plan whose value is there before the statement is sent.
    known: Vec<i32>,
}

impl Parts<'_> {
    /// # Safety
    /// `node` is a valid expression of the statement.
    unsafe fn part(&mut self, node: *mut Node) -> Option<Expr> {
        // SAFETY: by the contract; a parameter of the running plan is a Param.
        unsafe {
            let expr = self.converter.convert(node)?;
            let is_known = |index| {
                self.converter.param(index).is_some_and(|param| {
                    self.known
                        .contains(&(*param.cast::<pg_sys::Param>()).paramid)
                })
            };
            self.base
                .policy
                .allows_whole(&expr, &is_known)
                .then_some(expr)
        }
    }

    /// All conditions on the rows, None if one has to be judged here.
    ///
    /// # Safety
    /// `rel` is the target.
    unsafe fn conditions(&mut self, rel: *mut pg_sys::RelOptInfo) -> Option<Vec<Expr>> {
        // SAFETY: by the contract.
        unsafe {
            nodes((*rel).baserestrictinfo)
                .into_iter()
                .map(|node| {
                    let clause = node.cast::<pg_sys::RestrictInfo>();
                    // Core puts a pseudoconstant condition above the scan, which then is not the one looked for.
                    if (*clause).pseudoconstant || !plan::is_leak_safe(clause, rel) {
                        return None;
                    }
                    self.part((*clause).clause.cast())
                })
                .collect()
        }
    }

    /// The new values, None if one has to be computed here.
    ///
    /// # Safety
    /// The expressions are valid.
    unsafe fn values(&mut self, assignments: &[Assignment]) -> Option<Vec<(i16, Expr)>> {
        assignments
            .iter()
            // SAFETY: by the contract.
            .map(|&(attnum, value)| Some((attnum, unsafe { self.part(value) }?)))
            .collect()
    }
}

/// The plans, one for each target, if nothing but an Append stands between them and the node that writes.
///
/// # Safety
/// As for [`plan()`].
unsafe fn scans(modify: *mut pg_sys::ModifyTable) -> Result<Vec<*mut pg_sys::Plan>> {
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        let mut plan = (*modify).plan.lefttree;
        // It computes the new values from the rows of all targets. Returned rows are not for it.
        if (*plan).type_ == NodeTag::T_Result
            && !(*plan).lefttree.is_null()
            && (*(*plan).lefttree).type_ == NodeTag::T_Append
            && (*modify).returningLists.is_null()
        {
            plan = (*plan).lefttree;
        }
        if (*plan).type_ != NodeTag::T_Append {
            return Ok(vec![plan]);
        }
        let append = plan.cast::<pg_sys::Append>();
        if version::confuses_targets(append)? {
            return Ok(Vec::new());
        }
        let children = nodes((*append).appendplans);
        Ok(children.into_iter().map(|child| child.cast()).collect())
    }
}

/// The scan of the target. Core keeps the order of the targets.
///
/// # Safety
/// The plans are those of [`scans`].
unsafe fn scan_of(
    scans: &[*mut pg_sys::Plan],
    target: Index,
    position: i32,
) -> Option<*mut pg_sys::ForeignScan> {
    let plan = *scans.get(position as usize)?;
    // SAFETY: by the contract; the tag says which struct it is.
    unsafe {
        let scan = plan.cast::<pg_sys::ForeignScan>();
        let is_target = (*plan).type_ == NodeTag::T_ForeignScan && (*scan).scan.scanrelid == target;
        is_target.then_some(scan)
    }
}

/// Has [`plan()`] turned this one into a statement?
///
/// # Safety
/// Both are valid and belong together.
unsafe fn is_direct(root: *mut pg_sys::PlannerInfo, plan: *mut pg_sys::Plan) -> bool {
    // SAFETY: by the contract; the tag says which struct it is, and a target has been planned.
    unsafe {
        let scan = plan.cast::<pg_sys::ForeignScan>();
        if (*plan).type_ != NodeTag::T_ForeignScan || (*scan).operation == CmdType::CMD_SELECT {
            return false;
        }
        let rel = *(*root)
            .simple_rel_array
            .add((*scan).resultRelation as usize);
        (*(*rel).fdwroutine)
            .PlanDirectModify
            .is_some_and(|callback| {
                ptr::fn_addr_eq(
                    callback,
                    plan_direct_modify as unsafe extern "C-unwind" fn(_, _, _, _) -> _,
                )
            })
    }
}

/// Is there nothing else in the statement that could change rows of the target before the shard gets it, or look at
/// single rows meanwhile? A scan would have its snapshot by then; a statement that the shard does whole sees all that was
/// written before.
///
/// # Safety
/// As for [`plan()`].
unsafe fn is_alone(
    root: *mut pg_sys::PlannerInfo,
    modify: *mut pg_sys::ModifyTable,
    target: Index,
    returning: *mut List,
) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let mut top = root;
        while !(*top).parent_root.is_null() {
            top = (*top).parent_root;
        }
        if (*(*top).parse).hasModifyingCTE {
            return false;
        }
        let named = match (*modify).rootRelation {
            0 => target,
            named => named,
        };
        let entry = |index: Index| *(*root).simple_rte_array.add(index as usize);
        let triggers = Triggers::of((*entry(named)).relid, (*modify).operation);
        if triggers.before_statement || triggers.transition_tables {
            return false;
        }
        // Functions in conditions and new values are known not to be volatile.
        if contains_volatile(returning.cast()) {
            return false;
        }
        if nodes((*(*root).glob).subroots)
            .into_iter()
            .any(|subroot| contains_volatile((*subroot.cast::<pg_sys::PlannerInfo>()).parse.cast()))
        {
            return false;
        }
        let targets = (*modify).resultRelations;
        if pg_sys::list_length(targets) == 1 {
            return true;
        }
        // Rows may move into this table.
        if (*modify).partColsUpdated {
            return false;
        }
        (0..pg_sys::list_length(targets)).all(|position| {
            let other = pg_sys::list_nth_int(targets, position) as Index;
            !Triggers::of((*entry(other)).relid, (*modify).operation).before_row
        })
    }
}

/// Triggers of a table for an event.
struct Triggers {
    before_statement: bool,
    before_row: bool,
    transition_tables: bool,
}

impl Triggers {
    /// # Safety
    /// The table is locked.
    unsafe fn of(relid: Oid, operation: CmdType::Type) -> Triggers {
        // SAFETY: by the contract; nothing in between can raise.
        unsafe {
            let relation = pg_sys::RelationIdGetRelation(relid);
            let none = Triggers {
                before_statement: false,
                before_row: false,
                transition_tables: false,
            };
            let found = (*relation).trigdesc.as_ref().map_or(none, |triggers| {
                match operation == CmdType::CMD_UPDATE {
                    true => Triggers {
                        before_statement: triggers.trig_update_before_statement,
                        before_row: triggers.trig_update_before_row,
                        transition_tables: triggers.trig_update_old_table
                            || triggers.trig_update_new_table,
                    },
                    false => Triggers {
                        before_statement: triggers.trig_delete_before_statement,
                        before_row: triggers.trig_delete_before_row,
                        transition_tables: triggers.trig_delete_old_table,
                    },
                }
            });
            pg_sys::RelationClose(relation);
            found
        }
    }
}

/// # Safety
/// `node` is null or a valid expression, list or query.
unsafe fn contains_volatile(node: *mut Node) -> bool {
    // SAFETY: by the contract.
    unsafe { pg_sys::contain_volatile_functions(node) }
}

/// Parameters that subqueries set which are run once, before anything needs them.
///
/// # Safety
/// `root` is valid.
unsafe fn known_params(root: *mut pg_sys::PlannerInfo) -> Vec<i32> {
    // SAFETY: by the contract; the list has SubPlans, each with a list of numbers.
    unsafe {
        nodes((*root).init_plans)
            .into_iter()
            .flat_map(|node| {
                let params = (*node.cast::<pg_sys::SubPlan>()).setParam;
                (0..pg_sys::list_length(params)).map(move |n| pg_sys::list_nth_int(params, n))
            })
            .collect()
    }
}

/// The columns that an UPDATE names, with the expressions for their new values.
///
/// # Safety
/// `root` is valid and has this target.
unsafe fn assignments(root: *mut pg_sys::PlannerInfo, target: Index) -> Result<Vec<Assignment>> {
    // SAFETY: by the contract; the list of columns is as long as the part of the other that matters.
    unsafe {
        let (mut entries, mut attnums): (*mut List, *mut List) = (ptr::null_mut(), ptr::null_mut());
        pg_sys::get_translated_update_targetlist(root, target, &mut entries, &mut attnums);
        (0..pg_sys::list_length(attnums))
            .zip(nodes(entries))
            .map(|(position, entry)| {
                let attnum = pg_sys::list_nth_int(attnums, position);
                let attnum = i16::try_from(attnum).ok().filter(|attnum| *attnum > 0);
                let attnum = attnum
                    .ok_or_else(|| FdwError::internal("system-column update is not supported"))?;
                let value = (*entry.cast::<pg_sys::TargetEntry>()).expr.cast();
                Ok((attnum, value))
            })
            .collect()
    }
}

/// # Safety
/// The table is locked; the expressions are valid.
unsafe fn stays_inside(relid: Oid, target: Index, assignments: &[Assignment]) -> bool {
    // SAFETY: by the contract; an error leaves the relation to the resource owner.
    unsafe {
        let relation = pg_sys::RelationIdGetRelation(relid);
        let stays = inside::stays_inside(relation, target, assignments);
        pg_sys::RelationClose(relation);
        stays
    }
}

/// The RETURNING list of a target, null without one.
///
/// # Safety
/// As for [`plan()`].
unsafe fn returning_of(modify: *mut pg_sys::ModifyTable, position: i32) -> *mut List {
    // SAFETY: by the contract; the list is empty or has one list for each target.
    unsafe {
        match (*modify).returningLists.is_null() {
            true => ptr::null_mut(),
            false => pg_sys::list_nth((*modify).returningLists, position).cast(),
        }
    }
}

/// Makes the columns of the scan NULL, but for the table's OID, by which core finds the target of a returned row. They
/// were for computing new values, and would now be computed from the new row, which may be an error.
///
/// # Safety
/// `entries` is a target list of nobody else.
unsafe fn empty_targets(entries: *mut List) {
    // SAFETY: by the contract.
    unsafe {
        for node in nodes(entries) {
            let entry = node.cast::<pg_sys::TargetEntry>();
            if is_table_oid((*entry).expr.cast()) {
                continue;
            }
            let expr = (*entry).expr.cast::<Node>();
            let null = pg_sys::makeNullConst(
                pg_sys::exprType(expr),
                pg_sys::exprTypmod(expr),
                pg_sys::exprCollation(expr),
            );
            (*entry).expr = null.cast();
        }
    }
}

/// # Safety
/// `node` is a valid expression.
unsafe fn is_table_oid(node: *mut Node) -> bool {
    // SAFETY: by the contract; the tag says which struct it is.
    unsafe {
        (*node).type_ == NodeTag::T_Var
            && i32::from((*node.cast::<pg_sys::Var>()).varattno) == pg_sys::TableOidAttributeNumber
    }
}
