//! Planning of foreign scans: GetForeignRelSize, GetForeignPaths, GetForeignPlan, AddForeignUpdateTargets.

use crate::fdw::{lock, order, system_columns, tablesample};
use crate::model::error::{FdwError, Result};
use crate::model::expr::{Expr, Kind, Source, CTID};
use crate::model::option::ColumnOptions;
use crate::model::table::{TABLEOID, XMIN};
use crate::pg::backend;
use crate::pg::catalog::{self, c_string, nodes};
use crate::pg::expr::Converter;
use crate::pg::list;
use crate::pg::raise::guarded;
use crate::pg::target::Target;
use crate::pg::version;
use crate::read::lock::Locking;
use crate::read::plan::{LocalCost, Policy, ScanPlan, Selection};
use pgrx::pg_sys;
use pgrx::pg_sys::{Node, Oid};
use pgrx::PgMemoryContexts;
use std::ffi::{CStr, CString};
use std::ptr;

/// Size assumed for a table that was never analyzed, in pages, as for an empty local table.
const ASSUMED_PAGES: u32 = 10;

/// What GetForeignRelSize finds out and the later steps use. Lives in `RelOptInfo.fdw_private`.
pub(super) struct Base {
    pub target: Target,
    pub policy: Policy,
    /// Share of the rows that pass the conditions that stay here.
    local_selectivity: f64,
}

impl Base {
    /// Do rows have to be locked that are read to be changed? Those that are found by a key need not if the remote
    /// transaction sees one snapshot: a row that somebody else changes meanwhile is an error then. And a view may be one
    /// that cannot be locked.
    pub(super) fn needs_lock(&self) -> bool {
        self.target.key.is_empty() || !self.policy.has_one_snapshot
    }
}

/// # Safety
/// `baserel` was seen by [`get_foreign_rel_size`].
pub(super) unsafe fn base<'a>(baserel: *mut pg_sys::RelOptInfo) -> Result<&'a Base> {
    // SAFETY: by the contract; the value lives as long as the planner's memory context.
    unsafe { (*baserel).fdw_private.cast::<Base>().as_ref() }
        .ok_or_else(|| FdwError::internal("a foreign table is planned without its size"))
}

/// # Safety
/// To be called by the planner.
pub unsafe extern "C-unwind" fn get_foreign_rel_size(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    relid: Oid,
) {
    // SAFETY: this frame holds no destructors; the planner's structs are valid throughout the call.
    unsafe {
        guarded(|| {
            let target = Target::of(relid)?;
            system_columns::check_scan(root, baserel, &target)?;
            let user = match (*baserel).userid {
                Oid::INVALID => backend::current_user(),
                user => user,
            };
            let policy = Policy::new(&target.server, user, writes_foreign_tables(root))?;
            let (_, local) = classify(&policy, baserel, (*baserel).baserestrictinfo);
            let local_selectivity = pg_sys::clauselist_selectivity(
                root,
                list_of(&local),
                (*baserel).relid as i32,
                pg_sys::JoinType::JOIN_INNER,
                ptr::null_mut(),
            );
            if (*baserel).tuples < 0.0 {
                let tuple = f64::from((*(*baserel).reltarget).width)
                    + std::mem::size_of::<pg_sys::HeapTupleHeaderData>().next_multiple_of(8) as f64;
                (*baserel).pages = ASSUMED_PAGES;
                (*baserel).tuples = f64::from(ASSUMED_PAGES * pg_sys::BLCKSZ) / tuple;
            }
            tablesample::reduce(root, baserel);
            pg_sys::set_baserel_size_estimates(root, baserel);
            let base = Base {
                target,
                policy,
                local_selectivity,
            };
            (*baserel).fdw_private = PgMemoryContexts::CurrentMemoryContext
                .leak_and_drop_on_delete(base)
                .cast();
            Ok(())
        })
    }
}

/// # Safety
/// To be called by the planner, after [`get_foreign_rel_size`].
pub unsafe extern "C-unwind" fn get_foreign_paths(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    _relid: Oid,
) {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            let base = base(baserel)?;
            let rel = &*baserel;
            let retrieved = pg_sys::clamp_row_est(rel.rows / base.local_selectivity.max(1e-10));
            let per_tuple = pg_sys::cpu_tuple_cost + rel.baserestrictcost.per_tuple;
            let local = LocalCost {
                startup: rel.baserestrictcost.startup,
                run: pg_sys::seq_page_cost * f64::from(rel.pages) + per_tuple * rel.tuples,
                cpu_tuple_cost: pg_sys::cpu_tuple_cost,
            };
            let (startup, total) = base.policy.cost(local, retrieved.min(rel.tuples));
            let mut orders = vec![ptr::null_mut()];
            if lock::wants_order(root, baserel) {
                let mut converter = Converter::new(rel.relid, base.policy.has_extensions());
                let order = (*root).sort_pathkeys;
                if order::sort_keys(&base.policy, &mut converter, baserel, order).is_some() {
                    orders.push(order);
                }
            }
            for order in orders {
                let path = version::create_foreignscan_path(
                    root, baserel, rel.rows, startup, total, order,
                );
                pg_sys::add_path(baserel, path.cast());
            }
            Ok(())
        })
    }
}

