# SQL and isolation tests of pg_test/ by pg_regress and pg_isolation_regress; sourced by run.sh.
#
# Both run as user postgres against a throw-away server. A test that needs another extension says so in its first lines:
# "-- requires: postgres_fdw" in a .sql file, "# requires: postgres_fdw" in a .spec file.

regress_pid=

start_regress_server() { # start_regress_server PG_CONFIG
    local bin
    bin=$("$1" --bindir)
    # Short: the socket lies there.
    regress_dir=$work/r
    rm -rf "$regress_dir"
    install -d -o postgres -g postgres -m 755 "$regress_dir"
    cp -r "$SHARD_FDW_ROOT/pg_test" "$regress_dir/pg_test"
    chown -R postgres: "$regress_dir"
    as_postgres "$bin/initdb" -D "$regress_dir/data" -A trust -N -U postgres --locale=C --encoding=UTF8 \
        >"$logs/initdb.log" 2>&1 || return 1
    regress_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >>"$regress_dir/data/postgresql.auto.conf" <<CONF
listen_addresses = 'localhost'
port = $regress_port
unix_socket_directories = '$regress_dir'
fsync = off
autovacuum = off
max_prepared_transactions = 10
CONF
    # Not through sudo, which would not pass our signals on while it is in the background.
    setpriv --reuid postgres --regid postgres --clear-groups env -i LC_ALL=C.UTF-8 PATH=/usr/bin:/bin \
        "$bin/postgres" -D "$regress_dir/data" >"$regress_dir/server.log" 2>&1 </dev/null &
    regress_pid=$!
    local i
    for i in $(seq 300); do
        "$bin/pg_isready" -q -h localhost -p "$regress_port" -U postgres -d postgres && return 0
        kill -0 "$regress_pid" 2>/dev/null || break
        sleep 0.1
    done
    return 1
}

stop_regress_server() {
    [ -n "$regress_pid" ] || return 0
    kill -INT "$regress_pid" 2>/dev/null
    wait "$regress_pid" 2>/dev/null
    regress_pid=
}

as_postgres() {
    (cd / && setpriv --reuid postgres --regid postgres --clear-groups env -i LC_ALL=C.UTF-8 PATH=/usr/bin:/bin "$@")
}

# Names of the tests of a folder that can run here, one a line: setup first, then by the alphabet.
regress_names() { # regress_names FOLDER SUFFIX PG_CONFIG
    local file name needs need lacks
    for file in "$SHARD_FDW_ROOT/pg_test/$1"/setup."$2" "$SHARD_FDW_ROOT/pg_test/$1"/*."$2"; do
        [ -e "$file" ] || continue
        name=$(basename "$file" ".$2")
        [ "$name" != setup ] || [ -z "${seen_setup:-}" ] || continue
        [ "$name" != setup ] || local seen_setup=yes
        needs=$(sed -nE '1,5s/^(--|#) requires: (.*)/\2/p' "$file")
        lacks=
        for need in $needs; do
            [ -e "$("$3" --sharedir)/extension/$need.control" ] || lacks+=" $need"
        done
        if [ -n "$lacks" ]; then
            echo "SKIPPED on $label: $1/$name.$2: this installation has no$lacks" | tee -a "$skips_file" >&2
        else
            echo "$name"
        fi
    done
}

stage_regress() { # stage_regress MAJOR PG_CONFIG
    local pg_config=$2 tools file name problem=
    stage "$label: SQL and isolation tests"
    for file in "$SHARD_FDW_ROOT"/pg_test/sql/*.sql "$SHARD_FDW_ROOT"/pg_test/specs/*.spec; do
        [ -e "$file" ] || continue
        name=$(basename "${file%.*}")
        if [ ! -e "$SHARD_FDW_ROOT/pg_test/expected/$name.out" ]; then
            note "${file#"$SHARD_FDW_ROOT"/} has no expected output"
            problem=yes
        fi
    done
    [ -z "$problem" ] || count "expected files" 0 1 0
    if ! start_regress_server "$pg_config"; then
        cat "$logs/initdb.log" "$regress_dir/server.log" 2>/dev/null | tail -n 30
        count SQL 0 1 0
        return 1
    fi
    tools=$(dirname "$(dirname "$("$pg_config" --pgxs)")")/test
    run_regress SQL sql "$tools/regress/pg_regress" sql "$pg_config"
    run_regress isolation specs "$tools/isolation/pg_isolation_regress" spec "$pg_config"
    stop_regress_server
    cp "$regress_dir/server.log" "$logs/server.log"
    if grep -nE 'PANIC:  |TRAP: |was terminated by signal|panicked|WARNING:  .*(leak|resource was not closed)' \
        "$logs/server.log"; then
        note "the lines above must not stand in the server log ($logs/server.log)"
        count "server log" 0 1 0
    fi
}

run_regress() { # run_regress NAME FOLDER TOOL SUFFIX PG_CONFIG
    local name=$1 folder=$2 tool=$3 suffix=$4 pg_config=$5 bin out status=0 skips
    skips=$(wc -l <"$skips_file")
    local names
    names=$(regress_names "$folder" "$suffix" "$pg_config")
    skips=$(($(wc -l <"$skips_file") - skips))
    # The tools give up at a missing expected file. Compared with nothing, the output is there to make one from.
    local test
    for test in $names; do
        [ -e "$regress_dir/pg_test/expected/$test.out" ] || as_postgres touch "$regress_dir/pg_test/expected/$test.out"
    done
    if [ -z "$names" ]; then
        count "$name" 0 0 "$skips"
        return
    fi
    bin=$("$pg_config" --bindir)
    out=$regress_dir/out-$folder
    as_postgres mkdir -p "$out"
    as_postgres "$bin/createdb" -h localhost -p "$regress_port" -U postgres "test_$folder"
    # From 16 on expected/ is looked for in the current folder. The bin folder built into a wheel's tool is not ours.
    # shellcheck disable=SC2086
    as_postgres sh -c 'cd "$1" && shift && exec "$@"' sh "$regress_dir/pg_test" \
        timeout -k 60 "$stage_limit" "$tool" --bindir="$bin" --inputdir=. --outputdir="$out" --host=localhost \
        --port="$regress_port" --user=postgres --use-existing --dbname="test_$folder" $names \
        >"$logs/$folder.log" 2>&1 </dev/null || status=$?
    grep -E '^(ok|not ok)|\.\.\. ' "$logs/$folder.log" | sed 's/^/    /'
    local good bad
    good=$(grep -cE '^ok |\.\.\. ok ' "$logs/$folder.log")
    bad=$(grep -cE '^not ok |\.\.\. FAILED' "$logs/$folder.log")
    if [ "$status" != 0 ]; then
        [ "$bad" != 0 ] || bad=1
        if [ -s "$out/regression.diffs" ]; then
            cp "$out/regression.diffs" "$logs/$folder.diffs"
            printf -- '--- %s\n' "$logs/$folder.diffs"
            head -n 300 "$logs/$folder.diffs"
        else
            tail -n 40 "$logs/$folder.log"
        fi
        # What the server said helps where a test died half way.
        tail -n 20 "$regress_dir/server.log" | sed 's/^/    server log: /'
    fi
    rm -rf "$logs/results-$folder"
    cp -r "$out/results" "$logs/results-$folder"
    count "$name" "$good" "$bad" "$skips"
}
