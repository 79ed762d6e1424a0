#!/bin/bash
# rss.sh PROCESS FILE: returns at once, and when the process is gone, FILE has what its private memory was at the start and
# at its peak, in kB. (The high-water mark that the kernel keeps would count shared buffers too.)
set -euo pipefail

private() {
    local name kB
    while read -r name kB _; do
        if [ "$name" = RssAnon: ]; then
            echo "$kB"
            return
        fi
    done 2>/dev/null <"/proc/$1/status" || true
}

start=$(private "$1")
{
    # Something to wait for that never comes: sleeping without a process for each time.
    exec {never}<> <(:)
    peak=$start
    while now=$(private "$1") && [ -n "$now" ]; do
        [ "$now" -le "$peak" ] || peak=$now
        read -rt 0.02 -u "$never" _ || true
    done
    echo "$start $peak" >"$2.part"
    mv "$2.part" "$2"
} </dev/null >/dev/null 2>&1 &
