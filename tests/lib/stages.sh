# The stages of one version's tests; sourced by run.sh.

total_passed=0 total_failed=0 total_skipped=0
work=$(mktemp -d /tmp/shard_fdw_run.XXXXXX)
chmod 755 "$work"
skips_file=$work/skips
failures_file=$work/failures
: >"$skips_file" >"$failures_file"
# No stage takes longer, unless the long forms are asked for: a hang shall end as a failure with a log.
if [ "${LONG:-}" = 1 ]; then stage_limit=6h; else stage_limit=45m; fi

cleanup() {
    stop_regress_server
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Counters of the leg that runs.
passed=0 failed=0 skipped=0 details=

# Adds what a stage has shown.
count() { # count NAME PASSED FAILED SKIPPED
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    details+="${details:+, }$1 $2"
    [ "$3" = 0 ] || details+=" ($3 FAILED)"
}

# Runs cargo test and counts the tests of all its binaries.
cargo_tests() { # cargo_tests NAME LOG ARGUMENTS…
    local name=$1 log=$2 status=0 good bad ignored
    shift 2
    timeout --foreground -k 60 "$stage_limit" cargo test --no-fail-fast "$@" 2>&1 </dev/null |
        tee "$log" |
        grep --line-buffered -E '^ +(Running|Compiling shard_fdw)|^test result|^test .*FAILED|^SKIPPED|^error' ||
        true
    status=${PIPESTATUS[0]}
    good=$(sum_results "$log" passed)
    bad=$(sum_results "$log" failed)
    ignored=$(grep -c '^SKIPPED on' "$log")
    grep '^SKIPPED on' "$log" >>"$skips_file"
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then
        note "$name: stopped after $stage_limit"
    fi
    if [ "$status" != 0 ]; then
        # Without a failed test in the log, something else went wrong: that counts as one.
        [ "$bad" != 0 ] || bad=1
        show_failures "$log"
    elif [ "$good" = 0 ]; then
        note "$name: no test has run"
        bad=1
    fi
    count "$name" "$good" "$bad" "$ignored"
    [ "$bad" = 0 ]
}

sum_results() { # sum_results LOG passed|failed
    sed -nE "s/^test result: .* ([0-9]+) $2[;,.].*/\1/p" "$1" | awk '{ n += $1 } END { print n + 0 }'
}

show_failures() {
    # To be told again with the verdict.
    awk '/ panicked at / { left = 9 }
        /^(note: |test |--- end of the server log)/ { left = 0 }
        left-- > 0 { print substr($0, 1, 300) }' "$1" | head -n 60 | sed "s/^/$label: /" >>"$failures_file"
    printf -- '--- what failed, from %s\n' "$1"
    if grep -q '^failures:$' "$1"; then
        awk '/^failures:$/ { show = 1 } /^test result/ { show = 0 } show' "$1" | tail -n 250
    else
        tail -n 80 "$1"
    fi
}

# Unit tests and in-backend tests in one go. This is `cargo pgrx test` for the library alone: the tool itself would
# build every cluster test a second time, with the feature pg_test.
stage_library() {
    local major=$1 data=$work/pgtest-$1
    stage "$label: unit and in-backend tests"
    install -d -o postgres -g postgres -m 700 "$data"
    CARGO_PGRX_TEST_RUNAS=postgres CARGO_PGRX_TEST_PGDATA=$data/data PGRX_FEATURES="pg$major pg_test" \
        PGRX_NO_DEFAULT_FEATURES=true PGRX_BUILD_PROFILE=dev \
        cargo_tests "unit and in-backend" "$logs/library.log" --lib --no-default-features --features "pg$major pg_test"
}

stage_install() {
    local major=$1 pg_config=$2
    stage "$label: installation of the extension"
    if ! cargo pgrx install --pg-config "$pg_config" --no-default-features --features "pg$major" \
        >"$logs/install.log" 2>&1 </dev/null; then
        tail -n 60 "$logs/install.log"
        count installation 0 1 0
        return 1
    fi
}

stage_clusters() {
    local major=$1
    stage "$label: cluster tests"
    cargo_tests cluster "$logs/cluster.log" --test '*' --no-default-features --features "pg$major"
}

# Everything for one version; a failure does not keep the rest from running.
run_leg() {
    local leg=$1 major=${1%-assert} pg_config begin=$SECONDS
    passed=0 failed=0 skipped=0 details=
    label="PostgreSQL $major"
    logs=$CARGO_TARGET_DIR/run/$leg
    mkdir -p "$logs"
    if [ "$leg" = "$major" ]; then
        pg_config=$(pg_config_of "$major")
        test_version "$major" "$pg_config"
    else
        label+=" with assertions"
        pg_config=$(built_pg_config assert "$major")
        stage "$label: build from Debian's sources, or from the cache"
        if build_server assert "$major"; then
            local target=$CARGO_TARGET_DIR home=${PGRX_HOME:-}
            # Headers and structs differ: nothing may be shared with the usual builds.
            export CARGO_TARGET_DIR=$target/assert PGRX_HOME=$SHARD_FDW_CACHE/assert/pgrx
            test_version "$major" "$pg_config"
            export CARGO_TARGET_DIR=$target
            if [ -n "$home" ]; then export PGRX_HOME=$home; else unset PGRX_HOME; fi
        else
            count build 0 1 0
        fi
    fi
    local verdict=passed
    [ "$failed" = 0 ] || verdict=FAILED
    verdicts+=("$label ($("$pg_config" --version 2>/dev/null)): $verdict in $((SECONDS - begin)) s: $details; skipped $skipped")
    printf '\n%s\n' "${verdicts[-1]}"
    total_passed=$((total_passed + passed))
    total_failed=$((total_failed + failed))
    total_skipped=$((total_skipped + skipped))
}

wants() { [[ " ${STAGES:-library sql cluster} " == *" $1 "* ]]; }

test_version() { # test_version MAJOR PG_CONFIG
    ! wants library || stage_library "$1"
    if wants sql || wants cluster; then
        stage_install "$1" "$2" || return
    fi
    ! wants sql || stage_regress "$1" "$2"
    ! wants cluster || stage_clusters "$1"
}
