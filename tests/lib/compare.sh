# Candidates that are measured beside each other; sourced after cluster.sh. A cluster "main" holds the source rows and
# the results.
#
# A candidate has a name to print, a schema on main with the partitioned table "rows", and the clusters of its shards.

declare -A SCHEMA=() SHARDS=()
SQL=$SHARD_FDW_ROOT/sql/bench

# compare_begin ROWS SHARD1 SHARD2: makes the source rows; candidates have their shards in these clusters.
compare_begin() {
    ROWS=$1 SHARD1=$2 SHARD2=$3
    psql_on main -v rows="$ROWS" <"$SQL/coordinator.sql"
}

candidate_local() {
    SCHEMA[$1]=local SHARDS[$1]=main
    psql_on main -v parent=local <"$SQL/local.sql"
}

# candidate_foreign NAME SCHEMA WRAPPER [BATCH_SIZE]: without a batch size, the wrapper's defaults.
candidate_foreign() {
    local name=$1 schema=$2 wrapper=$3 size=${4:-} shard
    local remote=${schema}_remote
    SCHEMA[$name]=$schema SHARDS[$name]=$(printf '%s\n' "$SHARD1" "$SHARD2" | sort -u)
    for shard in ${SHARDS[$name]}; do psql_on "$shard" -v schema="$remote" <"$SQL/shard.sql"; done
    psql_on main -v parent="$schema" -v remote="$remote" -v wrapper="$wrapper" \
        -v server1="${schema}_1" -v port1="${CLUSTER_PORT[$SHARD1]}" \
        -v server2="${schema}_2" -v port2="${CLUSTER_PORT[$SHARD2]}" <"$SQL/foreign.sql" 2>"$CLUSTERS/notices"
    [ -z "$size" ] || psql_on main -c "ALTER SERVER ${schema}_1 OPTIONS (ADD batch_size '$size')" \
        -c "ALTER SERVER ${schema}_2 OPTIONS (ADD batch_size '$size')"
}

# Where the rows of a candidate really are.
remote_schema() { if [ "$1" = "local partitions" ]; then echo local; else echo "${SCHEMA[$1]}_remote"; fi; }

empty() {
    local schema shard
    schema=$(remote_schema "$1")
    for shard in ${SHARDS[$1]}; do
        psql_on "$shard" -c "TRUNCATE $schema.rows_0, $schema.rows_1, $schema.rows_2, $schema.rows_3" -c CHECKPOINT
    done
}

stored() {
    local schema shard part total=0
    schema=$(remote_schema "$1")
    for shard in ${SHARDS[$1]}; do
        for part in 0 1 2 3; do
            total=$((total + $(value_on "$shard" "SELECT count(*) FROM $schema.rows_$part")))
        done
    done
    echo "$total"
}

# The first ROWS source rows as a file that the server can read.
csv() { # csv ROWS
    local file=$CLUSTERS/rows-$1.csv
    [ -e "$file" ] || psql_on main -c "COPY (SELECT * FROM source ORDER BY id LIMIT $1) TO '$file' (FORMAT csv)"
    echo "$file"
}

# measure WORK CANDIDATE ROUND ROWS: one run in a new connection, with the number of rows checked afterwards.
measure() {
    local work=$1 name=$2 round=$3 rows=$4 output ms tag
    empty "$name"
    output=$(as_postgres "$CLUSTER_BIN/psql" -X -v ON_ERROR_STOP=1 -h "$CLUSTERS" -p "${CLUSTER_PORT[main]}" -U postgres \
        -v parent="${SCHEMA[$name]}" -v file="$(csv "$rows")" <"$SQL/$work.sql") || die "$work with $name"
    ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output")
    tag=$(grep -E '^(INSERT|COPY) ' <<<"$output")
    case $tag in
    "INSERT 0 $rows" | "COPY $rows") ;;
    *) die "$work with $name says \"$tag\", expected $rows rows" ;;
    esac
    [ "$(stored "$name")" = "$rows" ] || die "$work with $name: $(stored "$name") rows are stored, expected $rows"
    psql_on main -v work="$work" -v name="$name" -v round="$round" -v rows="$rows" -v ms="$ms" \
        <<<"INSERT INTO result VALUES (:'work', :'name', :round, :rows, :ms)"
}

# report WORK TITLE: the Markdown table.
report() { psql_on main -At -v rows="$ROWS" -v work="$1" -v title="$2" <"$SQL/report.sql"; }

# ratio WORK CANDIDATE REFERENCE: the median of the rounds' ratios.
ratio() {
    psql_on main -At -v work="$1" -v a="$2" -v b="$3" <<'SQL'
SELECT to_char(percentile_cont(0.5) WITHIN GROUP (ORDER BY (a.ms / a.rows) / (b.ms / b.rows)), 'FM9990.00')
FROM result a JOIN result b USING (work, round)
WHERE work = :'work' AND a.candidate = :'a' AND b.candidate = :'b'
SQL
}
