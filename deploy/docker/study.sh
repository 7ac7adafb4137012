#!/bin/sh
# A study in a container: begins the one in $STUDY, or goes on with it, and writes its runbook beside it. Options are given to tuner grid.
# Ends with 0 where there is a ranking, also one weaker than asked (tuner's 5); else with tuner's exit code.
set -u
STUDY=${STUDY:-/study/study.tuner.db}
CONFIG=${CONFIG:-/etc/tuner/study.yaml}
BUDGET=${BUDGET:-9h}
if [ -e "$STUDY" ]; then
    set -- "$CONFIG" --resume "$STUDY" "$@"
else
    set -- "$CONFIG" --study "$STUDY" --budget "$BUDGET" "$@"
fi
# This shell is the container's first process: a signal reaches tuner only if it hands it on. The first one wakes `wait`.
# One that comes before tuner's pid is known is handed on as soon as it is, and not before its process is tuner: until then
# it is a copy of this shell, which would take the signal for one of its own, and go on.
tuner= stopped=
stop() {
    if [ -z "$tuner" ]; then stopped=yes; return; fi
    while [ "/proc/$tuner/exe" -ef "/proc/$$/exe" ]; do sleep 0.1; done
    kill -TERM "$tuner" 2>/dev/null
}
trap stop TERM INT
tuner grid "$@" &
tuner=$!
[ -z "$stopped" ] || stop
wait "$tuner"
code=$?
while kill -0 "$tuner" 2>/dev/null; do
    wait "$tuner"
    code=$?
done
[ -e "$STUDY" ] && tuner export "$STUDY" --into "$(dirname "$STUDY")/RUNBOOK.md"
[ "$code" -eq 5 ] && exit 0
exit "$code"
