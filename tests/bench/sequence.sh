# A local table whose key comes from a sequence, here or on a server; sourced by bench.sh.

# Rows of a statement.
sequence_rows=40000
sequence_ranges="1 10 100 1000 10000"

# ITEM is "near|CANDIDATE" or "far|CANDIDATE".
sequence_one() {
    local where=${1%%|*} name=${1#*|} rows=$sequence_rows range=1000 next="nextval('ids.ids')" trips
    if [[ $name = range* ]]; then
        range=${name#range } next="shard_fdw_nextval('ids_$where', 'ids.ids')"
    fi
    # So many round trips take long enough.
    [ "$where" = near ] || [ "$range" -gt 10 ] || rows=$((range * 1000))
    [ "$where" = near ] || cable trips >/dev/null
    measure "sequence $where" "$name" "$2" $rows sequence.sql $rows -v rows=$rows -v range=$range -v next="$next"
    [ "$where" = near ] || saw "sequence $where" "$name" "$2" trips "$(cable trips)"
}

bench_sequence() {
    local own="local sequence" range name items=() names=()
    cable_begin
    cable "delay 1" >/dev/null
    psql_on main -v near="${CLUSTER_PORT[main]}" -v far="$cable_port" <"$SQL/sequences.sql"
    for range in $sequence_ranges; do names+=("range $range"); done
    for name in "$own" "${names[@]}"; do SCHEMA[$name]=ids STORE[$name]=ids SHARDS[$name]=main; done
    items=("near|$own" "${names[@]/#/near|}" "${names[@]/#/far|}")
    alternate "values of sequences" sequence_one "${items[@]}"
    printf '\n'
    head_row "INSERT … SELECT, $sequence_rows rows, sequence_range" seconds "times a local sequence" \
        "1 ms each way: seconds" "times a local sequence" "round trips, with connecting"
    row "$own" "$(seconds "sequence near" "$own" $sequence_rows 3)" 1 – – –
    for range in $sequence_ranges; do
        name="range $range"
        row "$range" "$(seconds "sequence near" "$name" $sequence_rows 3)" \
            "$(times "sequence near" "$name" "sequence near" "$own")" \
            "$(seconds "sequence far" "$name" $sequence_rows 3)" \
            "$(times "sequence far" "$name" "sequence near" "$own")" \
            "$(seen "sequence far" "$name" trips)"
    done
    printf '\n(With 1 ms each way, range 1 is measured with 1,000 rows and range 10 with 10,000, and the time multiplied.)\n'
    goal "sequence_range 1000, times a local sequence" \
        "$(middle "$(times "sequence near" "range 1000" "sequence near" "$own")")" "≤ 1.15"
    goal "sequence_range 1000, how often as fast as range 1" \
        "$(middle "$(times "sequence near" "range 1" "sequence near" "range 1000")")" "≥ 30"
    goal "the same with 1 ms each way" "$(middle "$(times "sequence far" "range 1" "sequence far" "range 1000")")" "≥ 30"
    goal "round trips of $sequence_rows rows with the default" \
        "$(middle "$(seen "sequence far" "range 1000" trips)")" "≤ 60"
    psql_on main -c "SET client_min_messages = warning" -c "DROP SCHEMA ids CASCADE" -c "DROP SERVER ids_near CASCADE" \
        -c "DROP SERVER ids_far CASCADE"
}
