# The image under Podman. Sourced by trial.sh.
# crun knows version 1 of cgroups and version 2, not both at once: beside both it does not see version 2.
podman_() {
    unshare -m sh -c '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; exec podman --runtime crun "$@"' podman "$@"
}
# Everything that compose.yaml closes, is closed.
name=tuner-trial-$$
end_container() { [ ! -e "$work/started" ] || podman_ rm --force --time 0 "$name" >/dev/null 2>&1 || true; }
measure() {
    podman_ run --rm --name "$name" --cgroups=disabled --network host --read-only --tmpfs /tmp:mode=1777 --cap-drop ALL \
        --security-opt no-new-privileges --ulimit nofile=4096:4096 --ulimit nproc=4096:4096 -v "$work/study:/study" \
        -v "$work/study.yaml:/etc/tuner/study.yaml:ro" "$@"
}
# So many windows are told in a log; a process that ends before is a failure.
await_windows() {
    local log=$1 n=$2 pid=$3
    for _ in $(seq 1200); do
        [ "$(grep -c 'items/10 min, load' "$log")" -lt "$n" ] || return 0
        kill -0 "$pid" 2>/dev/null || fail "it ended before window $n: $(tail -3 "$log")"
        sleep 0.25
    done
    fail "no $n windows in five minutes"
}

try_image() {
    build_image
    held "the Dockerfile builds"
    # Five layouts, three blocks.
    study "$work/study.yaml" "2x1, 1x2, 1x1, 4x1, 2x2" 3 6s 2s
    install -d -o 10001 -g 10001 "$work/study"
    : >"$work/started"
    measure --entrypoint tuner $TUNER doctor >"$work/doctor.log" 2>&1 || fail "doctor: $(cat "$work/doctor.log")"
    held "tuner doctor finds nothing that blocks, with everything closed"

    measure $TUNER >"$work/1.log" 2>&1 & local run=$!
    await_windows "$work/1.log" 3 $run
    podman_ stop -t 120 "$name" >/dev/null
    local code=0; wait $run || code=$?
    [ $code -eq 130 ] || fail "exit code $code after a stop: $(tail -3 "$work/1.log")"
    [ -s "$work/study/RUNBOOK.md" ] || fail "no runbook after a stop"
    held "a stop ends it with 130, with study and runbook"

    measure $TUNER >"$work/2.log" 2>&1 & run=$!
    await_windows "$work/2.log" 2 $run
    podman_ kill --signal KILL "$name" >/dev/null
    code=0; wait $run || code=$?
    [ $code -eq 137 ] || fail "exit code $code after a kill"
    held "a kill ends it"

    measure $TUNER >"$work/3.log" 2>&1 || fail "exit code $? of the rest: $(tail -3 "$work/3.log")"
    local n
    n=$(cat "$work"/[123].log | grep -c 'items/10 min, load')
    [ "$n" -eq 15 ] || fail "$n windows were told in the three parts, of 15"
    held "what is left goes on: 15 windows in three parts, none of them twice"
    [ -z "$(podman_ ps --all --quiet)" ] || fail "left behind: $(podman_ ps --all)"
    tail -22 "$work/3.log"
}

try_image
