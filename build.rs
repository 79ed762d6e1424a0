//! Link settings: keep pgrx's schema section in the library, and load the libpq of the PostgreSQL that is built for.

use pgrx_pg_config::{PgConfigSelector, Pgrx};
use std::path::Path;

/// Directories the dynamic linker searches anyway: a run path to them would only pin the system's layout.
const SYSTEM_LIBDIRS: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-env-changed=PGRX_HOME");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-gc-sections");

    let selected: Vec<u16> = (15..=18)
        .filter(|major| std::env::var_os(format!("CARGO_FEATURE_PG{major}")).is_some())
        .collect();
    let &[major] = selected.as_slice() else {
        return Err(format!(
            "select exactly one of the features pg15, pg16, pg17 and pg18 (selected: {selected:?})"
        )
        .into());
    };

    let pgrx = Pgrx::from_config()?;
    let label = format!("pg{major}");
    let pg_config = pgrx
        .iter(PgConfigSelector::new(&label))
        .next()
        .ok_or_else(|| format!("cargo pgrx init has not been told about {label}"))??;
    let path = pg_config
        .path()
        .ok_or_else(|| format!("the pg_config of {label} has no path"))?;
    println!("cargo::rustc-env=SHARD_FDW_PG_CONFIG={}", path.display());

    let libdir = pg_config.lib_dir()?;
    if !is_system(&libdir) {
        println!("cargo::rustc-link-search=native={}", libdir.display());
        println!("cargo::rustc-link-arg=-Wl,-rpath,{}", libdir.display());
    }
    Ok(())
}

fn is_system(libdir: &Path) -> bool {
    SYSTEM_LIBDIRS.iter().any(|dir| Path::new(dir) == libdir)
        || libdir.parent().is_some_and(|parent| {
            SYSTEM_LIBDIRS.iter().any(|dir| Path::new(dir) == parent)
                && libdir
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().ends_with("-linux-gnu"))
        })
}
