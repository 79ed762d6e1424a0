# What a backend takes while it loads many partitions; sourced by bench.sh.

# ITEM is "KIND|CANDIDATE".
memory_one() {
    local kind=${1%%|*} name=${1#*|} SOURCE=source rows=$ROWS try start peak setting=''
    [ "$kind" = narrow ] || SOURCE=source_wide rows=$wide_rows
    [[ $name != *buffer_memory* ]] || setting="SET shard_fdw.buffer_memory = '${name##* }';"
    rm -f "$CLUSTERS/rss"
    measure_peak "memory $kind" "$name" "$2" "$rows" memory.sql -v setting="$setting" \
        -v sampler="$CLUSTERS/rss.sh" -v samples="$CLUSTERS/rss"
    # The backend ends after its client.
    for ((try = 0; try < 100; try++)); do
        [ ! -e "$CLUSTERS/rss" ] || break
        sleep 0.1
    done
    read -r start peak <"$CLUSTERS/rss" || die "memory of $name: no sample"
    saw "memory $kind" "$name" "$2" rss $((peak - start))
}

bench_memory() {
    local kind name names wide_rows=$((ROWS > 10 ? ROWS / 4 : ROWS)) PARTITIONS=256 rows SHAPE=$SHAPE size
    # Where user postgres can read it.
    cp "$SHARD_FDW_ROOT/tests/tools/rss.sh" "$CLUSTERS/rss.sh"
    psql_on main -v rows=$wide_rows <<'SQL'
CREATE TABLE source_wide AS
SELECT id, repeat(md5(id::text), (16 + id % 32)::int) AS body FROM generate_series(1::bigint, :rows) AS id;
VACUUM (FREEZE, ANALYZE) source_wide;
SQL
    for kind in narrow wide; do
        [ $kind = narrow ] || SHAPE="id bigint NOT NULL, body text"
        names=("local partitions")
        candidate_local "local partitions" local256
        if knows_setting buffer_memory; then
            for size in 1MB 64MB; do
                name="shard_fdw, buffer_memory $size"
                [ $size != 1MB ] || candidate_foreign "$name" far256 shard_fdw "$four"
                SCHEMA[$name]=far256 STORE[$name]=far256_remote SHARDS[$name]=main
                names+=("$name")
            done
        else
            names+=(shard_fdw)
            candidate_foreign shard_fdw far256 shard_fdw "$four"
        fi
        alternate "memory, $kind rows" memory_one "${names[@]/#/$kind|}"
        rows=$ROWS
        [ $kind = narrow ] || rows="$wide_rows wide"
        printf '\n'
        head_row "INSERT … SELECT, $rows rows, 256 partitions on four servers" "memory taken, MB" "buffered at most, MB" \
            "times local partitions"
        for name in "${names[@]}"; do
            row "$name" "$(seen "memory $kind" "$name" rss 1024 1)" "$(seen "memory $kind" "$name" buffered 1048576.0 1)" \
                "$(times "memory $kind" "$name" "memory $kind" "local partitions")"
            [[ $name != *buffer_memory* ]] || goal "buffered at most, $kind rows, ${name#*, }, MB" \
                "$(middle "$(seen "memory $kind" "$name" buffered 1048576.0 1)")" "≤ buffer_memory"
        done
        printf '\n(Private memory of the backend, peak less start.)\n'
        drop_candidates "${names[@]:0:2}"
    done
}
