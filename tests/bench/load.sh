# Many rows by one INSERT … SELECT, or by one COPY from a CSV file; sourced by bench.sh.

# postgres_fdw sends the rows of a COPY one by one before PostgreSQL 16: a part of them tells the time per row.
copy_part=20000
# What the floor sends at a time into one table, in kB: as much as the largest chunks of shard_fdw.
chunk=8192

candidates=()
stock=()

load_candidates() {
    [ ${#candidates[@]} = 0 ] || return 0
    local size part
    candidates=("local partitions" "shard_fdw, one server" "shard_fdw, four servers" "floor, one session" "floor, four sessions")
    candidate_local "local partitions"
    candidate_foreign "shard_fdw, one server" one shard_fdw main
    candidate_foreign "shard_fdw, four servers" four shard_fdw "$four"
    if has_contrib postgres_fdw; then
        for size in 100 1000 10000; do
            candidate_foreign "postgres_fdw, batch_size $size" "stock$size" postgres_fdw main batch_size "$size"
            stock+=("postgres_fdw, batch_size $size")
        done
        candidates+=("${stock[@]}")
    fi

    # The floor has no password to give, and fills the tables of the candidate with one server.
    psql_on main -c "CREATE ROLE floor SUPERUSER LOGIN"
    sed -i '1i host all floor 127.0.0.1/32 trust' "$CLUSTERS/main/pg_hba.conf"
    value_on main "SELECT pg_reload_conf()" >/dev/null
    for part in 0 1 2 3; do
        psql_on main -c "COPY (SELECT * FROM source WHERE satisfies_hash_partition('local.rows'::regclass, 4, $part, id))
            TO '$CLUSTERS/floor.$part' (FORMAT binary)"
    done
    for size in one four; do
        local name="floor, $size session"
        [ $size = one ] || name+=s
        STORE[$name]=${STORE["shard_fdw, one server"]} SHARDS[$name]=main RUN[$name]=run_floor
    done
}

run_floor() {
    local sessions=1
    [ "$1" = "floor, one session" ] || sessions=4
    "$(tool floor)" "${CLUSTER_PORT[main]}" "${STORE[$1]}" $sessions $chunk "$CLUSTERS"/floor.{0,1,2,3}
}

insert_one() { measure insert "$1" "$2" "$ROWS"; }

copy_one() {
    local rows=$ROWS
    [ "$major" -gt 15 ] || [[ $1 != postgres_fdw* ]] || rows=$((copy_part < ROWS ? copy_part : ROWS))
    measure copy "$1" "$2" "$rows"
}

bench_insert() {
    load_candidates
    alternate insert insert_one "${candidates[@]}"
    printf '\n'
    report insert "INSERT … SELECT, $ROWS rows" 3 "${candidates[@]}"

    goal "INSERT, four partitions on one server, times local" \
        "$(ratio insert "shard_fdw, one server" "local partitions")" "≤ 0.75 on 15, ≤ 0.7 on 18"
    goal "INSERT, four servers, times local" \
        "$(ratio insert "shard_fdw, four servers" "local partitions")" "≤ 0.55 on 15, ≤ 0.5 on 18"
    local best
    best=$(fastest insert "${stock[@]}")
    goal "INSERT, one server, how often as fast as ${best:-postgres_fdw}" \
        "$(ratio insert "$best" "shard_fdw, one server")" "≥ 4"
    goal "INSERT, one server, times the floor" "$(ratio insert "shard_fdw, one server" "floor, one session")" "≤ 1.5"
    goal "INSERT, four servers, times the floor" "$(ratio insert "shard_fdw, four servers" "floor, four sessions")" "≤ 1.5"
}

bench_copy() {
    load_candidates
    local used=("${candidates[@]}") best
    # batch_size plays no part there.
    [ "$major" -gt 15 ] || [ ${#stock[@]} = 0 ] || used=("${candidates[@]:0:5}" "${stock[1]}")
    alternate copy copy_one "${used[@]}"
    printf '\n'
    report copy "COPY from CSV, $ROWS rows" 3 "${used[@]}"
    if [ "$major" = 15 ] && [ "$ROWS" -gt $copy_part ]; then
        printf '\n¹ measured with %s rows and multiplied: postgres_fdw sends COPY row by row before PostgreSQL 16.\n' $copy_part
    fi

    goal "COPY, one server, times local" "$(ratio copy "shard_fdw, one server" "local partitions")" "≤ 1"
    goal "COPY, four servers, times local" "$(ratio copy "shard_fdw, four servers" "local partitions")" "≤ 1"
    best=$(fastest copy "${stock[@]}")
    goal "COPY, one server, how often as fast as ${best:-postgres_fdw}" \
        "$(ratio copy "$best" "shard_fdw, one server")" "≥ 50 on 15, ≥ 5 on 18"
}
