//! Row locks: which of them the scan takes and which LockRows asks for one by one. GetForeignRowMarkType, RefetchForeignRow.

use crate::fdw::plan::{is_changed, Base};
use crate::model::error::{FdwError, Result};
use crate::model::statement::{LockStrength, LockWait, RowLock};
use crate::model::table::TABLEOID;
use crate::pg::backend;
use crate::pg::catalog::nodes;
use crate::pg::raise::guarded;
use crate::pg::slot::Slot;
use crate::pg::tuple::{ctid_text, Decoder};
use crate::pg::version;
use crate::read::lock::{has_locators, Locked, Locking};
use crate::read::plan::ScanPlan;
use crate::read::scan::Scan;
use pgrx::pg_sys;
use pgrx::pg_sys::{LockClauseStrength, RowMarkType};
use pgrx::PgMemoryContexts;
use std::num::NonZeroU32;

/// # Safety
/// To be called by the planner.
pub unsafe extern "C-unwind" fn get_foreign_row_mark_type(
    entry: *mut pg_sys::RangeTblEntry,
    strength: LockClauseStrength::Type,
) -> RowMarkType::Type {
    // SAFETY: this frame holds no destructors; the entry is valid throughout the call.
    unsafe {
        guarded(|| {
            let mark = match strength {
                LockClauseStrength::LCS_FORKEYSHARE => RowMarkType::ROW_MARK_KEYSHARE,
                LockClauseStrength::LCS_FORSHARE => RowMarkType::ROW_MARK_SHARE,
                LockClauseStrength::LCS_FORNOKEYUPDATE => RowMarkType::ROW_MARK_NOKEYEXCLUSIVE,
                LockClauseStrength::LCS_FORUPDATE => RowMarkType::ROW_MARK_EXCLUSIVE,
                _ => return Ok(RowMarkType::ROW_MARK_COPY),
            };
            let user = match version::entry_user(entry) {
                pg_sys::Oid::INVALID => backend::current_user(),
                user => user,
            };
            Ok(match has_locators((*entry).relid, user)? {
                true => mark,
                // The scan locks then, and the whole row travels with it.
                false => RowMarkType::ROW_MARK_COPY,
            })
        })
    }
}

/// What planning decides about the row locks of a scan.
pub(super) struct Locks {
    /// What the statement of the scan takes.
    pub scan: Option<RowLock>,
    /// What LockRows asks for, row by row.
    pub row: Option<RowLock>,
    /// For EXPLAIN, where it is not row by row.
    pub locking: Option<Locking>,
}

/// `local`: the conditions that stay here. `is_ordered`: do the rows come in the order of the query?
///
/// # Safety
/// `root` and `baserel` are valid and belong together, and `base` to them.
pub(super) unsafe fn locks(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    base: &Base,
    local: *mut pg_sys::List,
    is_ordered: bool,
) -> Locks {
    let mut locks = Locks {
        scan: None,
        row: None,
        locking: None,
    };
    // SAFETY: by the contract.
    unsafe {
        if is_changed(root, (*baserel).relid) {
            // The write takes the lock just as well where it fails for a row that somebody has changed meanwhile. So what a join, or
            // a subquery that looks for a row, leaves out stays free.
            let is_chosen_here = !is_sole(root) || depends_on_subquery(local);
            let must_lock = !(base.policy.has_one_snapshot && is_chosen_here);
            locks.scan = (must_lock && base.needs_lock()).then(|| target_lock(root));
            return locks;
        }
        let Some(mark) = mark_of(root, (*baserel).relid) else {
            return locks;
        };
        let Some(lock) = lock_of(mark) else {
            return locks;
        };
        let is_limited = (*root).tuple_fraction > 0.0;
        let is_sorted_above = !(*root).sort_pathkeys.is_null() && !is_ordered;
        if is_sole(root) && local.is_null() && !(is_limited && is_sorted_above) {
            locks.scan = Some(lock);
            locks.locking = Some(Locking::Scan {
                most: match is_limited {
                    true => NonZeroU32::new(most_rows(root, baserel)),
                    false => None,
                },
            });
        } else if mark.markType == RowMarkType::ROW_MARK_COPY {
            locks.scan = Some(lock);
            locks.locking = Some(Locking::ScanForLackOfLocators);
        } else {
            locks.row = Some(lock);
        }
    }
    locks
}

/// The lock on rows that are read to be changed: the change itself takes a stronger one where it needs to.
///
/// # Safety
/// `root` is valid.
unsafe fn target_lock(root: *mut pg_sys::PlannerInfo) -> RowLock {
    // SAFETY: by the contract.
    let is_update = unsafe { (*(*root).parse).commandType } == pg_sys::CmdType::CMD_UPDATE;
    RowLock {
        strength: match is_update {
            true => LockStrength::NoKeyUpdate,
            false => LockStrength::Update,
        },
        wait: LockWait::Block,
    }
}

/// Do conditions compare with what a subquery finds?
///
/// # Safety
/// `conditions` is null or a list of expressions.
unsafe fn depends_on_subquery(conditions: *mut pg_sys::List) -> bool {
    // SAFETY: by the contract; a list is walked as an expression.
    unsafe {
        pg_sys::contain_subplans(conditions.cast())
            || !pg_sys::pull_paramids(conditions.cast()).is_null()
    }
}

/// The row mark of a relation that a locking clause names.
///
/// # Safety
/// `root` is valid.
unsafe fn mark_of<'a>(
    root: *mut pg_sys::PlannerInfo,
    relid: u32,
) -> Option<&'a pg_sys::PlanRowMark> {
    // SAFETY: by the contract; rowMarks is a list of PlanRowMark.
    unsafe {
        nodes((*root).rowMarks)
            .into_iter()
            .map(|node| &*node.cast::<pg_sys::PlanRowMark>())
            .find(|mark| mark.rti == relid)
    }
}

