# Packages of other Debian releases, fetched without touching the machine's own apt settings; sourced.

# The mirror that the machine is set up for.
debian_mirror() {
    local mirror
    mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
        sed -n 's/^Debian //p' | sort -u | head -n 1)
    [ -n "$mirror" ] && echo "$mirror"
}

# Makes an empty folder with an apt.conf of its own, to be named in APT_CONFIG.
private_apt() { # private_apt FOLDER SOURCE-LINE
    rm -rf "$1"
    mkdir -p "$1"/{lists/partial,cache/archives/partial}
    echo "$2" >"$1/sources.list"
    cat >"$1/apt.conf" <<CONF
Dir::Etc::SourceList "$1/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$1/lists";
Dir::Cache "$1/cache";
APT::Sandbox::User "root";
CONF
}
