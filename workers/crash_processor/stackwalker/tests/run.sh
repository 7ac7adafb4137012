#!/bin/sh
# Builds and runs the C unit tests with AddressSanitizer and UndefinedBehaviorSanitizer: tests/run.sh [CC]
# Status 0 when all pass, 1 when one fails or does not compile. Everything is built in a temporary folder.
set -u
cc=${1:-${CC:-cc}}
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d) || exit 1
trap 'rm -rf "$build"' EXIT

compile() {
    "$cc" -std=gnu11 -g -O1 -Wall -Wextra -Wconversion -Werror \
        -fsanitize=address,undefined -fno-sanitize-recover=all "$@"
}

(cd "$build" && compile -c "$here"/../*.c && rm main.o) || {
    echo "FAILED: the sources do not compile with $cc" >&2
    exit 1
}

failed=0
for test in "$here"/test_*.c; do
    name=$(basename "$test" .c)
    if compile "-I$here/.." "$test" "$build"/*.o -o "$build/$name" && "$build/$name"; then
        echo "ok $name"
    else
        echo "FAILED $name" >&2
        failed=1
    fi
done
exit $failed
