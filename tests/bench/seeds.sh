# What flush policies make of statements that call functions; sourced by bench.sh.

# seeds_one CANDIDATE ROUND: "POLICY|SEED|…".
seeds_one() {
    local policy=${1%%|*} seed=${1#*|} round=$2 name=seeds output
    empty $name
    output=$(run_psql $name seeds.sql -v policy="$policy" -v rows="$seed_rows" -v seed="$seed") || die "seed \"$seed\""
    [ "$(stored $name)" = "$seed_rows" ] || die "seed \"$seed\": $(stored $name) rows are stored, expected $seed_rows"
    saw "seeds $policy" "$seed" "$round" flushes "$(sed -n 's/^flushes //p' <<<"$output")"
    saw "seeds $policy" "$seed" "$round" batches "$(sed -n 's/^batches //p' <<<"$output")"
    saw "seeds $policy" "$seed" "$round" trips "$(sed -n 's/^trips //p' <<<"$output")"
    psql_on main -v work="seeds $policy" -v name="$seed" -v round="$round" -v rows="$seed_rows" \
        -v ms="$(sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' <<<"$output")" \
        <<<"INSERT INTO result VALUES (:'work', :'name', :round, :rows, :ms)"
}

bench_seeds() {
    local seed_rows=$((ROWS < 10000 ? ROWS : 10000)) seeds=(nextval plpgsql ordered sql) titles seed policy items=() i cells
    titles=("nextval('s')" "a PL/pgSQL function" "the same, ORDER BY" "an SQL function")
    candidate_foreign seeds seeds shard_fdw main batch_size 1000 transport insert
    psql_on main <"$SQL/seed_functions.sql"
    for seed in "${seeds[@]}"; do items+=("call|$seed" "statement|$seed"); done
    alternate seeds seeds_one "${items[@]}"
    printf '\n'
    head_row "INSERT … SELECT of $seed_rows rows, one server, with" "call: flushes" "statements with rows" "round trips" \
        "ms" "statement: flushes" "statements with rows" "round trips" "ms"
    for ((i = 0; i < ${#seeds[@]}; i++)); do
        cells=()
        for policy in call statement; do
            for seen in flushes batches trips; do cells+=("$(middle "$(seen "seeds $policy" "${seeds[i]}" $seen)")"); done
            cells+=("$(middle "$(seconds "seeds $policy" "${seeds[i]}" $((seed_rows * 1000)) 0)")")
        done
        row "${titles[i]}" "${cells[@]}"
    done
    drop_candidates seeds
}
