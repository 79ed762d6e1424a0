# Candidates that are measured beside each other; sourced after cluster.sh. A cluster "main" holds the source rows and
# the results.
#
# A candidate has a name to print and, on main, a schema with the partitioned table "rows". Where its rows really are, a
# schema STORE in the clusters SHARDS holds nothing else. RUN, if it has one, is called instead of psql.

declare -A SCHEMA=() STORE=() SHARDS=() RUN=()
SQL=$SHARD_FDW_ROOT/sql/bench

# What candidates are made of from here on, and what they read.
SHAPE="id bigint NOT NULL, name text, amount int, at timestamptz"
PARTITIONS=4
SOURCE=source

# compare_begin ROWS CLUSTER…: makes the source rows; candidates may have their rows in these clusters.
compare_begin() {
    local cluster
    ROWS=$1
    for cluster in $(printf '%s\n' main "${@:2}" | sort -u); do psql_on "$cluster" <"$SQL/server.sql"; done
    psql_on main -v rows="$ROWS" <"$SQL/coordinator.sql"
}

# candidate_local NAME [SCHEMA]
candidate_local() {
    local schema=${2:-local}
    SCHEMA[$1]=$schema STORE[$1]=$schema SHARDS[$1]=main
    psql_on main -v parent="$schema" -v shape="$SHAPE" -v partitions="$PARTITIONS" <"$SQL/local.sql"
}

# candidate_foreign NAME SCHEMA WRAPPER SERVERS [OPTION VALUE]…: one server object for each of SERVERS, a list of
# clusters, or of CLUSTER:PORT where something else listens for them.
candidate_foreign() {
    local name=$1 schema=$2 wrapper=$3 servers=$4 server cluster ports='' options=''
    shift 4
    SCHEMA[$name]=$schema STORE[$name]=${schema}_remote
    SHARDS[$name]=$(tr ' ' '\n' <<<"$servers" | sed 's/:.*//' | sort -u)
    for cluster in ${SHARDS[$name]}; do
        psql_on "$cluster" -v schema="${STORE[$name]}" -v shape="$SHAPE" -v partitions="$PARTITIONS" <"$SQL/shard.sql"
    done
    for server in $servers; do
        case $server in
        *:*) ports+=,${server#*:} ;;
        *) ports+=,${CLUSTER_PORT[$server]} ;;
        esac
    done
    for (( ; $# > 0; )); do
        options+=", $1 '$2'"
        shift 2
    done
    psql_on main -v parent="$schema" -v remote="${STORE[$name]}" -v shape="$SHAPE" -v partitions="$PARTITIONS" \
        -v wrapper="$wrapper" -v ports="{${ports#,}}" -v options="$options" <"$SQL/foreign.sql"
}

# drop_candidates NAME…: frees what they take; results stay.
drop_candidates() {
    local name cluster
    for name in "$@"; do
        psql_on main -v parent="${SCHEMA[$name]}" <"$SQL/drop.sql"
        [ "${STORE[$name]}" != "${SCHEMA[$name]}" ] || continue
        for cluster in ${SHARDS[$name]}; do
            psql_on "$cluster" -c "SET client_min_messages = warning" -c "DROP SCHEMA ${STORE[$name]} CASCADE"
        done
    done
}

empty() {
    local shard
    for shard in ${SHARDS[$1]}; do psql_on "$shard" -At -c "SELECT bench.empty('${STORE[$1]}')" -c CHECKPOINT >/dev/null; done
}

stored() {
    local shard total=0
    for shard in ${SHARDS[$1]}; do total=$((total + $(value_on "$shard" "SELECT bench.stored('${STORE[$1]}')"))); done
    echo "$total"
}

# The first ROWS source rows as a file that the server can read.
csv() { # csv ROWS
    local file=$CLUSTERS/rows-$1.csv
    [ -e "$file" ] || psql_on main -c "COPY (SELECT * FROM source ORDER BY id LIMIT $1) TO '$file' (FORMAT csv)"
    echo "$file"
}

# run_psql CANDIDATE FILE [ARGUMENT…]: the SQL in a new connection; shows tags and times.
run_psql() {
    local name=$1 file=$2
    shift 2
    as_postgres "$CLUSTER_BIN/psql" -X -At -v ON_ERROR_STOP=1 -h "$CLUSTERS" -p "${CLUSTER_PORT[main]}" -U postgres \
        -v parent="${SCHEMA[$name]}" -v source="$SOURCE" "$@" <"$SQL/$file"
}

# measure WORK CANDIDATE ROUND ROWS [FILE [EACH [ARGUMENT…]]]: one run of FILE, of WORK.sql by default, with everything
# checked that tells how many rows went: statements of EACH rows, by default one of all. Leaves what it printed in OUTPUT.
measure() {
    local work=$1 name=$2 round=$3 rows=$4 file=${5:-$1.sql} each=${6:-$4} ms tags
    local arguments=("${@:7}")
    [ "$file" != copy.sql ] || arguments+=(-v "file=$(csv "$rows")")
    empty "$name"
    OUTPUT=$("${RUN[$name]:-run_psql}" "$name" "$file" "${arguments[@]}") || die "$work with $name"
    ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$OUTPUT")
    tags=$(grep -E '^(INSERT|COPY) ' <<<"$OUTPUT" | sort | uniq -c | sed 's/^ *//')
    case $tags in
    "$((rows / each)) INSERT 0 $each" | "$((rows / each)) COPY $each") ;;
    *) die "$work with $name says \"$tags\", expected $((rows / each)) times $each rows" ;;
    esac
    [ "$(stored "$name")" = "$rows" ] || die "$work with $name: $(stored "$name") rows are stored, expected $rows"
    psql_on main -v work="$work" -v name="$name" -v round="$round" -v rows="$rows" -v ms="$ms" \
        <<<"INSERT INTO result VALUES (:'work', :'name', :round, :rows, :ms)"
}

