//! TABLESAMPLE. Core lets it stand on a partitioned table or an inheritance parent only, and plans foreign children of one as if
//! it were not there.

use crate::fdw::plan::Base;
use crate::model::error::{FdwError, Result};
use crate::model::statement::Sample;
use crate::model::text;
use crate::pg::catalog::nodes;
use crate::pg::expr::Converter;
use crate::pg::raise::bytes;
use crate::read::plan::Sampling;
use pgrx::pg_sys;
use pgrx::pg_sys::{Node, PlannerInfo, RelOptInfo, TableSampleClause};

/// The clause on a relation.
///
/// # Safety
/// `root` and `baserel` are valid and belong together.
unsafe fn clause_of<'a>(
    root: *mut PlannerInfo,
    baserel: *mut RelOptInfo,
) -> Option<&'a TableSampleClause> {
    // SAFETY: by the contract; the array has an entry for each relation.
    unsafe {
        let entry = *(*root).simple_rte_array.add((*baserel).relid as usize);
        (*entry).tablesample.as_ref()
    }
}

/// Makes the pages and rows of a relation those of its sample.
///
/// # Safety
/// `root` and `baserel` are valid and belong together; pages and rows are known.
pub(super) unsafe fn reduce(root: *mut PlannerInfo, baserel: *mut RelOptInfo) {
    // SAFETY: by the contract; a method gives estimates.
    unsafe {
        let Some(clause) = clause_of(root, baserel) else {
            return;
        };
        let method = pg_sys::GetTsmRoutine(clause.tsmhandler);
        let Some(estimate) = (*method).SampleScanGetSampleSize else {
            return;
        };
        let (mut pages, mut rows) = (0, 0.0);
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            estimate(root, baserel, clause.args, &raw mut pages, &raw mut rows);
        });
        (*baserel).pages = pages;
        (*baserel).tuples = rows;
    }
}

/// The sample that the shard takes. A method that the shard may not have is refused (0A000), and so are arguments that the running
/// plan gives, in a statement that writes: its scans have to show the rows that were there when it began.
///
/// # Safety
/// `root` and `baserel` are valid and belong together, and the converter is one for the relation.
pub(super) unsafe fn convert(
    root: *mut PlannerInfo,
    baserel: *mut RelOptInfo,
    base: &Base,
    converter: &mut Converter,
) -> Result<Option<Sampling>> {
    // SAFETY: by the contract; the arguments have been preprocessed with the rest of the query, and a name is a palloc'd copy.
    unsafe {
        let Some(clause) = clause_of(root, baserel) else {
            return Ok(None);
        };
        let handler = clause.tsmhandler;
        let method = bytes(pg_sys::get_func_name(handler));
        let refused = |reason: String| {
            let table = base.target.relation.display_name();
            FdwError::unsupported(format!("cannot sample foreign table \"{table}\""))
                .with_detail(reason)
        };
        if !base.policy.has_routine(handler) {
            let method = text::from_bytes(&method);
            return Err(refused(format!(
                "The shard may have no tablesample method \"{method}\"."
            ))
            .with_hint(
                "A method can be used that is built in or belongs to an extension named in the server option \"extensions\".",
            ));
        }
        let mut value = |node: *mut Node| {
            let expr = converter
                .value(node)
                .filter(|expr| base.policy.allows(expr));
            expr.ok_or_else(|| {
                refused("An argument of TABLESAMPLE cannot be sent to the shard, or depends on other parts of a statement that writes to foreign tables.".into())
            })
        };
        let args = nodes(clause.args);
        let args = args.into_iter().map(&mut value).collect::<Result<_>>()?;
        let seed = match clause.repeatable.is_null() {
            true => None,
            false => Some(value(clause.repeatable.cast())?),
        };
        let namespace = pg_sys::get_func_namespace(handler);
        Ok(Some(Sampling {
            clause: Sample {
                schema: bytes(pg_sys::get_namespace_name(namespace)),
                method,
                args,
                seed,
            },
            is_repeatable: (*pg_sys::GetTsmRoutine(handler)).repeatable_across_queries,
        }))
    }
}
