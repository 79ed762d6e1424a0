# The same rows into few and into many partitions; sourced by bench.sh.

# Whether shard_fdw_stats() tells how much waited at most.
knows_peak() {
    value_on main "SELECT coalesce(bool_or('peak_buffered_bytes' = ANY (proargnames)), false)
        FROM pg_proc WHERE proname = 'shard_fdw_stats'"
}

buffer_memory() {
    value_on main "LOAD 'shard_fdw'; SELECT pg_size_bytes(current_setting('shard_fdw.buffer_memory', true))"
}

# measure_peak WORK CANDIDATE ROUND ROWS FILE [ARGUMENT…]: a run of shard_fdw says it too.
measure_peak() {
    local peak=no bytes
    [[ $2 != shard_fdw* ]] || peak=$(knows_peak)
    measure "$1" "$2" "$3" "$4" "$5" "$4" -v peak="$peak" "${@:6}"
    bytes=$(sed -n 's/^peak //p' <<<"$OUTPUT")
    [ -z "$bytes" ] || saw "$1" "$2" "$3" buffered "$bytes"
}

partitions_one() { measure_peak partitions "$1" "$2" "$ROWS" partitions.sql; }

bench_partitions() {
    local numbers="8 64 256 1024" number items=() limit
    for number in $numbers; do
        local PARTITIONS=$number
        candidate_local "local, $number partitions" "local$number"
        candidate_foreign "shard_fdw, $number partitions" "far$number" shard_fdw "$four"
        items+=("local, $number partitions" "shard_fdw, $number partitions")
    done
    alternate partitions partitions_one "${items[@]}"

    limit=$(buffer_memory)
    printf '\n'
    head_row "INSERT … SELECT, $ROWS rows, four servers, partitions" "local: seconds" "shard_fdw: seconds" "times local" \
        "times 8 partitions" "local: times 8 partitions" "buffered at most, kB"
    for number in $numbers; do
        local near="local, $number partitions" far="shard_fdw, $number partitions"
        row "$number" "$(seconds partitions "$near")" "$(seconds partitions "$far")" \
            "$(times partitions "$far" partitions "$near")" \
            "$(times partitions "$far" partitions "shard_fdw, 8 partitions")" \
            "$(times partitions "$near" partitions "local, 8 partitions")" "$(seen partitions "$far" buffered 1024)"
    done
    [ -z "$limit" ] || printf '\n(buffer_memory: %s kB)\n' $((limit / 1024))
    for number in 64 256; do
        goal "$number partitions, times 8" \
            "$(ratio partitions "shard_fdw, $number partitions" "shard_fdw, 8 partitions")" "≤ 1.5"
    done
    goal "1024 partitions, times 8" "$(ratio partitions "shard_fdw, 1024 partitions" "shard_fdw, 8 partitions")" "≤ 2.5"
    goal "buffered at most with 1024 partitions, kB" \
        "$(middle "$(seen partitions "shard_fdw, 1024 partitions" buffered 1024)")" "≤ buffer_memory${limit:+, $((limit / 1024))}"
    drop_candidates "${items[@]}"
}
