//! What PostgreSQL sees: the wrapper's SQL objects and callbacks, each a thin shell around the rooms below.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a callback reads many fields of core's structs under one and the same contract"
)]

mod bounds;
mod calls;
mod constraints;
mod direct;
mod direct_plan;
mod explain;
mod functions;
mod handler;
mod import;
mod insert;
mod inside;
mod load;
mod lock;
mod modify;
mod modify_row;
mod order;
mod plan;
mod repeat;
mod rescan;
#[cfg(feature = "pg18")]
mod routed;
mod row_move;
mod scan;
mod sequences;
mod system_columns;
mod tablesample;
mod truncate;
mod validator;

// The wrapper comes after the functions it names.
pgrx::extension_sql!(
    r#"
CREATE FOREIGN DATA WRAPPER shard_fdw HANDLER shard_fdw_handler VALIDATOR shard_fdw_validator;
"#,
    name = "wrapper",
    requires = ["handler", "validator"]
);
