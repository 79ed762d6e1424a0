# Throw-away clusters for the scripts here, and the library they load; sourced after env.sh and log.sh.
#
# Everything lies in one folder of user postgres, $CLUSTERS, with a short path because sockets are made in it. It goes
# when the script ends, however it ends, after the servers that were started here have been stopped.

declare -A CLUSTER_PORT=() # by the name of the cluster
CLUSTERS=
CLUSTER_BIN=
CLUSTER_SERVER= # what to start in place of $CLUSTER_BIN/postgres
STOPPING=

# What the caller's shell says about other servers must not lead psql there.
for name in "${!PG@}"; do
    case $name in PG | PGRX_*) ;; *) unset "$name" ;; esac
done

as_postgres() { (cd "$CLUSTERS" && exec sudo -u postgres env LC_ALL=C.UTF-8 PGCONNECT_TIMEOUT=10 "$@"); }

# clusters_begin MAJOR [PG_CONFIG]: the installation to use, the folder, and the clean-up.
clusters_begin() {
    [ "$(id -u)" = 0 ] || die "the servers run as user postgres: start this as root"
    CLUSTER_BIN=$(dirname "${2:-$(pg_config_of "$1")}")
    [ -x "$CLUSTER_BIN/initdb" ] || die "PostgreSQL $1 is not installed: run bash tests/setup.sh $1"
    trap clusters_end EXIT
    trap 'STOPPING=interrupted; exit 130' INT
    trap 'STOPPING=terminated; exit 143' TERM HUP
    # Where the last word goes, whatever is redirected when a signal comes.
    exec 7>&2
    CLUSTERS=$(mktemp -d "${TMPDIR:-/tmp}/sfdw.XXXXXX")
    chown postgres "$CLUSTERS"
    sudo -u postgres test -w "$CLUSTERS" || die "user postgres cannot reach $CLUSTERS: choose another TMPDIR"
}

clusters_end() {
    local status=$? name
    trap - EXIT
    trap '' INT TERM HUP
    for name in "${!CLUSTER_PORT[@]}"; do
        [ ! -s "$CLUSTERS/$name/postmaster.pid" ] ||
            as_postgres "$CLUSTER_BIN/pg_ctl" -D "$CLUSTERS/$name" -m immediate -w stop >/dev/null ||
            printf 'the server in %s does not stop\n' "$CLUSTERS/$name" >&2
    done
    [ -z "$CLUSTERS" ] || rm -rf "$CLUSTERS"
    [ "$status" = 0 ] || printf '\n%s FAILED%s\n' "$(basename "$0")" "${STOPPING:+: $STOPPING}" >&7
    exit "$status"
}

# cluster_start NAME [SETTING…]: initdb and start on a free port of 127.0.0.1. Superuser postgres has the password
# "postgres" over TCP and needs none on the socket.
cluster_start() {
    local name=$1 setting port try
    shift
    echo postgres >"$CLUSTERS/.password"
    quietly "$CLUSTERS/$name.initdb" "initdb of $name" as_postgres "$CLUSTER_BIN/initdb" -D "$CLUSTERS/$name" \
        -U postgres --pwfile="$CLUSTERS/.password" --auth-local=trust --auth-host=scram-sha-256 \
        -E UTF8 --locale=C --no-sync
    {
        echo "listen_addresses = '127.0.0.1'"
        echo "unix_socket_directories = '$CLUSTERS'"
        for setting in "$@"; do echo "$setting"; done
    } >>"$CLUSTERS/$name/postgresql.conf"
    # A port may be taken between looking and starting: then the next one. Below the range that clients are given.
    for try in 1 2 3 4 5 6 7 8; do
        port=$((20000 + (RANDOM + try) % 12000))
        CLUSTER_PORT[$name]=$port
        if as_postgres "$CLUSTER_BIN/pg_ctl" -D "$CLUSTERS/$name" -l "$CLUSTERS/$name.log" -o "-p $port" \
            ${CLUSTER_SERVER:+-p "$CLUSTER_SERVER"} -w start >/dev/null 2>&1 </dev/null 7>&-; then
            return
        fi
        grep -qs 'could not bind' "$CLUSTERS/$name.log" || break
    done
    tail -n 20 "$CLUSTERS/$name.log" >&2
    die "the server $name does not start"
}

# psql_on NAME [ARGUMENT…]: as superuser, over the socket; stops at the first error.
psql_on() {
    local name=$1
    shift
    as_postgres "$CLUSTER_BIN/psql" -X -q -v ON_ERROR_STOP=1 -h "$CLUSTERS" -p "${CLUSTER_PORT[$name]}" -U postgres "$@"
}

# value_on NAME SQL: one value, or lines of values.
value_on() { psql_on "$1" -At -c "$2" </dev/null; }

# has_contrib NAME: whether the installation has this extension.
has_contrib() { [ -e "$("$CLUSTER_BIN/pg_config" --sharedir)/extension/$1.control" ]; }

# install_release MAJOR: builds the library in release mode, if it is not built yet, and installs it.
install_release() {
    local major=$1 log
    log=$SHARD_FDW_CACHE/log/release-pg$major.log
    mkdir -p "$(dirname "$log")"
    (cd "$SHARD_FDW_ROOT" && quietly "$log" "cargo pgrx install --release" cargo pgrx install --release \
        --no-default-features --features "pg$major" --pg-config "$(pg_config_of "$major")")
}
