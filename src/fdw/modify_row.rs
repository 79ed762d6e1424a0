//! UPDATE and DELETE of foreign tables: what the callbacks of data modification do for these commands.

use crate::fdw::bounds;
use crate::fdw::calls;
use crate::fdw::insert::check_options;
use crate::fdw::modify::{check_row_security, refuse_transition_tables, register, ModifyState};
use crate::fdw::plan::{columns_of, identity_of};
use crate::fdw::repeat::may_repeat;
use crate::fdw::row_move::{move_row, Destination, Moved};
use crate::model::error::{FdwError, Result};
use crate::model::option::WriteOptions;
use crate::pg::catalog::nodes;
use crate::pg::list;
use crate::pg::memory::MemoryContext;
use crate::pg::slot::Slot;
use crate::pg::target::Target;
use crate::pg::tuple::Decoder;
use crate::pg::value::Row;
use crate::pg::version;
use crate::write::change::{Change, ChangePlace, ChangePlan};
use crate::write::policy::{self, Circumstances};
use crate::write::rowwise::Outcome;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ptr;

/// State of an UPDATE or DELETE of one foreign table.
pub struct RowModify {
    pub change: Change,
    pub node: *mut pg_sys::ModifyTableState,
    /// Where the rows of the plan below have what identifies a row, from 0.
    junk: Vec<usize>,
    /// Rows could get outside of the partition's bound.
    checks_bounds: bool,
    /// Reads what is returned.
    returning: Option<Decoder>,
    /// For what output functions leave behind; emptied before each row.
    pub scratch: MemoryContext,
}

/// What PlanForeignModify returns for UPDATE and DELETE.
///
/// # Safety
/// The arguments are those of the callback.
pub unsafe fn plan(
    root: *mut pg_sys::PlannerInfo,
    modify: *mut pg_sys::ModifyTable,
    result_relation: pg_sys::Index,
    subplan_index: i32,
) -> Result<*mut pg_sys::List> {
    // SAFETY: by the contract.
    unsafe {
        let entry = *(*root).simple_rte_array.add(result_relation as usize);
        let relid = (*entry).relid;
        let target = Target::of(relid)?;
        let relation = pg_sys::RelationIdGetRelation(relid);
        let triggers = triggers_of((*relation).trigdesc);
        pg_sys::RelationClose(relation);
        let is_update = (*modify).operation == pg_sys::CmdType::CMD_UPDATE;

        let columns = match is_update {
            true => updated_columns(root, result_relation, &target, triggers.before_update)?,
            false => Vec::new(),
        };
        let after_row = match is_update {
            true => triggers.after_update,
            false => triggers.after_delete,
        };
        let plan = ChangePlan {
            relid,
            is_update,
            columns,
            returning: returned_columns(modify, result_relation, subplan_index, after_row, &target),
        };
        list::encode(&plan.to_items())
    }
}

/// Row triggers that change what has to be sent or returned.
#[derive(Default)]
struct Triggers {
    before_update: bool,
    after_update: bool,
    before_delete: bool,
    after_delete: bool,
}

/// # Safety
/// `triggers` is null or valid.
unsafe fn triggers_of(triggers: *mut pg_sys::TriggerDesc) -> Triggers {
    // SAFETY: by the contract.
    let triggers = unsafe { triggers.as_ref() };
    triggers.map_or_else(Triggers::default, |triggers| Triggers {
        before_update: triggers.trig_update_before_row,
        after_update: triggers.trig_update_after_row,
        before_delete: triggers.trig_delete_before_row,
        after_delete: triggers.trig_delete_after_row,
    })
}

/// What of a target decides over batching.
///
/// # Safety
/// Node and target are valid and belong together.
unsafe fn circumstances(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    options: &WriteOptions,
) -> Circumstances {
    // SAFETY: by the contract; lists and trigger descriptions are valid as long as the target.
    unsafe {
        let is_update = (*node).operation == pg_sys::CmdType::CMD_UPDATE;
        let triggers = triggers_of((*target).ri_TrigDesc);
        let (before, after) = match is_update {
            true => (triggers.before_update, triggers.after_update),
            false => (triggers.before_delete, triggers.after_delete),
        };
        Circumstances {
            returning: !(*target).ri_projectReturning.is_null(),
            before_row_triggers: before,
            after_row_triggers: after,
            check_option: check_options(target).contains(&pg_sys::WCOKind::WCO_VIEW_CHECK),
            // The plan says it.
            returns_ctid: false,
            returns_xmin: false,
            policy: policy::policy_reason(options, || calls::called_while_writing(node)),
        }
    }
}

