#!/bin/bash
# Measures writes into foreign partitions beside local partitions, postgres_fdw, and a client that hands ready-made bytes
# to the shards, and prints Markdown tables of ratios.
#
#   [PG=15] [ROUNDS=5] [ROWS=1000000] bash tests/bench.sh [insert|copy|latency|partitions|memory|types|update|loop|seeds|sequence|all]   default: all
#
# One cluster serves as coordinator and, over TCP on 127.0.0.1, as all servers, so that all candidates have the same
# settings and the same disk; servers differ as objects, and each has a session of its own. In every round each candidate
# runs once, in a rotating order, into emptied tables and in a new connection, and what it says and stores is checked.
# Ratios are those of single rounds; shown are median, smallest and largest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/tools.sh"
. "$here/lib/cluster.sh"
. "$here/lib/compare.sh"
for part in load latency partitions memory types update loop seeds sequence; do . "$here/bench/$part.sh"; done

major=${PG:-15}
ROUNDS=${ROUNDS:-5}

case ${1:-all} in
insert | copy | latency | partitions | memory | types | update | loop | seeds | sequence) modes=$1 ;;
all) modes="insert copy latency partitions memory types update loop seeds sequence" ;;
*) die "usage: [PG=15] [ROUNDS=5] [ROWS=1000000] bench.sh [insert|copy|latency|partitions|memory|types|update|loop|seeds|sequence|all]" ;;
esac

stage "building shard_fdw for PostgreSQL $major in release mode"
install_release "$major"

stage "starting a cluster"
clusters_begin "$major"
# Locks for 1024 partitions of several candidates.
cluster_start main "fsync = off" "autovacuum = off" "shared_buffers = 512MB" "max_wal_size = 8GB" "jit = off" \
    "checkpoint_timeout = 1h" "max_parallel_workers_per_gather = 0" "max_locks_per_transaction = 1024" \
    "max_connections = 50"
note "$(value_on main 'SHOW server_version') on $(nproc) processors; fsync and autovacuum off, TCP on 127.0.0.1"
compare_begin "${ROWS:-1000000}"
four="main main main main"
psql_on main -c "CREATE EXTENSION shard_fdw"
has_contrib postgres_fdw || note "left out: postgres_fdw, this installation of PostgreSQL $major does not have it"

# What shard_fdw is meant to reach, and what it did.
goals=()
goal() { goals+=("$(row "$@")"); } # goal WHAT MEASURED GOAL

# knows_option OPTION VALUE: whether this shard_fdw takes it for a server.
knows_option() {
    psql_on main -c BEGIN -c "CREATE SERVER probe FOREIGN DATA WRAPPER shard_fdw OPTIONS ($1 '$2')" -c ROLLBACK \
        >/dev/null 2>&1 </dev/null
}

# knows_setting NAME
knows_setting() {
    [ "$(psql_on main -At -c "LOAD 'shard_fdw'" -c "SELECT current_setting('shard_fdw.$1', true) IS NOT NULL")" = t ]
}

for mode in $modes; do "bench_$mode"; done

stage "what shard_fdw is meant to reach: medians, PostgreSQL $major, $ROWS rows, rounds: $ROUNDS"
printf '\n'
head_row "" measured goal
printf '%s\n' "${goals[@]}"
printf '\nOK: every run reported and stored the rows it was given.\n'
