#!/bin/sh
# Prints the path of a Python that can run tuner; says on stderr what this box lacks, and ends with 2.
missing=""

python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done
if [ -z "$python" ]; then
    missing="$missing
  Python 3.11, 3.12 or 3.13 (looked for: ${PYTHON:-python3, python3.13, python3.12, python3.11}); or name one: make PYTHON=/path/to/python ..."
elif ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    missing="$missing
  the venv module of $python (Debian: apt-get install python3-venv)"
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
