# UPDATE and DELETE that no shard can do alone, of 100,000 rows in four partitions; sourced by bench.sh.

# change_one CANDIDATE ROUND: one run of $verb, with the rows that are there afterwards checked.
change_one() {
    local name=$1 round=$2 ms tag left expected=$rows output
    [ "$verb" = update ] || expected=0
    empty "$name"
    output=$(run_psql "$name" "$verb.sql" -v rows="$rows") || die "$verb with $name"
    ms=$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output")
    tag=$(grep -E '^(UPDATE|DELETE) ' <<<"$output")
    [ "$tag" = "${verb^^} $rows" ] || die "$verb with $name says \"$tag\", expected $rows rows"
    left=$(stored "$name")
    [ "$left" = "$expected" ] || die "$verb with $name: $left rows are left, expected $expected"
    if [ "$verb" = update ]; then
        left=$(value_on main "SELECT count(*) FROM ${SCHEMA[$name]}.rows WHERE name LIKE '%!' AND amount = id % 1000 + 1")
        [ "$left" = "$rows" ] || die "update with $name: $left rows are as they should be, expected $rows"
    fi
    psql_on main -v work="$verb" -v name="$name" -v round="$round" -v rows="$rows" -v ms="$ms" \
        <<<"INSERT INTO result VALUES (:'work', :'name', :round, :rows, :ms)"
}

bench_update() {
    local verb rows=$((ROWS < 100000 ? ROWS : 100000)) stock=() ROWS names=("local partitions" shard_fdw)
    ROWS=$rows
    candidate_local "local partitions" local_change
    candidate_foreign shard_fdw far_change shard_fdw main
    if has_contrib postgres_fdw; then
        stock=(postgres_fdw)
        # The option is for filling the tables only.
        candidate_foreign postgres_fdw stock_change postgres_fdw main batch_size 1000
    fi
    for verb in update delete; do
        alternate "$verb" change_one "${names[@]}" "${stock[@]}"
        printf '\n'
        report "$verb" "${verb^^}, $rows rows, condition evaluated here" 1 "${names[@]}" "${stock[@]}"
        goal "${verb^^}, how often as fast as ${stock[*]:-postgres_fdw}" "$(ratio "$verb" "${stock[*]}" shard_fdw)" "≥ 10 on 15, ≥ 6 on 18"
        goal "${verb^^}, times local" "$(ratio "$verb" shard_fdw "local partitions")" "≤ 4"
    done
    drop_candidates "${names[@]}" "${stock[@]}"
}
