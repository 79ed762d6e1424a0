//! INSERT and COPY: what the callbacks of data modification do for them, and those of routing.

use crate::fdw::bounds;
use crate::fdw::calls;
use crate::fdw::modify::{
    check_row_security, refuse_transition_tables, register, state_of, ModifyState,
};
use crate::fdw::modify_row::rows_of;
use crate::fdw::system_columns;
use crate::model::error::{FdwError, Result};
use crate::model::option::{OnConflict, WriteOptions};
use crate::model::table::{CTID, XMIN};
use crate::pg::memory::MemoryContext;
use crate::pg::raise::guarded;
use crate::pg::slot::Slot;
use crate::pg::tuple::Decoder;
use crate::pg::value::Row;
use crate::pg::{pending, version, xact};
use crate::pq::PgResult;
use crate::remote::session::{drain_all, SessionRef};
use crate::remote::stats::FlushCause;
use crate::write::insert::{Accepted, Counting, Insert, Place};
use crate::write::policy::{self, Circumstances, SingleReason};
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;
use std::ptr;
use std::rc::Rc;

/// Does PostgreSQL count what a batch of COPY has stored (16 and later)?
const COPY_COUNTS_BATCHES: bool = !cfg!(feature = "pg15");

/// A target of INSERT, COPY, or routing.
pub struct InsertTarget {
    pub insert: Insert,
    node: *mut pg_sys::ModifyTableState,
    /// Turns returned rows into tuples.
    decoder: Option<Decoder>,
    /// Rows could be outside of the partition's bound.
    checks_bounds: bool,
    /// Rows move here from other partitions: all of their columns are sent.
    takes_moved: bool,
    /// COPY into a relation whose shard may store fewer rows than it is given.
    uncounted: bool,
}

/// The insert state of a target, None if it has none (EXPLAIN without ANALYZE).
///
/// # Safety
/// `target` is valid and ours; no other borrow of its insert state is alive.
pub unsafe fn insert_of<'a>(target: *mut pg_sys::ResultRelInfo) -> Option<&'a mut InsertTarget> {
    // SAFETY: by the contract; only this field of the state is borrowed.
    unsafe {
        let state = (*target).ri_FdwState.cast::<ModifyState>();
        if state.is_null() {
            return None;
        }
        (*state).insert.as_mut()
    }
}

fn not_begun() -> FdwError {
    FdwError::internal("a row came for a target that has not begun")
}

/// Where and for whom a target's rows are inserted.
///
/// # Safety
/// Node and target are valid and belong together.
pub unsafe fn place_of(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
) -> Place {
    // SAFETY: by the contract; the root of a routed leaf is not taken from the node, where it can be missing.
    unsafe {
        let estate = (*node).ps.state;
        let plan = (*node).ps.plan.cast::<pg_sys::ModifyTable>();
        let is_statement = !plan.is_null() && (*plan).plan.type_ == pg_sys::NodeTag::T_ModifyTable;
        let relation = (*target).ri_RelationDesc;
        let root = (*target).ri_RootResultRelInfo;
        let root = if root.is_null() { target } else { root };
        let user = match version::result_check_as_user(target, estate) {
            Oid::INVALID => pg_sys::GetUserId(),
            user => user,
        };
        let ignore_conflicts = is_statement
            && (*plan).onConflictAction == pg_sys::OnConflictAction::ONCONFLICT_NOTHING;
        Place {
            relid: (*relation).rd_id,
            root: (*(*root).ri_RelationDesc).rd_id,
            user,
            command_id: if is_statement {
                (*estate).es_output_cid
            } else {
                xact::current_command_id()
            },
            counting: if is_statement {
                Counting::AtFlush
            } else {
                Counting::AtOnce
            },
            is_insert: (*node).operation == pg_sys::CmdType::CMD_INSERT,
            ignore_conflicts,
        }
    }
}

/// Makes the insert state of a target. Neither connects nor asks the shard anything.
///
/// # Safety
/// Node and target are valid and belong together.
pub unsafe fn begin(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
) -> Result<()> {
    // SAFETY: by the contract.
    unsafe {
        let estate = (*node).ps.state;
        let insert = Insert::new(place_of(node, target))?;
        state_of(target, estate).insert = Some(InsertTarget {
            insert,
            node,
            decoder: None,
            checks_bounds: bounds::concern_insert(target),
            takes_moved: false,
            uncounted: false,
        });
        Ok(())
    }
}

