# How much the way to the shards costs, and how rows are sent when they are few; sourced by bench.sh.

# Milliseconds each way.
delays="0 0.2 1 5"

# The cable between coordinator and shards, if there is none yet: see tests/tools/delay.rs.
cable_begin() {
    [ -z "${cable_port:-}" ] || return 0
    coproc CABLE { exec "$(tool delay)" "${CLUSTER_PORT[main]}"; }
    read -r cable_port <&"${CABLE[0]}" || die "the program delay does not start"
}

# cable COMMAND: its answer.
cable() {
    local answer
    echo "$1" >&"${CABLE[1]}"
    read -r answer <&"${CABLE[0]}" || die "the program delay is gone"
    echo "$answer"
}

# ITEM is "DELAY|CANDIDATE".
latency_one() {
    local delay=${1%%|*} name=${1#*|} rows=$ROWS SOURCE=source
    [ "$delay" = no ] || cable "delay $delay" >/dev/null
    [[ $name != postgres_fdw* ]] || SOURCE=source_part rows=$part_rows
    measure "latency $delay" "$name" "$2" "$rows" insert.sql
}

single_one() {
    local delay=${1%%|*} name=${1#*|} trips
    local one=("single $delay" "$name" "$2" $((single_rows + 1)) single.sql 1 -v rows="$single_rows")
    if [ "$delay" = no ]; then
        measure "${one[@]}"
        return
    fi
    cable "delay $delay" >/dev/null
    # What the connection, the first row and the end of the transaction take.
    empty "$name"
    cable trips >/dev/null
    run_psql "$name" single.sql -v rows=0 >/dev/null
    trips=$(cable trips)
    measure "${one[@]}"
    saw "single $delay" "$name" "$2" trips "$((1000 * ($(cable trips) - trips) / single_rows))e-3"
}

size_one() { measure "size $size" "$1" "$2" $((size * repeats)) sizes.sql "$size" -v size="$size" -v repeats="$repeats"; }

bench_latency() {
    cable_begin
    bench_cable
    bench_singles
    bench_sizes
}

# The same INSERT, farther and farther away.
bench_cable() {
    local ours="shard_fdw, four servers, delayed" direct="shard_fdw, four servers" stock="postgres_fdw, batch_size 1000"
    local part_rows=$((ROWS > 10 ? ROWS / 5 : ROWS)) delay items far names=("$direct" "$ours")
    candidate_foreign "$direct" direct shard_fdw "$four"
    candidate_foreign "$ours" far shard_fdw "${four//main/main:$cable_port}"
    if has_contrib postgres_fdw; then
        candidate_foreign "$stock" stock postgres_fdw "main:$cable_port" batch_size 1000
        names+=("$stock")
    fi
    psql_on main -c "CREATE TABLE source_part AS SELECT * FROM source LIMIT $part_rows" -c "ANALYZE source_part"

    items=("no|$direct")
    far=("${names[@]:1}")
    for delay in $delays; do items+=("${far[@]/#/$delay|}"); done
    alternate latency latency_one "${items[@]}"
    printf '\n'
    head_row "INSERT … SELECT, $ROWS rows, delay each way" seconds "times without delay" \
        "$stock: seconds" "times without delay" "times shard_fdw"
    row "none, and no cable" "$(seconds "latency no" "$direct")" "$(times "latency no" "$direct" "latency 0" "$ours")" – – –
    for delay in $delays; do
        row "$delay ms" "$(seconds "latency $delay" "$ours")" "$(times "latency $delay" "$ours" "latency 0" "$ours")" \
            "$(seconds "latency $delay" "$stock")" "$(times "latency $delay" "$stock" "latency 0" "$stock")" \
            "$(times "latency $delay" "$stock" "latency $delay" "$ours")"
    done
    printf '\n(shard_fdw with four servers; postgres_fdw with one and %s rows, multiplied.)\n' "$part_rows"
    goal "INSERT, four servers, 1 ms each way, times without delay" \
        "$(middle "$(times "latency 1" "$ours" "latency 0" "$ours")")" "≤ 1.25"
    goal "INSERT, four servers, 5 ms each way, times without delay" \
        "$(middle "$(times "latency 5" "$ours" "latency 0" "$ours")")" "≤ 1.5"
    drop_candidates "${names[@]}"
}

# One row at a time, in a transaction that has sent one already.
bench_singles() {
    local single_rows=$((ROWS / 500 > 100 ? ROWS / 500 : 100)) delay server wrapper items=() names=() label
    for wrapper in shard_fdw postgres_fdw; do
        has_contrib $wrapper || continue
        candidate_foreign "$wrapper, near" "near_$wrapper" $wrapper main
        candidate_foreign "$wrapper, far" "far_$wrapper" $wrapper "main:$cable_port"
        names+=("$wrapper, near" "$wrapper, far")
        items+=("no|$wrapper, near" "1|$wrapper, far")
    done
    alternate "single rows" single_one "${items[@]}"
    printf '\n'
    head_row "INSERT of one row in an open transaction, after the first" "ms a row" "round trips a row" "times shard_fdw"
    for delay in no 1; do
        if [ $delay = no ]; then server=near label="no delay"; else server=far label="$delay ms each way"; fi
        for wrapper in shard_fdw postgres_fdw; do
            row "$wrapper, $label" "$(seconds "single $delay" "$wrapper, $server" 1000 3)" \
                "$(seen "single $delay" "$wrapper, $server" trips 1 2)" \
                "$(times "single $delay" "$wrapper, $server" "single $delay" "shard_fdw, $server")"
        done
        goal "single row in a transaction, $label, how often as fast as postgres_fdw" \
            "$(ratio "single $delay" "postgres_fdw, $server" "shard_fdw, $server")" "≥ 2"
    done
    goal "single row in a transaction, round trips" "$(middle "$(seen "single 1" "shard_fdw, far" trips 1 2)")" 1
    drop_candidates "${names[@]}"
}

# From a single row to all of them: does shard_fdw choose well how to send them?
bench_sizes() {
    local ours="shard_fdw, auto" others=() stock=() name size repeats cells worst best
    candidate_foreign "$ours" auto shard_fdw main
    for name in insert copy; do
        knows_option transport $name || continue
        candidate_foreign "transport $name" "$name" shard_fdw main transport $name
        others+=("transport $name")
    done
    ! has_contrib postgres_fdw || for size in 100 1000 10000; do
        candidate_foreign "postgres_fdw, $size" "pg$size" postgres_fdw main batch_size "$size"
        stock+=("postgres_fdw, $size")
    done
    psql_on main -c "CREATE INDEX source_id ON source (id)" -c "ANALYZE source"

    local sizes=()
    for size in 1 10 100 1000 10000 100000; do [ $size -ge "$ROWS" ] || sizes+=("$size"); done
    sizes+=("$ROWS")
    for size in "${sizes[@]}"; do
        size_repeats
        alternate "statements of $size rows, $repeats times" size_one "$ours" "${others[@]}" "${stock[@]}"
    done

    printf '\n'
    cells=()
    for name in "${others[@]}" "${stock[@]}"; do cells+=("$name: times auto"); done
    head_row "INSERT … SELECT, rows in a statement" "auto: ms a statement" "${cells[@]}"
    worst=0
    for size in "${sizes[@]}"; do
        cells=()
        for name in "${others[@]}" "${stock[@]}"; do cells+=("$(times "size $size" "$name" "size $size" "$ours")"); done
        row "$size" "$(seconds "size $size" "$ours" $((size * 1000)) 2)" "${cells[@]}"
        best=$(fastest "size $size" "${stock[@]}")
        case $size in
        100 | 1000 | 10000) goal "statements of $size rows, times ${best:-postgres_fdw}" "$(ratio "size $size" "$ours" "$best")" "≤ 1" ;;
        esac
    done
    printf '\n(One server; each statement is a transaction of its own, and the connection is open before.)\n'
    drop_candidates "$ours" "${others[@]}" "${stock[@]}"
    psql_on main -c "DROP INDEX source_id"
}

# So many statements that their noise evens out.
size_repeats() {
    repeats=$((ROWS * 3 / 10 / size))
    [ "$repeats" -ge 1 ] || repeats=1
    [ "$repeats" -le 500 ] || repeats=500
}
