#!/bin/sh
# Prints the path of a Python that can run tuner; says on stderr what this box lacks, and ends with 2.
# Tested versions come first, the newest of them first; then whatever python3 is.
missing=""

python=""
without_venv=""
for candidate in ${PYTHON:-python3.15 python3.14 python3.13 python3.12 python3.11 python3}; do
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    found=$(command -v "$candidate")
    if "$found" -c 'import venv, ensurepip' 2>/dev/null; then
        python=$found
        break
    fi
    without_venv=${without_venv:-$found}
done
if [ -z "$python" ] && [ -n "$without_venv" ]; then
    missing="$missing
  the venv module of $without_venv (Debian: apt-get install python3-venv)"
elif [ -z "$python" ]; then
    missing="$missing
  Python 3.11 or newer (looked for: ${PYTHON:-python3.15 to python3.11, python3}); or name one: make PYTHON=/path/to/python ..."
elif "$python" -c 'import sys; sys.exit(sys.version_info < (3, 16))' 2>/dev/null; then
    echo "Warning: $python is newer than the Pythons that tuner is tested with (3.11 to 3.15)" >&2
fi

if ! command -v "${CC:-cc}" >/dev/null 2>&1; then
    missing="$missing
  a C compiler called ${CC:-cc} (Debian: apt-get install gcc libc6-dev)"
elif ! printf '#include <stdio.h>\nint main(void) { return 0; }\n' | "${CC:-cc}" -x c -o /dev/null - 2>/dev/null; then
    missing="$missing
  a working C compiler: ${CC:-cc} cannot build a program (Debian: apt-get install libc6-dev)"
fi

if [ -n "$missing" ]; then
    printf 'Error: this box lacks what tuner is built with:%s\n' "$missing" >&2
    exit 2
fi
printf '%s\n' "$python"
