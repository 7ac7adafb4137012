#!/bin/sh
# Builds goroutine_worker.go, unless the cache has it, and becomes it. The same program as `tuner lab` would make of it.
set -eu
# nothing is downloaded, and nothing depends on the user's own settings
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off GOWORK=off GO111MODULE=on CGO_ENABLED=0 GOENV=off
export GOOS= GOARCH= GOEXPERIMENT=

source=$(cd "${0%/*}" && pwd)/goroutine_worker.go
if ! go=$(command -v go || command -v "${GOROOT:-/usr/local/go}/bin/go"); then
    echo "no Go is here: put it on PATH" >&2
    exit 1
fi
case ${XDG_CACHE_HOME:-} in
    /*) cache=$XDG_CACHE_HOME/tuner ;;
    *) cache=${HOME:?there is none: point XDG_CACHE_HOME to a folder of yours}/.cache/tuner ;;
esac
version=$("$go" env GOVERSION)
key=$({ cat "$source"; printf '\0%s' "${version#go}"; } | sha256sum | cut -c 1-16)
program=$cache/goroutine_worker-$key

build() {
    rm -rf "$cache"/.goroutine_worker-*  # of one that was killed
    building=$(mktemp -d "$cache/.goroutine_worker-XXXXXX")
    trap 'rm -rf "$building"' EXIT
    GOTMPDIR=$building "$go" build -trimpath -o "$building/program" "$source" &
    trap 'kill $!; wait $! || :; exit 143' HUP INT TERM  # a shell that waits hears it at once
    wait $!
    trap - HUP INT TERM
    mv "$building/program" "$program"
    rm -rf "$building"
    trap - EXIT
}

# one of several that start together builds it; who reads the cache sees all of it or nothing
if ! [ -x "$program" ]; then
    mkdir -m 700 -p "$cache"
    exec 9> "$cache/goroutine_worker.lock"
    flock 9
    [ -x "$program" ] || build
    exec 9>&-
fi
exec "$program" "$@"
