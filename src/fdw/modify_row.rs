//! UPDATE and DELETE of foreign tables, row by row: what the callbacks of data modification do for these commands.

use crate::fdw::plan::columns_of;
use crate::model::error::{FdwError, Result};
use crate::model::sql::Sql;
use crate::model::statement;
use crate::pg::catalog::{c_string, name_of, nodes};
use crate::pg::list;
use crate::pg::memory::MemoryContext;
use crate::pg::target::Target;
use crate::pg::tuple::Decoder;
use crate::pg::typio::{output, Transmission};
use crate::pg::version;
use crate::write::rowwise::{Outcome, RowPlan, RowWriter};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ptr;

/// State of an UPDATE or DELETE of one foreign table.
pub struct RowModify {
    writer: RowWriter,
    relation: pg_sys::Relation,
    /// Place of the ctid in the rows of the plan below.
    ctid: pg_sys::AttrNumber,
    /// For what output functions leave behind; emptied before each row.
    scratch: MemoryContext,
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
        let triggers = triggers_of(relation);
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
        let returning =
            returned_columns(modify, result_relation, subplan_index, after_row, &target);
        let sql = match is_update {
            true => statement::update_row(&target.remote, &columns, returning.as_deref()),
            false => statement::delete_row(&target.remote, returning.as_deref()),
        };
        let plan = RowPlan {
            relid,
            sql,
            columns: columns
                .into_iter()
                .filter(|&attnum| !target.remote.is_generated(attnum))
                .collect(),
            returning,
        };
        list::encode(&plan.to_items())
    }
}

/// Row triggers that change what has to be sent or returned.
#[derive(Default)]
struct Triggers {
    before_update: bool,
    after_update: bool,
    after_delete: bool,
}

/// # Safety
/// `relation` is open.
unsafe fn triggers_of(relation: pg_sys::Relation) -> Triggers {
    // SAFETY: by the contract.
    let triggers = unsafe { (*relation).trigdesc.as_ref() };
    triggers.map_or_else(Triggers::default, |triggers| Triggers {
        before_update: triggers.trig_update_before_row,
        after_update: triggers.trig_update_after_row,
        after_delete: triggers.trig_delete_after_row,
    })
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
        let estate = (*mtstate).ps.state;
        let relation = (*rinfo).ri_RelationDesc;
        let plan = plan_for(mtstate, relation, fdw_private)?;
        let user = match version::result_check_as_user(rinfo, estate) {
            Oid::INVALID => pg_sys::GetUserId(),
            user => user,
        };
        let subplan = (*(*mtstate).ps.lefttree).plan;
        let ctid = pg_sys::ExecFindJunkAttributeInTlist((*subplan).targetlist, c"ctid".as_ptr());
        if ctid == 0 {
            return Err(FdwError::internal("could not find junk column \"ctid\""));
        }
        let returning = match &plan.returning {
            Some(columns) => {
                let context = (*estate).es_query_cxt;
                Some((
                    Decoder::new(relation, columns, context)?,
                    MemoryContext::child_of(context, c"shard_fdw returned row"),
                ))
            }
            None => None,
        };
        let server = (*pg_sys::GetForeignTable((*relation).rd_id)).serverid;
        Ok(RowModify {
            writer: RowWriter::new(
                plan,
                &name_of(relation),
                server,
                user,
                (*estate).es_output_cid,
                returning,
            ),
            relation,
            ctid,
            scratch: MemoryContext::child_of((*estate).es_query_cxt, c"shard_fdw row"),
        })
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
) -> Result<RowPlan> {
    // SAFETY: by the contract.
    unsafe {
        let modify = (*mtstate).ps.plan.cast::<pg_sys::ModifyTable>();
        let others = nodes((*modify).fdwPrivLists)
            .into_iter()
            .map(|node| node.cast());
        for list in std::iter::once(fdw_private).chain(others) {
            if let Ok(plan) = list::decode(list).and_then(RowPlan::from_items) {
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

/// The remote statement, for EXPLAIN.
///
/// # Safety
/// As for [`begin`].
pub unsafe fn remote_sql(
    mtstate: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    fdw_private: *mut pg_sys::List,
) -> Result<Sql> {
    // SAFETY: by the contract.
    unsafe { plan_for(mtstate, (*rinfo).ri_RelationDesc, fdw_private) }.map(|plan| plan.sql)
}

impl RowModify {
    /// What has been written so far.
    pub fn writer(&self) -> &RowWriter {
        &self.writer
    }
}

/// Writes one row: `slot` holds the new values of an UPDATE, and takes what the shard returns. Null if there was no
/// such row.
///
/// # Safety
/// The slots are those of ExecForeignUpdate or ExecForeignDelete.
pub unsafe fn write(
    state: &mut RowModify,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> Result<*mut pg_sys::TupleTableSlot> {
    // SAFETY: by the contract; the types are those of the slots' columns.
    unsafe {
        let mut is_null = false;
        let ctid = pg_sys::slot_getattr(plan_slot, i32::from(state.ctid), &mut is_null);
        if is_null {
            return Err(FdwError::internal("ctid is NULL"));
        }
        state.scratch.reset();
        let entered = state.scratch.enter();
        let transmission = Transmission::begin();
        let ctid = c_string(&output(pg_sys::TIDOID, ctid))?;
        let descriptor = (*state.relation).rd_att;
        let mut values = Vec::with_capacity(state.writer.columns().len());
        for &attnum in state.writer.columns() {
            let value = pg_sys::slot_getattr(slot, i32::from(attnum), &mut is_null);
            let type_oid = version::tupdesc_attribute(descriptor, attnum as usize - 1).atttypid;
            values.push(match is_null {
                true => None,
                false => Some(c_string(&output(type_oid, value))?),
            });
        }
        drop((transmission, entered));
        Ok(match state.writer.write(ctid, values)? {
            Outcome::Nothing => ptr::null_mut(),
            Outcome::Done => slot,
            Outcome::Returned(tuple) => {
                pg_sys::ExecForceStoreHeapTuple(tuple.as_ptr(), slot, false);
                slot
            }
        })
    }
}
