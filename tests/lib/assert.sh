# PostgreSQL 15 and 18 with assertions, built from Debian's sources; sourced by run.sh.

assert_pg_config() { echo "$SHARD_FDW_CACHE/assert/$1/bin/pg_config"; }

# Builds and installs one major version unless the cache has it, and tells an own PGRX_HOME of it.
build_assert() { # build_assert MAJOR
    local major=$1 base=$SHARD_FDW_CACHE/assert
    mkdir -p "$base"
    if [ -e "$base/$major/complete" ]; then
        note "present in $base/$major"
    else
        assert_source "$major" && assert_make "$major" || return 1
        touch "$base/$major/complete"
    fi
    assert_init
}

# Unpacks the source of the server package into $base/source-MAJOR.
assert_source() {
    local major=$1 base=$SHARD_FDW_CACHE/assert suite=bookworm mirror tmp
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

assert_make() {
    local major=$1 base=$SHARD_FDW_CACHE/assert options=(--enable-cassert --without-readline --without-zlib CFLAGS=-O0)
    [ "$major" = 15 ] || options+=(--without-icu)
    rm -rf "${base:?}/$major"
    note "configure and make PostgreSQL $major (about two minutes)"
    (cd "$base/source-$major" &&
        quietly "$logs/configure.log" "configure" ./configure -q --prefix="$base/$major" "${options[@]}" &&
        quietly "$logs/make.log" "make" make -s -j2 &&
        quietly "$logs/make-install.log" "make install" make -s install &&
        for part in contrib/postgres_fdw contrib/pg_stat_statements contrib/file_fdw; do
            quietly "$logs/make-contrib.log" "make $part" make -s -C $part install || exit 1
        done) || return 1
    "$base/$major/bin/pg_config" --configure | grep -q -- --enable-cassert || return 1
    rm -rf "$base/source-$major"
    chmod -R go+rX "$base/$major"
}

# Like setup.sh's cargo pgrx init, for the versions built so far.
assert_init() {
    local major config args=() changed= home=$SHARD_FDW_CACHE/assert/pgrx
    for major in 15 18; do
        config=$(assert_pg_config $major)
        [ -e "$SHARD_FDW_CACHE/assert/$major/complete" ] || continue
        args+=("--pg$major" "$config")
        grep -qsF "pg$major = \"$config\"" "$home/config.toml" || changed=yes
    done
    [ -n "$changed" ] || return 0
    mkdir -p "$home"
    (PGRX_HOME=$home quietly "$logs/pgrx-init.log" "cargo pgrx init" cargo pgrx init "${args[@]}")
}