/// Columns that an UPDATE sends: those it changes, or all where a BEFORE ROW trigger may change any.
///
/// # Safety
/// `root` is valid and has this relation.
unsafe fn updated_columns(
    root: *mut pg_sys::PlannerInfo,
    result_relation: pg_sys::Index,
    target: &Target,
    all: bool,
) -> Result<Vec<i16>> {
    // SAFETY: by the contract.
    unsafe {
        let rel = pg_sys::find_base_rel(root, result_relation as _);
        let updated = version::updated_columns(root, rel);
        let is_updated = |attnum: i32| {
            pg_sys::bms_is_member(attnum - pg_sys::FirstLowInvalidHeapAttributeNumber, updated)
        };
        if (pg_sys::FirstLowInvalidHeapAttributeNumber + 1..=0).any(is_updated) {
            return Err(FdwError::internal("system-column update is not supported"));
        }
        Ok(target
            .relation
            .columns
            .iter()
            .map(|column| column.attnum)
            .filter(|&attnum| all || is_updated(i32::from(attnum)))
            .collect())
    }
}

/// Columns that the shard must return: those of RETURNING, and all for AFTER ROW triggers and for check options of
/// views above, whose error shows the row.
///
/// # Safety
/// `modify` is valid and has this subplan.
unsafe fn returned_columns(
    modify: *mut pg_sys::ModifyTable,
    result_relation: pg_sys::Index,
    subplan_index: i32,
    after_row_trigger: bool,
    target: &Target,
) -> Option<Vec<i16>> {
    // SAFETY: by the contract; the lists are empty or have one list for each target.
    unsafe {
        let exprs_of = |lists: *mut pg_sys::List| match lists.is_null() {
            true => ptr::null_mut(),
            false => pg_sys::list_nth(lists, subplan_index),
        };
        let returning = exprs_of((*modify).returningLists);
        let whole_row = after_row_trigger || !exprs_of((*modify).withCheckOptionLists).is_null();
        let mut used = ptr::null_mut();
        pg_sys::pull_varattnos(returning.cast(), result_relation, &mut used);
        if whole_row {
            used = pg_sys::bms_add_member(used, -pg_sys::FirstLowInvalidHeapAttributeNumber);
        }
        let is_needed = whole_row || !returning.is_null();
        is_needed.then(|| columns_of(used, target))
    }
}

/// What BeginForeignModify prepares for UPDATE and DELETE. Does not connect.
///
/// # Safety
/// The arguments are those of the callback, not under EXPLAIN without ANALYZE.
pub unsafe fn begin(
    mtstate: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
) -> Result<RowModify> {
    // SAFETY: by the contract; everything lives as long as the query's memory context.
    unsafe {
        let context = (*(*mtstate).ps.state).es_query_cxt;
        let relation = (*rinfo).ri_RelationDesc;
        let change = change_of(mtstate, rinfo, fdw_private)?;
        let targets = (*(*(*mtstate).ps.lefttree).plan).targetlist;
        let mut junk = Vec::new();
        for column in identity_of(relation)? {
            let number = pg_sys::ExecFindJunkAttributeInTlist(targets, column.name.as_ptr());
            let index = usize::try_from(i32::from(number) - 1)
                .map_err(|_| FdwError::internal("could not find what identifies a row"))?;
            junk.push(index);
        }
        let is_update = (*mtstate).operation == pg_sys::CmdType::CMD_UPDATE;
        let checks_bounds = is_update && bounds::concern_update(rinfo, change.columns());
        let returning = match change.returning() {
            Some(columns) => Some(Decoder::new(relation, columns, context)?),
            None => None,
        };
        Ok(RowModify {
            change,
            node: mtstate,
            junk,
            checks_bounds,
            returning,
            scratch: MemoryContext::child_of(context, c"shard_fdw row"),
        })
    }
}

/// The change that a target's plan asks for. Does not connect.
///
/// # Safety
/// The arguments are those of BeginForeignModify or ExplainForeignModify.
unsafe fn change_of(
    mtstate: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
) -> Result<Change> {
    // SAFETY: by the contract.
    unsafe {
        let estate = (*mtstate).ps.state;
        let plan = plan_for(mtstate, (*rinfo).ri_RelationDesc, fdw_private)?;
        let root = (*rinfo).ri_RootResultRelInfo;
        let root = if root.is_null() { rinfo } else { root };
        let user = match version::result_check_as_user(rinfo, estate) {
            Oid::INVALID => pg_sys::GetUserId(),
            user => user,
        };
        let place = ChangePlace {
            root: (*(*root).ri_RelationDesc).rd_id,
            user,
            command_id: (*estate).es_output_cid,
            can_repeat: may_repeat((*(*mtstate).ps.plan).lefttree),
        };
        Change::new(plan, place)
    }
}

