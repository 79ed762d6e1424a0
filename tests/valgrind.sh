#!/bin/bash
# Runs valgrind.sql on a server under valgrind, which knows PostgreSQL's memory contexts, and reports each use of memory that
# is free or has no value. Installs what it needs first (Debian 12, as root) and builds the server from Debian's sources, once.
#
#   bash tests/valgrind.sh [15|18]      default: 18
#
# What valgrind says stays in $CARGO_TARGET_DIR/run/valgrind-VERSION.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/apt.sh"
. "$here/lib/servers.sh"
. "$here/lib/cluster.sh"
cd "$SHARD_FDW_ROOT"
target=${CARGO_TARGET_DIR:-$SHARD_FDW_ROOT/target}
major=${1:-18}
case $major in 15 | 18) ;; *) die "usage: valgrind.sh [15|18]" ;; esac
logs=$target/run/valgrind-$major
rm -rf "$logs"
mkdir -p "$logs"

stage "server for valgrind"
bash "$here/setup.sh" "$major" >"$logs/setup.log" 2>&1 || die "the installation: see $logs/setup.log"
command -v valgrind >/dev/null || quietly "$logs/apt.log" "apt-get install valgrind" apt-get install -y valgrind
build_server valgrind "$major"

stage "installation of the extension"
pg_config=$(built_pg_config valgrind "$major")
export CARGO_TARGET_DIR=$target/valgrind PGRX_HOME=$SHARD_FDW_CACHE/valgrind/pgrx
quietly "$logs/install.log" "cargo pgrx install" \
    cargo pgrx install --pg-config "$pg_config" --no-default-features --features "pg$major"

stage "statements"
clusters_begin "$major" "$pg_config"
cat >"$CLUSTERS/postgres" <<SH
#!/bin/sh
exec valgrind --quiet --trace-children=yes --leak-check=no --num-callers=40 \\
    --suppressions=$SHARD_FDW_CACHE/valgrind/$major/valgrind.supp \\
    --error-markers=VALGRIND-BEGIN,VALGRIND-END --log-file=$CLUSTERS/valgrind.%p \\
    $CLUSTER_BIN/postgres "\$@"
SH
chmod 755 "$CLUSTERS/postgres"
CLUSTER_SERVER=$CLUSTERS/postgres
cluster_start main "autovacuum = off" "fsync = off" "max_prepared_transactions = 10" "log_min_messages = warning"
status=0
psql_on main -v socket="$CLUSTERS" -v port="${CLUSTER_PORT[main]}" -v file="$CLUSTERS/rows" \
    <"$here/valgrind.sql" >"$logs/psql.out" 2>&1 || status=$?
as_postgres "$CLUSTER_BIN/pg_ctl" -D "$CLUSTERS/main" -m fast -w stop >/dev/null
unset 'CLUSTER_PORT[main]'
cp "$CLUSTERS/main.log" "$logs/server.log"
cat "$CLUSTERS"/valgrind.* >"$logs/valgrind.log"

stage "verdict"
errors=$(grep -c VALGRIND-BEGIN "$logs/valgrind.log" || true)
if [ "$errors" != 0 ]; then
    head -n 200 "$logs/valgrind.log"
    die "$errors errors in $logs/valgrind.log"
elif [ "$status" != 0 ]; then
    tail -n 20 "$logs/psql.out" "$logs/server.log"
    die "a statement"
fi
echo "RESULT: PASSED"
