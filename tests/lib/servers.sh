# PostgreSQL 15 and 18 built from Debian's sources; sourced. KIND is "assert", with assertions, or "valgrind", with them and
# for a run under valgrind.

built_pg_config() { echo "$SHARD_FDW_CACHE/$1/$2/bin/pg_config"; } # built_pg_config KIND MAJOR

# Builds and installs one major version unless the cache has it, and tells an own PGRX_HOME of it.
build_server() { # build_server KIND MAJOR
    local kind=$1 major=$2 base=$SHARD_FDW_CACHE/$1
    mkdir -p "$base"
    if [ -e "$base/$major/complete" ]; then
        note "present in $base/$major"
    else
        server_source && server_make || return 1
        touch "$base/$major/complete"
    fi
    server_init
}

# The steps of build_server, with its variables.

# Unpacks the source of the server package into $base/source-MAJOR.
server_source() {
    local suite=bookworm mirror tmp
    [ "$major" = 15 ] || suite=sid
    tmp=$base/fetch-$major
    rm -rf "$base/source-$major"
    mkdir -p "$base/source-$major"
    mirror=$(debian_mirror) || return 1
    note "source of postgresql-$major from Debian $suite"
    private_apt "$tmp" "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    (cd "$tmp" &&
        quietly "$logs/source-update.log" "apt-get update for sources" \
            env APT_CONFIG="$tmp/apt.conf" apt-get update &&
        quietly "$logs/source.log" "apt-get source postgresql-$major" \
            env APT_CONFIG="$tmp/apt.conf" apt-get source --download-only "postgresql-$major") || return 1
    tar -xf "$tmp"/postgresql-"$major"_*.orig.tar.* -C "$base/source-$major" --strip-components 1 || return 1
    rm -rf "$tmp"
}

server_make() {
    local options=(--enable-cassert --without-readline --without-zlib)
    [ "$major" = 15 ] || options+=(--without-icu)
    case $kind in
    assert) options+=(CFLAGS=-O0) ;;
    valgrind) options+=(CPPFLAGS=-DUSE_VALGRIND "CFLAGS=-O1 -g") ;;
    esac
    rm -rf "${base:?}/$major"
    note "configure and make PostgreSQL $major (about two minutes)"
    (cd "$base/source-$major" &&
        quietly "$logs/configure.log" "configure" ./configure -q --prefix="$base/$major" "${options[@]}" &&
        quietly "$logs/make.log" "make" make -s -j2 &&
        quietly "$logs/make-install.log" "make install" make -s install &&
        cp src/tools/valgrind.supp "$base/$major/" &&
        for part in contrib/postgres_fdw contrib/pg_stat_statements contrib/file_fdw; do
            quietly "$logs/make-contrib.log" "make $part" make -s -C $part install || exit 1
        done) || return 1
    "$base/$major/bin/pg_config" --configure | grep -q -- --enable-cassert || return 1
    rm -rf "$base/source-$major"
    chmod -R go+rX "$base/$major"
}

# Like setup.sh's cargo pgrx init, for the versions built so far.
server_init() {
    local version config args=() changed= home=$base/pgrx
    for version in 15 18; do
        config=$(built_pg_config "$kind" $version)
        [ -e "$base/$version/complete" ] || continue
        args+=("--pg$version" "$config")
        grep -qsF "pg$version = \"$config\"" "$home/config.toml" || changed=yes
    done
    [ -n "$changed" ] || return 0
    mkdir -p "$home"
    (PGRX_HOME=$home quietly "$logs/pgrx-init.log" "cargo pgrx init" cargo pgrx init "${args[@]}")
}