/// # Safety
/// To be called by the planner, after [`get_foreign_rel_size`].
pub unsafe extern "C-unwind" fn get_foreign_plan(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    _relid: Oid,
    best_path: *mut pg_sys::ForeignPath,
    tlist: *mut pg_sys::List,
    scan_clauses: *mut pg_sys::List,
    outer_plan: *mut pg_sys::Plan,
) -> *mut pg_sys::ForeignScan {
    // SAFETY: as above.
    unsafe {
        guarded(|| {
            let base = base(baserel)?;
            let (remote, local) = classify(&base.policy, baserel, scan_clauses);
            let mut converter = Converter::new((*baserel).relid, base.policy.has_extensions());
            let mut conditions = Vec::with_capacity(remote.len());
            for &clause in &remote {
                conditions.push(
                    converter
                        .convert(clause_of(clause))
                        .ok_or_else(|| FdwError::internal("a condition cannot be sent any more"))?,
                );
            }
            let sample = tablesample::convert(root, baserel, base, &mut converter)?;
            let order = order::chosen(&base.policy, &mut converter, baserel, best_path)?;
            let (keys, comparisons): (Vec<_>, Vec<_>) = order
                .into_iter()
                .map(|order| (order.key, order.comparison))
                .unzip();
            let local_exprs = clauses_of(&local);
            let mut columns = needed_columns(root, baserel, &base.target, &[local_exprs]);
            let is_ordered = !keys.is_empty();
            let locks = lock::locks(root, baserel, base, local_exprs, is_ordered);
            let locking = match locks.row {
                Some(lock) => {
                    // All conditions are checked again for a row that was changed meanwhile.
                    let conditions = [local_exprs, clauses_of(&remote)];
                    let needed = needed_columns(root, baserel, &base.target, &conditions);
                    columns = lock::with_place(&columns);
                    Some(Locking::row(&base.target.remote, needed, lock))
                }
                None => locks.locking,
            };
            let (mut plan, params) = ScanPlan::new(
                &base.target.remote,
                columns,
                Selection {
                    sample: sample.as_ref(),
                    conditions: &conditions,
                    order: &keys,
                    lock: locks.scan,
                },
                base.target.options.fetch_size,
                base.policy.writes,
                is_changed(root, (*baserel).relid),
            );
            plan.locking = locking;
            plan.locale = base.policy.relied_on(conditions.iter().chain(&comparisons));
            plan.locale_reason = base.policy.locale_reason();
            let mut exprs = ptr::null_mut();
            for given in params {
                exprs = pg_sys::lappend(exprs, converter.given(&given)?.cast());
            }
            let rechecked: Vec<Clause> = remote
                .into_iter()
                .zip(&conditions)
                .filter(|(_, condition)| locks.row.is_some() || may_recheck(condition))
                .map(|(clause, _)| clause)
                .collect();
            Ok(pg_sys::make_foreignscan(
                tlist,
                local_exprs,
                (*baserel).relid,
                exprs,
                list::encode(&plan.to_items())?,
                ptr::null_mut(),
                clauses_of(&rechecked),
                outer_plan,
            ))
        })
    }
}

/// # Safety
/// To be called by the planner for a foreign target of UPDATE or DELETE.
pub unsafe extern "C-unwind" fn add_foreign_update_targets(
    root: *mut pg_sys::PlannerInfo,
    rtindex: pg_sys::Index,
    _target_rte: *mut pg_sys::RangeTblEntry,
    target_relation: pg_sys::Relation,
) {
    // SAFETY: this frame holds no destructors; makeVar makes a valid node, and the names are copied.
    unsafe {
        guarded(|| {
            for junk in identity_of(target_relation)? {
                let var = pg_sys::makeVar(
                    rtindex as i32,
                    junk.attnum,
                    junk.type_oid,
                    junk.typmod,
                    junk.collation,
                    0,
                );
                // The name becomes part of the plan.
                let name = pg_sys::pstrdup(junk.name.as_ptr());
                pg_sys::add_row_identity_var(root, var, rtindex, name);
            }
            Ok(())
        })
    }
}