/// The plan of `relation`. Some releases of PostgreSQL 18 pass that of another target after pruning; then it is looked
/// for among all of the node.
///
/// # Safety
/// As for [`begin`].
unsafe fn plan_for(
    mtstate: *mut pg_sys::ModifyTableState,
    relation: pg_sys::Relation,
    fdw_private: *mut pg_sys::List,
) -> Result<ChangePlan> {
    // SAFETY: by the contract.
    unsafe {
        let modify = (*mtstate).ps.plan.cast::<pg_sys::ModifyTable>();
        let others = nodes((*modify).fdwPrivLists)
            .into_iter()
            .map(|node| node.cast());
        for list in std::iter::once(fdw_private).chain(others) {
            if let Ok(plan) = list::decode(list).and_then(ChangePlan::from_items) {
                if plan.relid == (*relation).rd_id {
                    return Ok(plan);
                }
            }
        }
        Err(FdwError::internal(
            "a foreign table is modified without a plan",
        ))
    }
}

/// How rows travel, or would, for EXPLAIN: `explain` gets the change, and what decides over batching.
///
/// # Safety
/// The arguments are those of ExplainForeignModify.
pub unsafe fn preview(
    mtstate: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
    explain: impl FnOnce(&Change, Circumstances) -> Result<()>,
) -> Result<()> {
    // SAFETY: by the contract.
    unsafe {
        let explain =
            |change: &Change| explain(change, circumstances(mtstate, rinfo, change.options()));
        match rows_of(rinfo) {
            Some(state) => explain(&state.change),
            // Without ANALYZE there is no state.
            None => explain(&change_of(mtstate, rinfo, fdw_private)?),
        }
    }
}

/// The state of a target of UPDATE or DELETE, None if it has none (EXPLAIN without ANALYZE).
///
/// # Safety
/// `rinfo` is valid and ours; no other borrow of its row state is alive.
pub unsafe fn rows_of<'a>(rinfo: *mut pg_sys::ResultRelInfo) -> Option<&'a mut RowModify> {
    // SAFETY: by the contract; the state lives as long as the query's memory context, and only this field is borrowed.
    unsafe {
        let state = (*rinfo).ri_FdwState.cast::<ModifyState>();
        if state.is_null() {
            return None;
        }
        (*state).rows.as_mut()
    }
}

/// What has become of a row.
#[derive(Clone, Copy)]
pub enum Written {
    /// What the callback returns. Null if nothing more is to be done for the row: it waits in a buffer, or there was no such
    /// row, or it has moved.
    Slot(*mut pg_sys::TupleTableSlot),
    /// It moves, and is to be stored in a local partition, and counted for the node.
    Here(*mut pg_sys::ModifyTableState, Destination),
}

/// Writes one row: `slot` holds the new values of an UPDATE, and takes what the shard returns.
///
/// # Safety
/// The arguments are those of ExecForeignUpdate or ExecForeignDelete.
pub unsafe fn write(
    estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> Result<Written> {
    // SAFETY: by the contract; the slots keep their rows throughout the call.
    unsafe {
        let state =
            rows_of(rinfo).ok_or_else(|| FdwError::internal("data modification has not begun"))?;
        let node = state.node;
        let is_update = (*node).operation == pg_sys::CmdType::CMD_UPDATE;
        refuse_transition_tables(node, |capture| {
            capture.tcs_update_old_table
                || capture.tcs_update_new_table
                || capture.tcs_delete_old_table
        })?;
        if !state.change.has_started() {
            let circumstances = circumstances(node, rinfo, state.change.options());
            state.change.start(circumstances, &state.junk)?;
        }
        if state.checks_bounds && !bounds::is_inside(rinfo, slot, estate) {
            return match move_row(state, estate, rinfo, slot, plan_slot)? {
                Moved::Refused => Err(bounds::refusal(rinfo, slot, estate)),
                Moved::Done => Ok(Written::Slot(ptr::null_mut())),
                Moved::Here(to) => Ok(Written::Here(node, to)),
            };
        }
        if is_update {
            check_row_security(pg_sys::WCOKind::WCO_RLS_UPDATE_CHECK, rinfo, slot, estate);
        }
        let outcome = {
            state.scratch.reset();
            let _entered = state.scratch.enter();
            let old = Slot::new(plan_slot);
            // The slot of a DELETE has nothing new.
            let new = Slot::new(if is_update { slot } else { plan_slot });
            state.change.write(&Row::of(&old), &Row::of(&new))?
        };
        Ok(Written::Slot(match outcome {
            Outcome::Buffered => {
                register(estate, rinfo, node);
                ptr::null_mut()
            }
            Outcome::Nothing => ptr::null_mut(),
            Outcome::Done => slot,
            Outcome::Returned(answer) => {
                if let Some(decoder) = &mut state.returning {
                    decoder.give_last(&answer, &mut Slot::new(slot))?;
                }
                slot
            }
        }))
    }
}
