//! Rows that an UPDATE moves out of a foreign partition. Core moves those of local partitions only.
//!
//! The row is deleted on its shard, and inserted through the root once the shard has said that it was there. So this is done
//! where nobody watches single rows.

use crate::fdw::bounds;
use crate::fdw::insert::{self, check_options};
use crate::fdw::modify_row::RowModify;
use crate::model::error::Result;
use crate::pg::memory::MemoryContext;
use crate::pg::slot::Slot;
use crate::pg::value::Row;
use crate::pg::version;
use pgrx::pg_sys;

/// A place for a row: the leaf, and the row in its form.
#[derive(Clone, Copy)]
pub struct Destination {
    pub leaf: *mut pg_sys::ResultRelInfo,
    pub slot: *mut pg_sys::TupleTableSlot,
}

/// What has become of a row that was to move.
#[derive(Clone, Copy)]
pub enum Moved {
    /// It cannot be moved, and nothing has happened.
    Refused,
    /// It is in another foreign partition, or was not there any more.
    Done,
    /// It has left its shard, and is to be stored here.
    Here(Destination),
}

/// May a row leave the target for another partition? `node` runs the UPDATE.
///
/// # Safety
/// Both are valid and belong together.
unsafe fn may_leave(
    node: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let root = (*rinfo).ri_RootResultRelInfo;
        if root.is_null() || root != (*node).rootResultRelInfo {
            return false;
        }
        let kind = (*(*(*root).ri_RelationDesc).rd_rel).relkind as u8;
        let is_watched = (*rinfo).ri_TrigDesc.as_ref().is_some_and(|triggers| {
            triggers.trig_update_before_row
                || triggers.trig_update_after_row
                || triggers.trig_delete_before_row
                || triggers.trig_delete_after_row
        });
        kind == pg_sys::RELKIND_PARTITIONED_TABLE
            && !is_watched
            && (*rinfo).ri_projectReturning.is_null()
            && !check_options(rinfo).contains(&pg_sys::WCOKind::WCO_VIEW_CHECK)
    }
}

/// May a row come into a leaf this way? It must be ours or local, and have no row triggers: those of foreign keys and
/// deferrable constraints count.
///
/// # Safety
/// `leaf` is valid.
unsafe fn may_arrive(leaf: *mut pg_sys::ResultRelInfo) -> bool {
    // SAFETY: by the contract.
    unsafe {
        let kind = (*(*(*leaf).ri_RelationDesc).rd_rel).relkind as u8;
        let is_watched = (*leaf).ri_TrigDesc.as_ref().is_some_and(|triggers| {
            triggers.trig_insert_before_row
                || triggers.trig_insert_after_row
                || triggers.trig_insert_instead_row
        });
        !is_watched && (insert::is_ours(leaf) || kind == pg_sys::RELKIND_RELATION)
    }
}

/// Finds the leaf for a row of `rinfo`, as ExecCrossPartitionUpdate and ExecPrepareTupleRouting of nodeModifyTable.c do.
/// An error if there is none.
///
/// # Safety
/// All are valid and belong together; the row may leave.
unsafe fn route(
    node: *mut pg_sys::ModifyTableState,
    rinfo: *mut pg_sys::ResultRelInfo,
    mut slot: *mut pg_sys::TupleTableSlot,
    estate: *mut pg_sys::EState,
) -> Result<Destination> {
    // SAFETY: by the contract; what is made for routing lives as long as the query, and the node cleans it up.
    unsafe {
        let root = (*node).rootResultRelInfo;
        if (*node).mt_partition_tuple_routing.is_null() {
            let _entered = MemoryContext::of_core((*estate).es_query_cxt).enter();
            (*node).mt_partition_tuple_routing =
                version::setup_routing(estate, (*root).ri_RelationDesc);
            (*node).mt_root_tuple_slot =
                pg_sys::table_slot_create((*root).ri_RelationDesc, std::ptr::null_mut());
        }
        let to_root = pg_sys::ExecGetChildToRootMap(rinfo);
        if !to_root.is_null() {
            slot =
                pg_sys::execute_attr_map_slot((*to_root).attrMap, slot, (*node).mt_root_tuple_slot);
        }
        if bounds::is_partition(root) && !bounds::is_inside(root, slot, estate) {
            return Err(bounds::refusal(root, slot, estate));
        }
        let leaf = version::find_partition(node, slot, estate);
        let to_leaf = version::root_to_leaf_map(leaf, estate);
        if !to_leaf.is_null() {
            slot = pg_sys::execute_attr_map_slot(
                (*to_leaf).attrMap,
                slot,
                (*leaf).ri_PartitionTupleSlot,
            );
        }
        Ok(Destination { leaf, slot })
    }
}

/// Moves a row that is outside of the target's bound into the partition where it belongs, and counts it, unless it is to be
/// stored here.
///
/// # Safety
/// The arguments are those of ExecForeignUpdate, with the state of `rinfo`, which has started.
pub unsafe fn move_row(
    state: &mut RowModify,
    estate: *mut pg_sys::EState,
    rinfo: *mut pg_sys::ResultRelInfo,
    slot: *mut pg_sys::TupleTableSlot,
    plan_slot: *mut pg_sys::TupleTableSlot,
) -> Result<Moved> {
    // SAFETY: by the contract; source and destination are different targets.
    unsafe {
        let node = state.node;
        if !may_leave(node, rinfo) {
            return Ok(Moved::Refused);
        }
        let to = route(node, rinfo, slot, estate)?;
        if !may_arrive(to.leaf) {
            return Ok(Moved::Refused);
        }
        let was_there = {
            state.scratch.reset();
            let _entered = state.scratch.enter();
            state.change.remove(&Row::of(&Slot::new(plan_slot)))?
        };
        if !was_there {
            return Ok(Moved::Done);
        }
        if !insert::is_ours(to.leaf) {
            return Ok(Moved::Here(to));
        }
        // A row that waits is counted later.
        if !insert::take(estate, to.leaf, to.slot, plan_slot)?.is_null() {
            count(node, estate);
        }
        Ok(Moved::Done)
    }
}

/// Counts a row that has moved.
///
/// # Safety
/// Both are valid and belong together.
pub unsafe fn count(node: *mut pg_sys::ModifyTableState, estate: *mut pg_sys::EState) {
    // SAFETY: by the contract.
    unsafe {
        if (*node).canSetTag {
            (*estate).es_processed += 1;
        }
    }
}