/// # Safety
/// To be called by core.
pub unsafe extern "C-unwind" fn begin_foreign_insert(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
) {
    // SAFETY: this frame holds no destructors; the executor's structs are valid throughout the call.
    unsafe {
        guarded(|| {
            begin(node, target)?;
            let state = insert_of(target).ok_or_else(not_begun)?;
            if state.insert.counting() == Counting::AtOnce {
                state.uncounted = state.insert.shard_may_drop_rows()?;
            }
            Ok(())
        })
    }
}

/// What of a target decides over batching.
///
/// # Safety
/// Both are valid and belong together.
pub unsafe fn circumstances(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    options: &WriteOptions,
) -> Circumstances {
    // SAFETY: by the contract; lists and trigger descriptions are valid as long as the target.
    unsafe {
        let triggers = (*target).ri_TrigDesc.as_ref();
        let returned = system_columns::returned(node);
        Circumstances {
            returns_ctid: returned.contains(&CTID),
            returns_xmin: returned.contains(&XMIN),
            returning: !(*target).ri_projectReturning.is_null(),
            before_row_triggers: triggers.is_some_and(|triggers| {
                triggers.trig_insert_before_row || triggers.trig_insert_instead_row
            }),
            after_row_triggers: triggers.is_some_and(|triggers| triggers.trig_insert_after_row),
            check_option: check_options(target).contains(&pg_sys::WCOKind::WCO_VIEW_CHECK),
            policy: policy::policy_reason(options, || calls::called_while_writing(node)),
        }
    }
}

/// Kinds of the checks that a view, or row security of a partitioned parent, asks for.
///
/// # Safety
/// `target` is valid.
pub unsafe fn check_options(target: *mut pg_sys::ResultRelInfo) -> Vec<pg_sys::WCOKind::Type> {
    // SAFETY: by the contract; the list holds WithCheckOption nodes.
    unsafe {
        let options = (*target).ri_WithCheckOptions;
        (0..pg_sys::list_length(options))
            .map(|position| {
                let option = pg_sys::list_nth(options, position).cast::<pg_sys::WithCheckOption>();
                (*option).kind
            })
            .collect()
    }
}

/// Does a row come from another partition, by an UPDATE or by the UPDATE of a MERGE? A MERGE inserts rows only that match
/// nothing, so that the row of its plan has no place of a target.
///
/// # Safety
/// The node is valid, and `plan_slot` holds the row of the plan below it that the row was made of.
unsafe fn is_moved(
    node: *mut pg_sys::ModifyTableState,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: by the contract; a MERGE has a target, and its plan a column that identifies the target's rows.
    unsafe {
        match (*node).operation {
            pg_sys::CmdType::CMD_UPDATE => true,
            pg_sys::CmdType::CMD_MERGE => {
                let place = match (*node).mt_resultOidAttno {
                    0 => i32::from((*(*node).resultRelInfo).ri_RowIdAttNo),
                    table => table,
                };
                let index = usize::try_from(place - 1);
                index.is_ok_and(|index| !Row::of(&Slot::new(plan_slot)).is_null(index))
            }
            _ => false,
        }
    }
}

/// Whether the statement names a column, by its number. Of a row that moves `all` columns go.
///
/// # Safety
/// Both are valid and belong together.
pub unsafe fn named_columns(
    node: *mut pg_sys::ModifyTableState,
    target: *mut pg_sys::ResultRelInfo,
    all: bool,
) -> impl Fn(i16) -> bool {
    move |attnum| {
        let member = i32::from(attnum) - pg_sys::FirstLowInvalidHeapAttributeNumber;
        // SAFETY: by the contract; the set lives as long as the plan.
        unsafe {
            all || pg_sys::bms_is_member(
                member,
                pg_sys::ExecGetInsertedCols(target, (*node).ps.state),
            )
        }
    }
}

/// Decides how rows travel, at the first of them: before that RETURNING and check options may not be known.
///
/// # Safety
/// All are valid and belong together.
unsafe fn start(
    state: &mut InsertTarget,
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    is_moved: bool,
    forced: Option<SingleReason>,
) -> Result<()> {
    // SAFETY: by the contract.
    unsafe {
        let options = &state.insert.target().options.write;
        let circumstances = circumstances(state.node, target, options);
        system_columns::check_returned(state.node, &state.insert.target().relation)?;
        let is_named = named_columns(state.node, target, is_moved);
        state.takes_moved = is_moved;
        state.insert.start(circumstances, is_named, forced)?;
        if state.insert.wants_stored_row() {
            let columns = circumstances.stored_columns(&state.insert.target().relation);
            let context = (*estate).es_query_cxt;
            let decoder = Decoder::new((*target).ri_RelationDesc, &columns, context)?;
            state.decoder = Some(decoder);
        }
        Ok(())
    }
}

