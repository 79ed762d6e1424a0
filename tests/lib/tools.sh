# Small Rust programs of their own; sourced after log.sh.

# tool NAME: compiles tests/tools/NAME.rs unless that is done, and says where it is.
tool() {
    local source=$SHARD_FDW_ROOT/tests/tools/$1.rs program=${CARGO_TARGET_DIR:-$SHARD_FDW_ROOT/target}/tools/$1
    if [ ! "$program" -nt "$source" ]; then
        mkdir -p "$(dirname "$program")"
        quietly "$program.log" "rustc $1.rs" rustc --edition 2021 -O -o "$program" "$source"
    fi
    echo "$program"
}
