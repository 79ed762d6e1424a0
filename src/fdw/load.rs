//! What happens when the library is loaded.

use crate::model::error::{FdwError, Result};
use crate::pg::{guc, raise, version};

/// The first release whose executor keeps pending inserts in the lists this library registers with.
const OLDEST_SERVER: i32 = 15_00_02;

/// Called by the server when it loads the library.
///
/// # Safety
/// To be called by the server, once per process.
#[no_mangle]
pub unsafe extern "C-unwind" fn _PG_init() {
    // SAFETY: this frame holds no destructors.
    unsafe {
        raise::guarded(|| {
            check_server(version::server_version()?)?;
            guc::register();
            crate::fdw::constraints::register();
            #[cfg(feature = "pg18")]
            crate::fdw::routed::register();
            Ok(())
        })
    }
}

/// Refuses a server that is too old; `version` as in server_version_num.
fn check_server(version: i32) -> Result<()> {
    if version >= OLDEST_SERVER {
        return Ok(());
    }
    Err(
        FdwError::unsupported("shard_fdw requires PostgreSQL 15.2 or later").with_detail(format!(
            "The server is PostgreSQL {}.{}.",
            version / 10_000,
            version % 10_000
        )),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_before_15_2_are_refused() {
        for version in [150_002, 150_020, 160_000, 180_006] {
            assert!(check_server(version).is_ok(), "{version}");
        }
        for (version, shown) in [(150_001, "15.1"), (150_000, "15.0"), (140_020, "14.20")] {
            let diag = check_server(version).expect_err("too old").diag();
            let detail = String::from_utf8_lossy(&diag.detail.unwrap_or_default()).into_owned();
            assert_eq!(detail, format!("The server is PostgreSQL {shown}."));
        }
    }
}