fn lock_of(mark: &pg_sys::PlanRowMark) -> Option<RowLock> {
    Some(RowLock {
        strength: match mark.strength {
            LockClauseStrength::LCS_FORKEYSHARE => LockStrength::KeyShare,
            LockClauseStrength::LCS_FORSHARE => LockStrength::Share,
            LockClauseStrength::LCS_FORNOKEYUPDATE => LockStrength::NoKeyUpdate,
            LockClauseStrength::LCS_FORUPDATE => LockStrength::Update,
            _ => return None,
        },
        wait: match mark.waitPolicy {
            pg_sys::LockWaitPolicy::LockWaitSkip => LockWait::Skip,
            pg_sys::LockWaitPolicy::LockWaitError => LockWait::Error,
            _ => LockWait::Block,
        },
    })
}

/// Is the relation, or the tree that it is part of, the only one of the query? Then nothing above the scan drops rows but a LIMIT,
/// and no row of it is ever checked again because of another one.
///
/// # Safety
/// `root` is valid, and its relations are known.
unsafe fn is_sole(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: by the contract.
    unsafe { pg_sys::bms_membership((*root).all_baserels) == pg_sys::BMS_Membership::BMS_SINGLETON }
}

/// How many rows LockRows reaches surely: those of the LIMIT where all of them come from this scan, if there are so many.
///
/// # Safety
/// As for [`locks`].
unsafe fn most_rows(root: *mut pg_sys::PlannerInfo, baserel: *mut pg_sys::RelOptInfo) -> u32 {
    // SAFETY: by the contract.
    unsafe {
        let is_whole = (*baserel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL;
        let is_exact = (*(*root).parse).limitOption == pg_sys::LimitOption::LIMIT_OPTION_COUNT;
        match is_whole && is_exact && (*root).limit_tuples >= 1.0 {
            true => (*root).limit_tuples.min(f64::from(i32::MAX)) as u32,
            false => 1,
        }
    }
}

/// Does the planner want the rows of a scan for a locking clause, so that it should be in the order of the query?
///
/// # Safety
/// As for [`locks`].
pub(super) unsafe fn wants_order(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
) -> bool {
    // SAFETY: by the contract.
    unsafe {
        (*baserel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
            && !(*root).sort_pathkeys.is_null()
            && !is_changed(root, (*baserel).relid)
            && is_sole(root)
            && mark_of(root, (*baserel).relid).is_some_and(|mark| lock_of(mark).is_some())
    }
}

/// What a row mark of the executor needs to lock single rows.
struct Locker {
    /// The state of the scan.
    scan: *mut Option<Scan>,
    /// For rows that were locked one by one.
    decoder: Decoder,
}

/// Lets the row mark of a scan's relation find the scan, if it has one.
///
/// # Safety
/// To be called when a scan begins, with its node, its plan and its state, which lives as long as `es_query_cxt`.
pub(super) unsafe fn attach(
    node: *mut pg_sys::ForeignScanState,
    plan: &ScanPlan,
    scan: *mut Option<Scan>,
) -> Result<()> {
    // SAFETY: by the contract; the executor makes its row marks before it begins scans.
    unsafe {
        if plan.locking.is_none() {
            return Ok(());
        }
        let estate = (*node).ss.ps.state;
        let foreign_scan = (*node).ss.ps.plan.cast::<pg_sys::ForeignScan>();
        let mark = pg_sys::ExecFindRowMark(estate, (*foreign_scan).scan.scanrelid, true);
        if mark.is_null() {
            return Ok(());
        }
        let columns = match &plan.locking {
            Some(Locking::Row { columns, .. }) => &columns[..],
            _ => &[],
        };
        let context = (*estate).es_query_cxt;
        let decoder = Decoder::new((*node).ss.ss_currentRelation, columns, context)?;
        let locker = Locker { scan, decoder };
        (*mark).ermExtra = PgMemoryContexts::For(context)
            .leak_and_drop_on_delete(locker)
            .cast();
        Ok(())
    }
}

/// # Safety
/// To be called by the executor's LockRows node, after the scan of the mark's relation has begun.
pub unsafe extern "C-unwind" fn refetch_foreign_row(
    _estate: *mut pg_sys::EState,
    mark: *mut pg_sys::ExecRowMark,
    rowid: pg_sys::Datum,
    slot: *mut pg_sys::TupleTableSlot,
    updated: *mut bool,
) {
    // SAFETY: this frame holds no destructors; `rowid` is the ctid that the scan has given, and no other borrow of the scan is
    // alive between two of its rows.
    unsafe {
        guarded(|| {
            let locker = (*mark).ermExtra.cast::<Locker>().as_mut();
            let (scan, decoder) = locker
                .and_then(|locker| Some(((*locker.scan).as_ref()?, &mut locker.decoder)))
                .ok_or_else(|| FdwError::internal("a row is to be locked without a scan"))?;
            *updated = false;
            match scan.lock(ctid_text(rowid))? {
                // Nobody looks at the row: it is not checked again.
                Locked::ByScan => {
                    pg_sys::ExecStoreAllNullTuple(slot);
                }
                Locked::Now(row) => {
                    decoder.give_last(&row.rows, &mut Slot::new(slot))?;
                    (*slot).tts_tableOid = (*mark).relid;
                    *updated = row.is_updated;
                }
                Locked::Not => Slot::new(slot).clear(),
            }
            Ok(())
        })
    }
}

/// The columns of a scan whose rows are locked one by one.
pub(super) fn with_place(columns: &[i16]) -> Vec<i16> {
    let mut columns = columns.to_vec();
    if !columns.contains(&TABLEOID) {
        columns.push(TABLEOID);
    }
    columns
}
