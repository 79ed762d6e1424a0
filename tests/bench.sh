#!/bin/bash
# Measures writes into four foreign partitions beside local partitions and beside postgres_fdw, and prints ratios.
#
#   [PG=15] [ROUNDS=5] [ROWS=1000000] bash tests/bench.sh [insert|copy|all]      default: all
#
# One cluster serves as coordinator and, over TCP on 127.0.0.1, as two servers with two partitions each, so that all
# candidates have the same settings and the same disk. In every round each candidate runs once, in a rotating order, into
# emptied tables and in a new connection. Ratios are those of single rounds; shown are median, smallest and largest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/cluster.sh"
. "$here/lib/compare.sh"

major=${PG:-15}
rounds=${ROUNDS:-5}
rows=${ROWS:-1000000}
# postgres_fdw sends the rows of a COPY one by one before PostgreSQL 16: a part of them tells the time per row.
copy_part=20000

case ${1:-all} in
insert | copy) works=$1 ;;
all) works="insert copy" ;;
*) die "usage: [PG=15] [ROUNDS=5] [ROWS=1000000] bench.sh [insert|copy|all]" ;;
esac

stage "building shard_fdw for PostgreSQL $major in release mode"
install_release "$major"

stage "starting a cluster"
clusters_begin "$major"
cluster_start main "fsync = off" "autovacuum = off" "shared_buffers = 512MB" "max_wal_size = 8GB" "jit = off" \
    "checkpoint_timeout = 1h" "max_parallel_workers_per_gather = 0"
note "$(value_on main 'SHOW server_version') on $(nproc) processors; fsync and autovacuum off, TCP on 127.0.0.1"
compare_begin "$rows" main main

foreign=()
candidate_local "local partitions"
candidate_foreign shard_fdw sharded shard_fdw
if has_contrib postgres_fdw; then
    for size in 100 1000 10000; do
        name="postgres_fdw, batch_size $size"
        candidate_foreign "$name" "stock$size" postgres_fdw "$size"
        foreign+=("$name")
    done
else
    note "skipped: postgres_fdw, this installation of PostgreSQL $major does not have it"
fi

# run WORK ROUND CANDIDATE
run() {
    local n=$rows
    [ "$1" != copy ] || [ "$major" -gt 15 ] || [[ $3 != postgres_fdw* ]] || n=$((copy_part < rows ? copy_part : rows))
    measure "$1" "$3" "$2" "$n"
}

for work in $works; do
    candidates=("local partitions" shard_fdw "${foreign[@]}")
    if [ "$work" = copy ] && [ "$major" = 15 ]; then
        # batch_size plays no part there.
        candidates=("local partitions" shard_fdw)
        [ ${#foreign[@]} = 0 ] || candidates+=("${foreign[1]}")
    fi
    for ((round = 1; round <= rounds; round++)); do
        stage "$work, round $round of $rounds"
        for ((i = 0; i < ${#candidates[@]}; i++)); do
            run "$work" "$round" "${candidates[(i + round) % ${#candidates[@]}]}"
        done
    done
done

for work in $works; do
    case $work in
    insert) title="INSERT … SELECT, $rows rows" ;;
    copy) title="COPY from CSV, $rows rows" ;;
    esac
    stage "$title, PostgreSQL $major, $rounds rounds"
    report "$work" "$title"
    if [ "$work" = copy ] && [ "$major" = 15 ] && [ ${#foreign[@]} != 0 ]; then
        printf '\n¹ measured with %s rows and multiplied: postgres_fdw sends COPY row by row before PostgreSQL 16.\n' \
            "$((copy_part < rows ? copy_part : rows))"
    fi
done
printf '\nOK: every run reported and stored the rows it was given.\n'
