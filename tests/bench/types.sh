# Rows of other shapes than the usual one; sourced by bench.sh.

kinds="columns text1k text1m binary textual arrays"

# What rows of a kind are called, their columns, the expressions that make one of its id, and how many there are.
types_kind() {
    local i
    case $1 in
    columns)
        title="100 columns" rows=$((ROWS / 40))
        SHAPE="id bigint NOT NULL" made=id
        for ((i = 1; i < 100; i += 2)); do
            SHAPE+=", c$i int, c$((i + 1)) text"
            made+=", id % $((1000 + i)), 'text ' || id % $((1000 + i))"
        done
        # 100 with the key.
        SHAPE=${SHAPE%, *} made=${made%, *}
        ;;
    text1k)
        title="text of 1 kB" rows=$((ROWS / 5))
        SHAPE="id bigint NOT NULL, body text" made="id, repeat(md5(id::text), 32)"
        ;;
    text1m)
        title="text of 1 MB" rows=$((ROWS / 10000))
        SHAPE="id bigint NOT NULL, body text"
        made="id, (SELECT string_agg(md5(id || ' ' || g), '') FROM generate_series(1, 32768) AS g)"
        ;;
    binary)
        title="bool, float8, date, interval, uuid, numeric, inet, jsonb, bytea" rows=$((ROWS / 5))
        SHAPE="id bigint NOT NULL, b bool, f float8, d date, i interval, u uuid, n numeric, a inet, j jsonb, y bytea"
        made="id, id % 2 = 0, id / 7.0, date '2024-01-01' + (id % 1000)::int, id * interval '1 minute', md5(id::text)::uuid,
            id / 8.0, inet '10.0.0.0' + id, jsonb_build_object('id', id, 'name', 'event ' || id), decode(md5(id::text), 'hex')"
        ;;
    textual)
        title="enum, domain, composite, tsvector" rows=$((ROWS / 5))
        SHAPE="id bigint NOT NULL, mood bench.mood, price bench.price, pair bench.pair, words tsvector"
        made="id, (enum_range(NULL::bench.mood))[1 + id % 3], id % 10000 / 4.0, (id % 1000, 'event ' || id)::bench.pair,
            array_to_tsvector(ARRAY['event', 'n' || id, 'm' || id % 100])"
        ;;
    arrays)
        title="int[] and text[] of ten" rows=$((ROWS / 10))
        SHAPE="id bigint NOT NULL, numbers int[], words text[]"
        made="id, (SELECT array_agg((id + g) % 1000) FROM generate_series(1, 10) AS g),
            (SELECT array_agg('word ' || (id + g) % 1000) FROM generate_series(1, 10) AS g)"
        ;;
    esac
    [ "$rows" -ge 10 ] || rows=10
}

types_one() { measure "types $kind" "$1" "$2" "$rows" insert.sql; }

bench_types() {
    local kind title rows made lines=() stock=() names size best name cells SHAPE SOURCE
    names=("local partitions" shard_fdw)
    ! has_contrib postgres_fdw || stock=("postgres_fdw, batch_size 100" "postgres_fdw, batch_size 1000")
    psql_on main <"$SQL/types.sql"
    for kind in $kinds; do
        types_kind "$kind"
        SOURCE=source_$kind
        psql_on main -c "CREATE TABLE $SOURCE ($SHAPE)" \
            -c "INSERT INTO $SOURCE SELECT $made FROM generate_series(1::bigint, $rows) AS id" \
            -c "VACUUM (FREEZE, ANALYZE) $SOURCE"
        candidate_local "local partitions" "local_$kind"
        candidate_foreign shard_fdw "far_$kind" shard_fdw main
        for name in "${stock[@]}"; do
            size=${name##* }
            candidate_foreign "$name" "stock${size}_$kind" postgres_fdw main batch_size "$size"
        done
        alternate "rows of $title" types_one "${names[@]}" "${stock[@]}"
        cells=()
        for name in "postgres_fdw, batch_size 100" "postgres_fdw, batch_size 1000"; do
            cells+=("$(times "types $kind" "$name" "types $kind" shard_fdw)")
        done
        lines+=("$(row "$title" "$rows" "$(seconds "types $kind" shard_fdw "$rows")" \
            "$(times "types $kind" shard_fdw "types $kind" "local partitions")" "${cells[@]}")")
        best=$(fastest "types $kind" "${stock[@]}")
        goal "rows of $title, times ${best:-postgres_fdw}" "$(ratio "types $kind" shard_fdw "$best")" "≤ 1"
        drop_candidates "${names[@]}" "${stock[@]}"
        psql_on main -c "DROP TABLE $SOURCE"
    done
    printf '\n'
    head_row "INSERT … SELECT, one server, rows of" rows "shard_fdw: seconds" "times local partitions" \
        "postgres_fdw, batch_size 100: times shard_fdw" "batch_size 1000: times shard_fdw"
    printf '%s\n' "${lines[@]}"
}
