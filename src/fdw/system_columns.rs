//! Which system columns of foreign tables can be read: tableoid, which is that of the foreign table, and ctid and xmin, which are
//! the shard's. The others say something about transactions of a shard that nobody here can understand, and a tuple from there has
//! none of them: they are refused (0A000).

use crate::fdw::plan::is_changed;
use crate::model::error::{FdwError, Result};
use crate::model::table::{CTID, XMIN};
use crate::pg::catalog::{nodes, Relation};
use crate::pg::target::Target;
use crate::pg::{version, walk};
use pgrx::pg_sys;
use pgrx::pg_sys::{CmdType, Index, ModifyTable, ModifyTableState, Node, NodeTag, PlannerInfo};

/// A system column as a statement asks for it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SystemColumn {
    attnum: i16,
    /// As it was before an UPDATE.
    of_old_row: bool,
}

impl SystemColumn {
    fn name(self) -> &'static str {
        match i32::from(self.attnum) {
            pg_sys::SelfItemPointerAttributeNumber => "ctid",
            pg_sys::MinTransactionIdAttributeNumber => "xmin",
            pg_sys::MinCommandIdAttributeNumber => "cmin",
            pg_sys::MaxTransactionIdAttributeNumber => "xmax",
            pg_sys::MaxCommandIdAttributeNumber => "cmax",
            _ => "tableoid",
        }
    }

    /// Is it known of rows of a shard?
    fn is_known(self) -> bool {
        let is_of_shard = self.attnum == CTID || self.attnum == XMIN;
        is_of_shard || i32::from(self.attnum) == pg_sys::TableOidAttributeNumber
    }

    fn refusal(self, table: &Relation) -> FdwError {
        let (name, table) = (self.name(), table.display_name());
        let of = match self.of_old_row {
            true => "the old row of foreign table",
            false => "foreign table",
        };
        FdwError::unsupported(format!(
            "cannot retrieve system column \"{name}\" of {of} \"{table}\""
        ))
    }
}

/// The system columns of a relation in expressions, but for the one by which a plan of UPDATE or DELETE carries the OID of the remote
/// table.
///
/// # Safety
/// `node` is null or a valid expression node, or a list of them.
unsafe fn system_columns(node: *mut Node, relation: i32) -> Vec<SystemColumn> {
    let mut found = Vec::new();
    // SAFETY: by the contract; each node is read as what its tag says.
    unsafe {
        walk::any(node, |node| {
            if (*node).type_ == NodeTag::T_Var {
                let var = node.cast::<pg_sys::Var>();
                let is_ours = (*var).vartype == pg_sys::OIDOID
                    && i32::from((*var).varattno) == pg_sys::MinCommandIdAttributeNumber;
                let is_of_relation = (*var).varno == relation && (*var).varlevelsup == 0;
                if is_of_relation && (*var).varattno < 0 && !is_ours {
                    found.push(SystemColumn {
                        attnum: (*var).varattno,
                        of_old_row: version::is_of_old_row(var),
                    });
                }
            }
            false
        });
    }
    found
}

/// Refuses a scan for what is asked of it, and the UPDATE or DELETE that it is for.
///
/// # Safety
/// `root` and `baserel` are valid and belong together.
pub(super) unsafe fn check_scan(
    root: *mut PlannerInfo,
    baserel: *mut pg_sys::RelOptInfo,
    target: &Target,
) -> Result<()> {
    // SAFETY: by the contract; conditions are RestrictInfo nodes. Subqueries in expressions are planned by now.
    unsafe {
        let relid = (*baserel).relid;
        let mut asked = system_columns((*(*baserel).reltarget).exprs.cast(), relid as i32);
        for condition in nodes((*baserel).baserestrictinfo) {
            let clause = (*condition.cast::<pg_sys::RestrictInfo>()).clause;
            asked.extend(system_columns(clause.cast(), relid as i32));
        }
        if is_changed(root, relid) {
            let query = (*root).parse;
            let is_update = (*query).commandType == CmdType::CMD_UPDATE;
            // Of a column that is asked for twice, the scan knows but one.
            for part in [
                (*query).targetList.cast(),
                (*query).returningList.cast(),
                (*query).jointree.cast(),
            ] {
                asked.extend(system_columns(part, (*query).resultRelation));
            }
            let old = asked.iter().find(|column| column.of_old_row);
            let has_tableoid_only =
                |column: &SystemColumn| i32::from(column.attnum) == pg_sys::TableOidAttributeNumber;
            if let Some(column) = old.filter(|column| is_update && !has_tableoid_only(column)) {
                return Err(column.refusal(&target.relation));
            }
        }
        refuse_unknown(&asked, &target.relation)
    }
}

fn refuse_unknown(asked: &[SystemColumn], table: &Relation) -> Result<()> {
    match asked.iter().find(|column| !column.is_known()) {
        Some(column) => Err(column.refusal(table)),
        None => Ok(()),
    }
}

/// Refuses an INSERT for its RETURNING list.
///
/// # Safety
/// The arguments are those of PlanForeignModify.
pub(super) unsafe fn check_insert(
    root: *mut PlannerInfo,
    modify: *mut ModifyTable,
    target: Index,
    position: i32,
) -> Result<()> {
    // SAFETY: by the contract; the list is empty or has one list for each target.
    unsafe {
        if (*modify).returningLists.is_null() {
            return Ok(());
        }
        let list = pg_sys::list_nth((*modify).returningLists, position);
        let entry = *(*root).simple_rte_array.add(target as usize);
        let asked = system_columns_of_new(list.cast(), target as i32);
        refuse_unknown(&asked, &Target::known((*entry).relid)?.relation)
    }
}

/// Without those of old rows, of which an INSERT has none.
///
/// # Safety
/// As for [`system_columns`].
unsafe fn system_columns_of_new(node: *mut Node, relation: i32) -> Vec<SystemColumn> {
    // SAFETY: by the contract.
    let mut columns = unsafe { system_columns(node, relation) };
    columns.retain(|column| !column.of_old_row);
    columns
}

/// What RETURNING asks for of rows that are inserted, also of those that are routed or moved, for which no plan was made.
///
/// # Safety
/// `node` is valid.
unsafe fn asked_of_new(node: *mut ModifyTableState) -> Vec<SystemColumn> {
    // SAFETY: by the contract; the list has one list for each target, and system columns have the same numbers in all of them.
    unsafe {
        let plan = (*node).ps.plan.cast::<ModifyTable>();
        let is_statement = !plan.is_null() && (*plan).plan.type_ == NodeTag::T_ModifyTable;
        if !is_statement || (*plan).returningLists.is_null() {
            return Vec::new();
        }
        let list = pg_sys::list_nth((*plan).returningLists, 0);
        let target = pg_sys::list_nth_int((*plan).resultRelations, 0);
        system_columns_of_new(list.cast(), target)
    }
}

/// Numbers of the system columns that RETURNING asks for of rows that are inserted.
///
/// # Safety
/// `node` is valid.
pub(super) unsafe fn returned(node: *mut ModifyTableState) -> Vec<i16> {
    // SAFETY: by the contract.
    let asked = unsafe { asked_of_new(node) };
    asked.into_iter().map(|column| column.attnum).collect()
}

/// Refuses rows for what RETURNING asks for.
///
/// # Safety
/// `node` is valid.
pub(super) unsafe fn check_returned(node: *mut ModifyTableState, table: &Relation) -> Result<()> {
    // SAFETY: by the contract.
    refuse_unknown(&unsafe { asked_of_new(node) }, table)
}
