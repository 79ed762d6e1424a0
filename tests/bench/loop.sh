# Statements of one row each in a loop of PL/pgSQL, into few and many partitions; sourced by bench.sh.

# So many statements before those that are measured: they open connections, and reach all partitions.
warm=2000

# loop_one CANDIDATE ROUND. Those that wait for each row have fewer: the time for one is the same.
loop_one() {
    local name=$1 round=$2 policy=default rows=$loop_rows output ms left
    case $name in
    *transaction*) policy=transaction ;;
    *statement*) policy=statement rows=$((loop_rows / 10)) ;;
    postgres_fdw*) rows=$((loop_rows / 10)) ;;
    esac
    empty "$name"
    output=$(run_psql "$name" loop.sql -v policy=$policy -v warm=$warm -v rows="$rows") || die "loop with $name"
    ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output")
    left=$(stored "$name")
    [ "$left" = $((warm + rows)) ] || die "loop with $name: $left rows are stored, expected $((warm + rows))"
    psql_on main -v name="$name" -v round="$round" -v rows="$rows" -v ms="$ms" \
        <<<"INSERT INTO result VALUES ('loop', :'name', :round, :rows, :ms)"
}

bench_loop() {
    local numbers="8 64 256" number items=() loop_rows=$((ROWS < 100000 ? ROWS : 100000)) local ours waiting stock
    for number in $numbers; do
        local PARTITIONS=$number
        candidate_local "local, $number" "loop_local$number"
        candidate_foreign "transaction, $number" "loop_far$number" shard_fdw "$four"
        SCHEMA["statement, $number"]=loop_far$number STORE["statement, $number"]=loop_far${number}_remote
        SHARDS["statement, $number"]=main
        items+=("local, $number" "transaction, $number" "statement, $number")
        ! has_contrib postgres_fdw || {
            candidate_foreign "postgres_fdw, $number" "loop_stock$number" postgres_fdw "$four"
            items+=("postgres_fdw, $number")
        }
    done
    alternate loop loop_one "${items[@]}"

    printf '\n'
    head_row "INSERT of one row in a loop, four servers, partitions" "local: µs a row" "policy transaction: µs a row" "times local" \
        "times 8 partitions" "policy statement: µs a row" "postgres_fdw: times policy statement"
    for number in $numbers; do
        local="local, $number" ours="transaction, $number" waiting="statement, $number" stock="postgres_fdw, $number"
        row "$number" "$(seconds loop "$local" 1000000 1)" "$(seconds loop "$ours" 1000000 1)" "$(times loop "$ours" loop "$local")" \
            "$(times loop "$ours" loop "transaction, 8")" "$(seconds loop "$waiting" 1000000 1)" "$(times loop "$stock" loop "$waiting")"
        goal "loop, $number partitions, policy transaction, times local" "$(ratio loop "$ours" "$local")" "≤ 1.5"
        goal "loop, $number partitions, policy statement, how often as fast as postgres_fdw" "$(ratio loop "$stock" "$waiting")" "≥ 2"
    done
    goal "loop, policy transaction, 256 partitions, times 8" "$(ratio loop "transaction, 256" "transaction, 8")" "≤ 1.3"
    for number in $numbers; do
        drop_candidates "local, $number" "transaction, $number"
        ! has_contrib postgres_fdw || drop_candidates "postgres_fdw, $number"
    done
}
