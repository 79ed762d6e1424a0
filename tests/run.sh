#!/bin/bash
# Runs all tests, installing what they need first (Debian 12, as root).
#
#   bash tests/run.sh [15|16|17|18|all|assert]…      default: all
#
# "assert" builds PostgreSQL 15 and 18 with assertions from Debian's sources, once, and runs everything there; it is no
# part of "all". LONG=1 in the environment runs the long forms of tests. CARGO_TARGET_DIR and SHARD_FDW_CACHE are
# respected. STAGES="library sql cluster" names the stages to run, for use while developing. What the tests printed stays in
# $CARGO_TARGET_DIR/run/VERSION: results-sql/ and results-specs/ there are what expected files are made from.
# Per version: unit and in-backend tests, installation, SQL and isolation tests, cluster tests.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/apt.sh"
. "$here/lib/stages.sh"
. "$here/lib/regress.sh"
. "$here/lib/servers.sh"
cd "$SHARD_FDW_ROOT" || exit 1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$SHARD_FDW_ROOT/target}

legs=()
for word in "${@:-all}"; do
    case $word in
    15 | 16 | 17 | 18) legs+=("$word") ;;
    all) legs+=(15 16 17 18) ;;
    assert) legs+=(15-assert 18-assert) ;;
    *) die "usage: run.sh [15|16|17|18|all|assert]…" ;;
    esac
done

# The cluster tests use the servers of every version as shards, whatever the version under test.
majors=()
for leg in "${legs[@]}"; do majors+=("${leg%-assert}"); done
bash "$here/setup.sh" "${majors[@]}" shards || die "the installation (above)"

verdicts=()
for leg in "${legs[@]}"; do run_leg "$leg"; done

stage "verdict"
printf '%s\n' "${verdicts[@]}"
if [ "$total_skipped" != 0 ]; then
    printf '\nskipped:\n'
    sort -u "$skips_file" | sed 's/^/    /'
fi
if [ -s "$failures_file" ]; then
    printf '\nwhat failed:\n'
    sed 's/^/    /' "$failures_file"
fi
printf '\n%d passed, %d failed, %d skipped\n' "$total_passed" "$total_failed" "$total_skipped"
if [ "$total_failed" != 0 ]; then
    echo "RESULT: FAILED"
    exit 1
fi
echo "RESULT: PASSED"
