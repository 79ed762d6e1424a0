//! The same statements on local tables and on foreign tables: the same rows, tags, errors and trigger effects?
//!
//! The scenarios are SQL files beside this one; `script.rs` says how they are written. `SCENARIO=text` runs only those
//! whose name contains the text.

mod common;
#[path = "compare/driver.rs"]
mod driver;
#[path = "compare/expressions.rs"]
mod expressions;
#[path = "compare/literals.rs"]
mod literals;
#[path = "compare/locks.rs"]
mod locks;
#[path = "compare/outcome.rs"]
mod outcome;
#[path = "compare/programs.rs"]
mod programs;
#[path = "compare/random.rs"]
mod random;
#[path = "compare/schema.rs"]
mod schema;
#[path = "compare/script.rs"]
mod script;
#[path = "compare/special.rs"]
mod special;
#[path = "compare/trees.rs"]
mod trees;
#[path = "compare/types.rs"]
mod types;
#[path = "compare/writer.rs"]
mod writer;

use driver::compare;

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare(include_str!(concat!("compare/", stringify!($name), ".sql")));
            }
        )*
    };
}

scenarios! {
    insert
    routing
    conflict
    upsert
    constraints
    update
    bounds
    moves
    direct
    changes
    keys
    merge
    copy
    columns
    views
    policies
    triggers
    nesting
    following
    cursors
    rescans
    sampling
    system_columns
    functions
    modified
    plans
    errors
    settings
}
