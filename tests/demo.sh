#!/bin/bash
# Shows shard_fdw at work on Debian 12, as root, from nothing: installs what is missing, builds, starts a coordinator and
# two shards as three clusters of their own, runs the SQL of the README's quick start (sql/demo) with 1,000,000 rows by
# INSERT … SELECT and 1,000,000 by COPY, compares what the shards then hold with what they must hold, lets a second
# coordinator load another table at the same time with ids from one sequence, and measures the load of before beside local
# partitions and postgres_fdw. The clusters are removed at the end; what was installed stays.
#
#   bash tests/demo.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/cluster.sh"
. "$here/lib/compare.sh"

major=15
rows=1000000 # as in sql/demo/load.sql: so many by INSERT and so many by COPY
ids=200000     # as in sql/demo/ids_*.sql: so many in each of four loads at once
rounds=3
# postgres_fdw sends the rows of a COPY one by one before PostgreSQL 16: a part of them tells the time per row.
copy_part=20000
demo=$SHARD_FDW_ROOT/sql/demo
mismatches=0

[ $# = 0 ] || die "usage: demo.sh"

# check WHAT EXPECTED SEEN
check() {
    if [ "$2" = "$3" ]; then
        printf '    ok        %-42s %s\n' "$1" "$3"
    else
        printf '    MISMATCH  %-42s %s, expected %s\n' "$1" "$3" "$2"
        mismatches=$((mismatches + 1))
    fi
}

# Runs a file of the quick start and shows it.
show() { # show CLUSTER FILE [ARGUMENT…]
    local cluster=$1 file=$2
    shift 2
    printf '%s\n\n' "--- $cluster: sql/demo/$file"
    sed 's/^/    /' "$demo/$file"
    printf '\n'
    psql_on "$cluster" "$@" <"$demo/$file"
}

bash "$here/setup.sh" $major

stage "building and installing shard_fdw in release mode (the first time, about two minutes)"
install_release $major

stage "starting a coordinator and two shards"
clusters_begin $major
for name in main shard1 shard2; do
    cluster_start $name "fsync = off" "autovacuum = off" "shared_buffers = 256MB" "max_wal_size = 8GB" "jit = off" \
        "checkpoint_timeout = 1h"
    note "$name: $(value_on $name 'SHOW server_version'), 127.0.0.1:${CLUSTER_PORT[$name]}"
done

stage "the sharded table: four foreign partitions, two on each shard"
show shard1 shard1.sql
show shard2 shard2.sql
show main coordinator.sql -v shard1_host=127.0.0.1 -v shard1_port="${CLUSTER_PORT[shard1]}" \
    -v shard2_host=127.0.0.1 -v shard2_port="${CLUSTER_PORT[shard2]}"

stage "loading $rows rows by INSERT … SELECT and $rows by COPY"
# The same rows in local partitions say what must arrive, and where.
candidate_local expected
psql_on main -v rows=$rows <<'SQL'
INSERT INTO local.rows
SELECT id, 'event ' || id, id % 1000, timestamptz '2024-01-01 00:00+00' + id * interval '1 second'
FROM generate_series(1, 2 * :rows) AS id;
SQL
as_postgres "$CLUSTER_BIN/psql" -X -e -v ON_ERROR_STOP=1 -h "$CLUSTERS" -p "${CLUSTER_PORT[main]}" -U postgres \
    -c '\timing on' -f "$demo/load.sql" 2>&1 | tee "$CLUSTERS/load.out" |
    sed 's/^/    /'

stage "asking the shards themselves"
sums="count(*), sum(id), sum(amount), sum(hashtextextended(name, 0)), min(at), max(at)"
check "tag of the INSERT" "INSERT 0 $rows" "$(grep -E -m 1 '^INSERT [0-9]' "$CLUSTERS/load.out")"
check "tags of the COPY to and from the file" "COPY $rows COPY $rows" \
    "$(grep -E '^COPY [0-9]' "$CLUSTERS/load.out" | paste -s -d ' ')"
check "rows that shard_fdw_stats() counted" $((2 * rows)) \
    "$(awk -F '|' '$1 ~ /^ shard[12] / { n += $3 } END { print n + 0 }' "$CLUSTERS/load.out")"
total=0
for part in 0 1 2 3; do
    shard=shard$((part / 2 + 1))
    check "events_$part on $shard: rows" "$(value_on main "SELECT count(*) FROM local.rows_$part")" \
        "$(value_on $shard "SELECT count(*) FROM events_$part")"
    [ "$(value_on main "SELECT $sums FROM local.rows_$part")" = "$(value_on $shard "SELECT $sums FROM events_$part")" ] ||
        check "events_$part on $shard: contents" "the rows that were loaded" "other rows"
    total=$((total + $(value_on $shard "SELECT count(*) FROM events_$part")))
done
check "all shards: rows" $((2 * rows)) $total
check "SELECT count(*) FROM events" $((2 * rows)) "$(value_on main 'SELECT count(*) FROM events')"

stage "EXPLAIN of an INSERT into one of the foreign partitions"
show main explain.sql -At | tee "$CLUSTERS/explain.out"
expected=$(value_on main "SELECT count(*) FROM generate_series($((2 * rows + 1)), $((2 * rows + 100000))) AS id
    WHERE satisfies_hash_partition('events'::regclass, 4, 1, id::bigint)")
printf '\n'
check "Remote Rows of it" "$expected" "$(sed -n 's/^ *Remote Rows: //p' "$CLUSTERS/explain.out")"
check "rows of it on shard1" "$expected" "$(value_on shard1 "SELECT count(*) FROM events_1 WHERE id > $((2 * rows))")"

stage "two coordinators load one table at the same time, with ids from a sequence on shard1"
cluster_start main2 "fsync = off" "autovacuum = off" "max_wal_size = 8GB" "jit = off" "checkpoint_timeout = 1h"
note "main2: a second coordinator, 127.0.0.1:${CLUSTER_PORT[main2]}"
show shard1 ids_shard1.sql
show shard2 ids_shard2.sql
show main2 coordinator.sql -v shard1_host=127.0.0.1 -v shard1_port="${CLUSTER_PORT[shard1]}" \
    -v shard2_host=127.0.0.1 -v shard2_port="${CLUSTER_PORT[shard2]}"
for name in main main2; do show $name ids_coordinator.sql; done
printf '%s\n\n' "--- main and main2, all four at once: sql/demo/ids_insert.sql, sql/demo/ids_copy.sql"
sed 's/^/    /' "$demo/ids_insert.sql" "$demo/ids_copy.sql"
loads=()
for name in main main2; do
    for way in insert copy; do
        psql_on $name -v QUIET=off -e <"$demo/ids_$way.sql" >"$CLUSTERS/ids.$name.$way" 2>&1 &
        loads+=($!)
    done
done
for load in "${loads[@]}"; do wait "$load" || true; done
cat "$CLUSTERS"/ids.* | sed 's/^/    /'
check "tags of the loads" "2 COPY $ids 2 INSERT 0 $ids" \
    "$(cat "$CLUSTERS"/ids.* | grep -E '^(COPY|INSERT) [0-9]' | sort | uniq -c | sed 's/^ *//' | paste -s -d ' ')"
check "orders on both shards" $((4 * ids)) \
    $(($(value_on shard1 "SELECT count(*) FROM orders_0") + $(value_on shard2 "SELECT count(*) FROM orders_1")))
for name in main main2; do
    check "different ids, seen by $name" "$((4 * ids))" "$(value_on $name "SELECT count(DISTINCT id) FROM orders")"
done

stage "times of $rows rows beside local partitions and postgres_fdw (batch_size 1000), $rounds rounds"
psql_on main -c "DROP SCHEMA local CASCADE" -c "DROP TABLE events" 2>"$CLUSTERS/notices"
compare_begin $rows shard1 shard2
candidate_local "local partitions"
candidate_foreign shard_fdw sharded shard_fdw "shard1 shard2"
stock="postgres_fdw, batch_size 1000"
candidate_foreign "$stock" stock postgres_fdw "shard1 shard2" batch_size 1000
for ((round = 1; round <= rounds; round++)); do
    note "round $round of $rounds"
    for name in "local partitions" shard_fdw "$stock"; do
        measure insert "$name" $round $rows
        if [ "$name" = "$stock" ]; then
            measure copy "$name" $round $copy_part
        else
            measure copy "$name" $round $rows
        fi
    done
done
printf '\n'
report insert "INSERT … SELECT, $rows rows" 2 "local partitions" shard_fdw "$stock"
printf '\n'
report copy "COPY from CSV, $rows rows" 2 "local partitions" shard_fdw "$stock"
printf '\n¹ measured with %d rows and multiplied: postgres_fdw sends COPY row by row before PostgreSQL 16.\n' $copy_part

stage "verdict"
note "INSERT … SELECT: $(ratio insert "$stock" shard_fdw) times as fast as postgres_fdw," \
    "$(ratio insert shard_fdw "local partitions") times the time of local partitions"
note "COPY: $(ratio copy "$stock" shard_fdw) times as fast as postgres_fdw," \
    "$(ratio copy shard_fdw "local partitions") times the time of local partitions"
if [ $mismatches != 0 ]; then
    printf '\nDEMO FAILED: %d numbers are not as expected\n' $mismatches
    exit 1
fi
printf '\nDEMO PASSED: %d rows were loaded, and each is on the shard it belongs to\n' $((2 * rows))
