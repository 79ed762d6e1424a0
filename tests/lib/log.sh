# Messages of the scripts; sourced.

# A heading with the seconds since the script began.
stage() { printf '\n=== [%4ds] %s\n' "$SECONDS" "$*"; }

note() { printf '    %s\n' "$*"; }

die() {
    printf '\nFAILED: %s\n' "$*" >&2
    exit 1
}

# Runs a command with its output in a file; shows the end of that file and gives up if the command fails.
quietly() { # quietly LOG WHAT COMMAND…
    local log=$1 what=$2
    shift 2
    if ! "$@" >"$log" 2>&1 </dev/null; then
        printf -- '--- the last lines of %s\n' "$log" >&2
        tail -n 40 "$log" >&2
        die "$what"
    fi
}
