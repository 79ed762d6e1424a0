//! The order of a query as ORDER BY of a scan.

use crate::model::error::{FdwError, Result};
use crate::model::expr::{Expr, Kind};
use crate::model::statement::SortKey;
use crate::pg::catalog::nodes;
use crate::pg::expr::Converter;
use crate::pg::version;
use crate::read::plan::Policy;
use pgrx::pg_sys;
use pgrx::pg_sys::Oid;

/// A key of the order, and the comparison by which the shard sorts.
pub(super) struct Key {
    pub key: SortKey<Expr>,
    pub comparison: Expr,
}

/// The keys of `pathkeys`, if the shard can sort by all of them with the outcome that sorting here would have.
///
/// # Safety
/// `baserel` is valid, `pathkeys` a list of PathKey of its query, and the converter is one for the relation.
pub(super) unsafe fn sort_keys(
    policy: &Policy,
    converter: &mut Converter,
    baserel: *mut pg_sys::RelOptInfo,
    pathkeys: *mut pg_sys::List,
) -> Option<Vec<Key>> {
    // SAFETY: by the contract.
    unsafe {
        nodes(pathkeys)
            .into_iter()
            .map(|node| sort_key(policy, converter, baserel, node.cast()))
            .collect()
    }
}

/// # Safety
/// As for [`sort_keys`].
unsafe fn sort_key(
    policy: &Policy,
    converter: &mut Converter,
    baserel: *mut pg_sys::RelOptInfo,
    pathkey: *mut pg_sys::PathKey,
) -> Option<Key> {
    // SAFETY: by the contract; the new nodes live in the planner's memory.
    unsafe {
        let class = (*pathkey).pk_eclass;
        let member = member_of(class, baserel)?;
        let expr = (*member).em_expr;
        let operator = version::pathkey_operator(pathkey, (*member).em_datatype);
        let (less, greater) = default_order(pg_sys::exprType(expr.cast()));
        let descending = match operator {
            Oid::INVALID => return None,
            operator if operator == less => false,
            operator if operator == greater => true,
            _ => return None,
        };
        let comparison = pg_sys::make_opclause(
            operator,
            pg_sys::BOOLOID,
            false,
            expr,
            expr,
            Oid::INVALID,
            (*class).ec_collation,
        );
        pg_sys::set_opfuncid(comparison.cast());
        let comparison = converter.convert(comparison.cast())?;
        if !policy.allows(&comparison) {
            return None;
        }
        let Kind::Operator { args, .. } = &comparison.kind else {
            return None;
        };
        let key = SortKey {
            expr: args.first()?.clone(),
            descending,
            nulls_first: (*pathkey).pk_nulls_first,
        };
        Some(Key { key, comparison })
    }
}

/// The expression of a class of equal ones that is made of columns of this relation alone.
///
/// # Safety
/// Both are valid.
unsafe fn member_of(
    class: *mut pg_sys::EquivalenceClass,
    baserel: *mut pg_sys::RelOptInfo,
) -> Option<*mut pg_sys::EquivalenceMember> {
    // SAFETY: by the contract.
    unsafe {
        if (*class).ec_has_volatile {
            return None;
        }
        nodes((*class).ec_members)
            .into_iter()
            .map(|node| node.cast::<pg_sys::EquivalenceMember>())
            .find(|&member| {
                !(*member).em_is_const
                    && !(*member).em_is_child
                    && !(*member).em_relids.is_null()
                    && pg_sys::bms_is_subset((*member).em_relids, (*baserel).relids)
            })
    }
}

/// The operators `<` and `>` by which ORDER BY sorts a type if it names none; invalid where there are none.
///
/// # Safety
/// `type_oid` is a type.
unsafe fn default_order(type_oid: Oid) -> (Oid, Oid) {
    // SAFETY: by the contract; entries of the cache are never freed.
    unsafe {
        let flags = pg_sys::TYPECACHE_LT_OPR | pg_sys::TYPECACHE_GT_OPR;
        let entry = pg_sys::lookup_type_cache(type_oid, flags as i32);
        ((*entry).lt_opr, (*entry).gt_opr)
    }
}

/// What became of the order of the path that was chosen.
///
/// # Safety
/// As for [`sort_keys`].
pub(super) unsafe fn chosen(
    policy: &Policy,
    converter: &mut Converter,
    baserel: *mut pg_sys::RelOptInfo,
    path: *mut pg_sys::ForeignPath,
) -> Result<Vec<Key>> {
    // SAFETY: by the contract.
    unsafe { sort_keys(policy, converter, baserel, (*path).path.pathkeys) }
        .ok_or_else(|| FdwError::internal("the order of a query cannot be sent any more"))
}