/// A column of the plan below UPDATE or DELETE that helps to find rows on the shard.
pub struct Junk {
    pub name: CString,
    /// Number of the column in the foreign table.
    attnum: i16,
    type_oid: Oid,
    typmod: i32,
    collation: Oid,
}

/// What identifies the rows of a foreign table: the columns with the option `key`, or else ctid and the remote table's
/// OID. The latter goes by the name of cmin, see `form` in `pg/tuple.rs`.
///
/// # Safety
/// `relation` is open.
pub unsafe fn identity_of(relation: pg_sys::Relation) -> Result<Vec<Junk>> {
    // SAFETY: by the contract.
    unsafe {
        let mut key = Vec::new();
        for column in catalog::describe(relation)?.columns {
            if ColumnOptions::new(&column.options)?.key {
                let attribute =
                    version::tupdesc_attribute((*relation).rd_att, column.attnum as usize - 1);
                let (type_oid, typmod) = (attribute.atttypid, attribute.atttypmod);
                let collation = attribute.attcollation;
                // Core takes columns of one name as one and the same in all tables of a tree.
                let name = format!(
                    "shard_fdw key {} {} {typmod} {}",
                    column.attnum,
                    type_oid.to_u32(),
                    collation.to_u32()
                );
                key.push(Junk {
                    name: c_string(name.as_bytes())?,
                    attnum: column.attnum,
                    type_oid,
                    typmod,
                    collation,
                });
            }
        }
        if !key.is_empty() {
            return Ok(key);
        }
        let system = |name: &CStr, attnum: i32, type_oid| Junk {
            name: name.to_owned(),
            attnum: attnum as i16,
            type_oid,
            typmod: -1,
            collation: Oid::INVALID,
        };
        Ok(vec![
            system(c"ctid", i32::from(CTID), pg_sys::TIDOID),
            system(
                c"shard_fdw tableoid",
                pg_sys::MinCommandIdAttributeNumber,
                // Not the type of a cmin that the user asks for, which is refused.
                pg_sys::OIDOID,
            ),
        ])
    }
}

/// Can a condition be checked again for a row that has travelled through the plan as a whole, because a row that it was joined with
/// has changed? It has lost its system columns. What holds for these alone still holds.
fn may_recheck(condition: &Expr) -> bool {
    let has_system_column =
        condition.any(&|expr| matches!(expr.kind, Kind::Column(attnum) if attnum < 0));
    let has_other_row = condition.any(&|expr| {
        matches!(
            expr.kind,
            Kind::Param {
                source: Source::Outer,
                ..
            }
        )
    });
    !has_system_column || has_other_row
}

type Clause = *mut pg_sys::RestrictInfo;

/// The conditions that the shard gets, and those that stay. Pseudoconstant ones are left to core.
///
/// A condition below a security barrier is sent only if it cannot leak: the shard does not know the barrier.
///
/// # Safety
/// `clauses` is a list of RestrictInfo of `baserel`.
unsafe fn classify(
    policy: &Policy,
    baserel: *mut pg_sys::RelOptInfo,
    clauses: *mut pg_sys::List,
) -> (Vec<Clause>, Vec<Clause>) {
    // SAFETY: by the contract.
    unsafe {
        let mut converter = Converter::new((*baserel).relid, policy.has_extensions());
        nodes(clauses)
            .into_iter()
            .map(|node| node.cast::<pg_sys::RestrictInfo>())
            .filter(|&clause| !(*clause).pseudoconstant)
            .partition(|&clause| {
                is_leak_safe(clause, baserel)
                    && converter
                        .convert(clause_of(clause))
                        .is_some_and(|condition: Expr| policy.allows(&condition))
            })
    }
}

/// Is the condition either above no security barrier, or one that cannot leak what it sees?
///
/// # Safety
/// Both are valid and belong together.
pub(super) unsafe fn is_leak_safe(clause: Clause, baserel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: by the contract.
    unsafe {
        (*clause).leakproof || (*clause).security_level <= (*baserel).baserestrict_min_security
    }
}

/// # Safety
/// `clause` is valid.
unsafe fn clause_of(clause: Clause) -> *mut Node {
    // SAFETY: by the contract.
    unsafe { (*clause).clause.cast() }
}