/// The check that row security of a partitioned parent asks for.
fn row_security_check(is_moved: bool) -> pg_sys::WCOKind::Type {
    match is_moved {
        true => pg_sys::WCOKind::WCO_RLS_UPDATE_CHECK,
        false => pg_sys::WCOKind::WCO_RLS_INSERT_CHECK,
    }
}

/// A MERGE may insert some rows and move others into the same table. Both have the same columns, except where the shard
/// fills those that the INSERT does not name.
fn check_columns(state: &InsertTarget, is_moved: bool) -> Result<()> {
    let target = state.insert.target();
    if is_moved == state.takes_moved || target.remote_default.is_empty() {
        return Ok(());
    }
    Err(FdwError::unsupported(format!(
        "cannot insert rows and move rows into foreign table \"{}\" in one MERGE",
        target.relation.display_name()
    ))
    .with_detail("The foreign table has columns with the option \"remote_default\"."))
}

/// # Safety
/// To be called by core, after BeginForeignModify or BeginForeignInsert.
pub unsafe extern "C-unwind" fn exec_foreign_insert(
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: this frame holds no destructors; the executor's structs are valid throughout the call.
    unsafe { guarded(|| take(estate, target, slot, plan_slot)) }
}

/// Takes a row over for a target. Null: it waits in a buffer, or the shard dropped it.
///
/// # Safety
/// All are valid and belong together, the slot holds a row of the target, `plan_slot` the row of the plan that it was made of
/// (null under COPY), and no borrow of the target's state is alive.
pub unsafe fn take(
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> Result<*mut pg_sys::TupleTableSlot> {
    // SAFETY: by the contract.
    unsafe {
        let state = insert_of(target).ok_or_else(not_begun)?;
        let node = state.node;
        refuse_transition_tables(node, captures_new_rows)?;
        let is_moved = is_moved(node, plan_slot);
        check_row_security(row_security_check(is_moved), target, slot, estate);
        if state.checks_bounds && !bounds::is_inside(target, slot, estate) {
            return Err(bounds::refusal(target, slot, estate));
        }
        if !state.insert.has_started() {
            let forced = state.uncounted.then_some(SingleReason::UncountedCopy);
            start(state, estate, target, is_moved, forced)?;
        }
        check_columns(state, is_moved)?;
        // Rows that the statement has changed here go before those that move in afterwards.
        if let Some(rows) = rows_of(target) {
            rows.change.flush(FlushCause::Barrier)?;
        }
        match append(state, estate, slot)? {
            Accepted::Buffered if state.insert.counts_at_once() => Ok(slot),
            Accepted::Buffered => {
                register(estate, target, node);
                Ok(ptr::null_mut())
            }
            Accepted::Answered(answer) => store_answer(state, &answer, slot),
        }
    }
}

/// Hands a row over, with the garbage of its conversion in memory that is reset for each row.
///
/// # Safety
/// The slot holds a row of the state's relation.
unsafe fn append(
    state: &mut InsertTarget,
    estate: *mut pg_sys::EState,
    slot: *mut pg_sys::TupleTableSlot,
) -> Result<Accepted> {
    // SAFETY: by the contract; the per-tuple context is made here if there is none, as GetPerTupleExprContext does.
    unsafe {
        let mut context = (*estate).es_per_tuple_exprcontext;
        if context.is_null() {
            context = pg_sys::MakePerTupleExprContext(estate);
        }
        let _entered = MemoryContext::of_core((*context).ecxt_per_tuple_memory).enter();
        state.insert.append(&Row::of(&Slot::new(slot)))
    }
}

/// A row that moves here from another partition counts as updated.
fn captures_new_rows(capture: &pg_sys::TransitionCaptureState) -> bool {
    capture.tcs_insert_new_table || capture.tcs_update_new_table
}

/// Puts the row that the shard stored into the slot. Null: the shard dropped the row.
///
/// # Safety
/// The slot belongs to the state's relation.
unsafe fn store_answer(
    state: &mut InsertTarget,
    answer: &PgResult,
    slot: *mut pg_sys::TupleTableSlot,
) -> Result<*mut pg_sys::TupleTableSlot> {
    if answer.affected_rows() == Some(0) {
        return Ok(ptr::null_mut());
    }
    if let Some(decoder) = &mut state.decoder {
        // SAFETY: by the contract.
        let mut slot = unsafe { Slot::new(slot) };
        if !decoder.give_last(answer, &mut slot)? {
            return Err(FdwError::internal("a stored row was not returned"));
        }
    }
    Ok(slot)
}

/// # Safety
/// To be called by core: with no slots for entries in its pending lists, with slots by COPY.
pub unsafe extern "C-unwind" fn exec_foreign_batch_insert(
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slots: *mut *mut pg_sys::TupleTableSlot,
    _plan_slots: *mut *mut pg_sys::TupleTableSlot,
    count: *mut i32,
) -> *mut *mut pg_sys::TupleTableSlot {
    // SAFETY: as for `exec_foreign_insert`.
    unsafe {
        guarded(|| {
            if *count == 0 {
                // The first call of a cycle has served all entries.
                if state_of(target, estate).registered {
                    flush_pending(estate)?;
                }
            } else {
                *count = insert_slots(estate, target, slots, *count)?;
            }
            Ok(slots)
        })
    }
}

/// Sends everything that waits in this EState, waits once for all shards, and adds what they wrote to the counts.
///
/// # Safety
/// `estate` is valid, and core is working through its pending lists.
unsafe fn flush_pending(estate: *mut pg_sys::EState) -> Result<()> {
    // SAFETY: by the contract; entries of other wrappers are told apart by their callback.
    unsafe {
        let mut entries = pending::entries(estate);
        entries.retain(|(target, _)| is_ours(*target));
        let mut sessions: Vec<SessionRef> = Vec::new();
        for (target, _) in &entries {
            let state = state_of(*target, estate);
            state.registered = false;
            for session in state.flush(FlushCause::End)? {
                if !sessions.iter().any(|known| Rc::ptr_eq(known, &session)) {
                    sessions.push(session);
                }
            }
        }
        drain_all(
            &sessions
                .iter()
                .map(|session| &**session)
                .collect::<Vec<_>>(),
        )?;
        for (target, node) in &entries {
            let written = state_of(*target, estate).take_written()?;
            if (**node).canSetTag {
                (*estate).es_processed += written;
            }
        }
        Ok(())
    }
}

/// # Safety
/// `target` is valid.
pub unsafe fn is_ours(target: *mut pg_sys::ResultRelInfo) -> bool {
    // SAFETY: by the contract.
    unsafe {
        (*target).ri_FdwRoutine.as_ref().is_some_and(|routine| {
            routine.BeginForeignInsert.is_some_and(|callback| {
                ptr::fn_addr_eq(
                    callback,
                    begin_foreign_insert as unsafe extern "C-unwind" fn(_, _),
                )
            })
        })
    }
}

/// A batch of COPY whose rows are counted by what the shard stores.
///
/// # Safety
/// There are `count` slots with rows of the target.
unsafe fn insert_slots(
    estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
    slots: *mut *mut pg_sys::TupleTableSlot,
    count: i32,
) -> Result<i32> {
    // SAFETY: by the contract.
    unsafe {
        let state = insert_of(target).ok_or_else(not_begun)?;
        refuse_transition_tables(state.node, captures_new_rows)?;
        if !state.insert.has_started() {
            start(state, estate, target, false, None)?;
        }
        for index in 0..count as usize {
            append(state, estate, *slots.add(index))?;
        }
        if let Some(session) = state.insert.flush(FlushCause::Full)? {
            session.drain()?;
        }
        let stored = state.insert.take_counted();
        Ok(i32::try_from(stored).unwrap_or(count))
    }
}

/// Batches of our own, not core's; except in COPY into a relation whose shard may store fewer rows than it is given,
/// where core counts what a batch reports.
///
/// # Safety
/// To be called by core.
pub unsafe extern "C-unwind" fn get_foreign_modify_batch_size(
    target: *mut pg_sys::ResultRelInfo,
) -> i32 {
    // SAFETY: as for `exec_foreign_insert`.
    unsafe {
        guarded(|| {
            let Some(state) = insert_of(target) else {
                return Ok(1);
            };
            if state.insert.on_conflict() == OnConflict::Update
                || !state.uncounted
                || !COPY_COUNTS_BATCHES
            {
                return Ok(1);
            }
            let options = &state.insert.target().options.write;
            let limit = options.batch_size;
            let circumstances = circumstances(state.node, target, options);
            if circumstances.single_reason(limit).is_some() {
                return Ok(1);
            }
            Ok(i32::try_from(limit).unwrap_or(i32::MAX))
        })
    }
}

/// # Safety
/// To be called by core.
pub unsafe extern "C-unwind" fn end_foreign_insert(
    _estate: *mut pg_sys::EState,
    target: *mut pg_sys::ResultRelInfo,
) {
    // SAFETY: as for `exec_foreign_insert`.
    unsafe { guarded(|| end(target)) }
}

/// Ends the insert state of a target, if it has one.
///
/// # Safety
/// `target` is valid.
pub unsafe fn end(target: *mut pg_sys::ResultRelInfo) -> Result<()> {
    // SAFETY: by the contract.
    match unsafe { insert_of(target) } {
        Some(state) => state.insert.end(),
        None => Ok(()),
    }
}