# saw WORK CANDIDATE ROUND NAME VALUE: something else that a run has shown.
saw() {
    psql_on main -v work="$1" -v candidate="$2" -v round="$3" -v name="$4" -v value="$5" \
        <<<"INSERT INTO seen VALUES (:'work', :'candidate', :round, :'name', :value)"
}

# alternate TITLE COMMAND ITEM…: all rounds. COMMAND gets an item and the number of the round, and each round has all
# items, in a rotating order.
alternate() {
    local title=$1 command=$2 items=("${@:3}") round i
    for ((round = 1; round <= ROUNDS; round++)); do
        stage "$title, round $round of $ROUNDS"
        for ((i = 0; i < ${#items[@]}; i++)); do "$command" "${items[(i + round) % ${#items[@]}]}" "$round"; done
    done
}

# What was measured, as "median (smallest–largest)".

# times [WORK] CANDIDATE WORK REFERENCE: time per row, as multiples of the reference's.
times() { value_on main "SELECT bench.spread(bench.times('$1', '$2', '$3', '$4'), 2)"; }

# seconds WORK CANDIDATE [ROWS [DIGITS]]: for so many rows, by default all.
seconds() { value_on main "SELECT bench.spread(bench.seconds('$1', '$2', ${3:-$ROWS}), ${4:-2})"; }

# seen WORK CANDIDATE NAME [UNIT [DIGITS]]
seen() {
    value_on main "SELECT bench.spread(array_agg(v / ${4:-1}), ${5:-0}) FROM unnest(bench.seen('$1', '$2', '$3')) AS v"
}

# middle of one of the above, without the spread.
middle() { echo "${1%% (*}"; }

# ratio WORK CANDIDATE REFERENCE: the median of the rounds' ratios.
ratio() { middle "$(times "$1" "$2" "$1" "$3")"; }

# fastest WORK CANDIDATE…: the one with the smallest median, if one was measured.
fastest() {
    local work=$1 name
    shift
    for name in "$@"; do
        printf '%s\t%s\n' "$(middle "$(seconds "$work" "$name" 1000000000 0)")" "$name"
    done | sed '/^–/d' | sort -n | head -n 1 | cut -f 2
}

# row CELL…: of a Markdown table; head the same with the line below.
row() {
    printf '|'
    printf ' %s |' "$@"
    printf '\n'
}
head_row() {
    row "$@"
    printf '|'
    printf -- '---|%.0s' "$@"
    printf '\n'
}

# report WORK TITLE REFERENCES CANDIDATE…: REFERENCES is how many of the candidates are references, from the first on.
report() {
    local work=$1 title=$2 references=("${@:4:$3}") name reference cells scaled
    cells=()
    for reference in "${references[@]}"; do cells+=("times $reference"); done
    head_row "$title" seconds "${cells[@]}"
    for name in "${@:4}"; do
        scaled=$(value_on main "SELECT ' ¹' FROM result WHERE work = '$work' AND candidate = '$name' AND rows < $ROWS LIMIT 1")
        cells=()
        for reference in "${references[@]}"; do
            if [ "$name" = "$reference" ]; then cells+=(1); else cells+=("$(times "$work" "$name" "$work" "$reference")"); fi
        done
        row "$name$scaled" "$(seconds "$work" "$name")" "${cells[@]}"
    done
}