/// # Safety
/// The pointers are valid nodes.
unsafe fn list_of(clauses: &[Clause]) -> *mut pg_sys::List {
    clauses.iter().fold(ptr::null_mut(), |list, &clause| {
        // SAFETY: by the contract.
        unsafe { pg_sys::lappend(list, clause.cast()) }
    })
}

/// # Safety
/// The pointers are valid.
unsafe fn clauses_of(clauses: &[Clause]) -> *mut pg_sys::List {
    clauses.iter().fold(ptr::null_mut(), |list, &clause| {
        // SAFETY: by the contract.
        unsafe { pg_sys::lappend(list, clause_of(clause).cast()) }
    })
}

/// Numbers of the columns that the plan above and some conditions need.
///
/// # Safety
/// `root` and `baserel` are valid, and `conditions` are lists of its conditions.
unsafe fn needed_columns(
    root: *mut pg_sys::PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    target: &Target,
    conditions: &[*mut pg_sys::List],
) -> Vec<i16> {
    // SAFETY: by the contract.
    unsafe {
        let mut used = ptr::null_mut();
        let target_list = (*(*baserel).reltarget).exprs;
        for &exprs in conditions.iter().chain([&target_list]) {
            pg_sys::pull_varattnos(exprs.cast(), (*baserel).relid, &mut used);
        }
        let mut columns = columns_of(used, target);
        // The name by which the target of UPDATE and DELETE asks for it.
        let alias =
            pg_sys::MinCommandIdAttributeNumber - pg_sys::FirstLowInvalidHeapAttributeNumber;
        if pg_sys::bms_is_member(alias, used) && is_changed(root, (*baserel).relid) {
            columns.push(TABLEOID);
        }
        columns
    }
}

/// The columns in a set of attribute numbers as pull_varattnos makes it: live ones in order, then ctid and xmin.
///
/// # Safety
/// `used` is null or a valid set.
pub unsafe fn columns_of(used: *mut pg_sys::Bitmapset, target: &Target) -> Vec<i16> {
    // SAFETY: by the contract.
    let is_used = |attnum: i16| unsafe {
        pg_sys::bms_is_member(
            i32::from(attnum) - pg_sys::FirstLowInvalidHeapAttributeNumber,
            used,
        )
    };
    let whole_row = is_used(0);
    let mut columns: Vec<i16> = target
        .relation
        .columns
        .iter()
        .map(|column| column.attnum)
        .filter(|&attnum| whole_row || is_used(attnum))
        .collect();
    columns.extend([CTID, XMIN].into_iter().filter(|&attnum| is_used(attnum)));
    columns
}

/// Is the relation a target of UPDATE or DELETE?
///
/// # Safety
/// `root` is valid.
pub(super) unsafe fn is_changed(root: *mut pg_sys::PlannerInfo, relid: u32) -> bool {
    // SAFETY: by the contract.
    unsafe {
        matches!(
            (*(*root).parse).commandType,
            pg_sys::CmdType::CMD_UPDATE | pg_sys::CmdType::CMD_DELETE
        ) && pg_sys::bms_is_member(relid as i32, (*root).all_result_relids)
    }
}

/// May the statement, at its top or in a CTE, write to foreign tables? Partitioned tables and inheritance parents
/// count, whatever they hold.
///
/// # Safety
/// `root` is valid.
unsafe fn writes_foreign_tables(root: *mut pg_sys::PlannerInfo) -> bool {
    // SAFETY: by the contract; data-modifying CTEs stand at the top level only.
    unsafe {
        let mut top = root;
        while !(*top).parent_root.is_null() {
            top = (*top).parent_root;
        }
        let query = (*top).parse;
        has_foreign_target(query)
            || ((*query).hasModifyingCTE
                && nodes((*query).cteList).into_iter().any(|node| {
                    let cte = node.cast::<pg_sys::CommonTableExpr>();
                    let query = (*cte).ctequery;
                    (*query).type_ == pg_sys::NodeTag::T_Query && has_foreign_target(query.cast())
                }))
    }
}

/// # Safety
/// `query` is valid.
unsafe fn has_foreign_target(query: *mut pg_sys::Query) -> bool {
    // SAFETY: by the contract; resultRelation counts the range table from 1.
    unsafe {
        if (*query).resultRelation == 0 {
            return false;
        }
        let target = pg_sys::list_nth((*query).rtable, (*query).resultRelation - 1)
            .cast::<pg_sys::RangeTblEntry>();
        match (*target).relkind as u8 {
            pg_sys::RELKIND_FOREIGN_TABLE | pg_sys::RELKIND_PARTITIONED_TABLE => true,
            pg_sys::RELKIND_RELATION => (*target).inh,
            _ => false,
        }
    }
}
