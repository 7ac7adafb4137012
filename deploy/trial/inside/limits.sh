#!/bin/bash
# Limits of cgroups of version 2, with their controllers: on a unit, on the study's unit, and on containers of Docker.
. "$(dirname "$0")/common.sh"
[ -e /sys/fs/cgroup/cgroup.controllers ] || fail "no cgroups of version 2 alone"
# finding CHECK: what doctor found, with these words before it.
finding() {
    local check=$1
    shift
    "$@" doctor --json 2>/root/doctor.err | /opt/tuner/bin/python -c 'import json, sys
print(*(each["level"] + ": " + each["found"] for each in json.load(sys.stdin)["findings"] if each["check"] == sys.argv[1]), sep="; ")' "$check"
}
expect() { case "$2" in *"$1"*) held "$3: $2" ;; *) fail "$3: '$2', not '$1'; $(tail -3 /root/doctor.err)" ;; esac; }
unit() { local property=$1; shift; systemd-run --quiet --pipe --wait --property="$property" /opt/tuner/bin/tuner "$@"; }
expect "a quota of 1 core" "$(finding cores unit CPUQuota=100%)" "CPUQuota=100% on a unit"
expect "1 core " "$(finding cores unit AllowedCPUs=1)" "AllowedCPUs=1 on a unit"
expect "pids.max" "$(finding processes unit TasksMax=200)" "TasksMax=200 on a unit"

# A layout that eats memory until the kernel ends one of its workers; the other layout is measured all the same.
cat >/opt/hungry.py <<'HUNGRY'
import os, time
eaten = []
while True:
    time.sleep(0.05)
    if os.environ["TUNER_PROCESSES"] == "2":
        eaten.append(bytearray(b"x" * 4_000_000))
    print("item done", flush=True)
HUNGRY
hungry() {
    printf '%s\n' 'service:' '  kind: script' '  name: hungry' "  command: [$1, /opt/hungry.py]" '  threads: no' \
        '  probe: {kind: log, pattern: "item done"}' 'study:' '  layouts: [1x-, 2x-]' '  strategy: all' '  repeats: 2' '  window: 10s' \
        '  warmup: 4s' '  foreign_limit: 64' '  max_attempts: 2'
}
hungry /opt/tuner/bin/python >/etc/tuner/study.yaml
dropin <<<$'[Service]\nMemoryMax=400M\nMemorySwapMax=0'
begin
until_ 900 "the end of the study" is_at_rest
journalctl -u tuner-study --no-pager -o cat | tail -25
journalctl -u tuner-study --no-pager -o cat | grep -q "out of memory: the kernel killed 1 process" || fail "the cause is not told"
none_left
held "MemoryMax=400M: the worker that the kernel ended is told as that; $(windows) windows of the other layout"

systemctl start docker || fail "no Docker"
docker load --quiet --input /root/tuner.tar >/dev/null || fail "the image cannot be loaded"
closed() {
    docker run --rm --network none --read-only --tmpfs /tmp:mode=1777 --cap-drop ALL --security-opt no-new-privileges "$@"
}
container() { local limit=$1; shift; closed $limit --entrypoint tuner tuner:0.1.0 "$@"; }
expect "a quota of 1.5 cores" "$(finding cores container --cpus=1.5)" "docker run --cpus 1.5"
expect "1 core " "$(finding cores container --cpuset-cpus=1)" "docker run --cpuset-cpus 1"
expect "pressure is of its cgroup" "$(finding container container --memory=400m)" "pressure in a container"
expect "pids.max" "$(finding processes container --pids-limit=200)" "docker run --pids-limit 200"
hungry /opt/tuner/bin/python >/root/hungry.yaml
closed --memory 400m --memory-swap 400m --shm-size 64m -v /opt/hungry.py:/opt/hungry.py:ro -v /root/hungry.yaml:/etc/tuner/study.yaml:ro \
    tuner:0.1.0 >/root/hungry.log 2>&1
code=$?
tail -25 /root/hungry.log
grep -q "out of memory: the kernel killed 1 process" /root/hungry.log || fail "the cause is not told in a container"
held "docker run --memory 400m: the same, exit code $code"
echo "all of it held"
