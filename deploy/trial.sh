#!/usr/bin/env bash
# Tries what is in this folder for real, on a Debian box, as root: the image under Podman, the units under a systemd of their own.
#   deploy/trial.sh image      builds it, measures in it, stops it, kills it, and goes on; five minutes
#   deploy/trial.sh systemd    boots a systemd beside this box's own, and does the same to its units; eight minutes
# Needs debootstrap and buildah, and podman, conmon, crun for the first, systemd-container for the second: all are Debian's.
# The base is made of Debian's packages, too (Python 3.11), so nothing is pulled from a registry of images; `image` takes
# another one, as BASE=python:3.13.5-slim-bookworm. It works in a temporary folder, and takes away what it made, also when it is interrupted.
set -euo pipefail
refuse() { echo "Error: $1" >&2; echo "$2" >&2; exit 2; }
case "${1:-}" in
    image) needed="debootstrap buildah podman conmon crun" ;;
    systemd) needed="debootstrap buildah systemd-nspawn"; BASE= ;;
    *) refuse "deploy/trial.sh tries either the image or the units" "Type deploy/trial.sh image, or deploy/trial.sh systemd." ;;
esac
[ "$(id -u)" -eq 0 ] || refuse "only root may mount what this needs" "Type it as root, on a box that may be tried on."
for program in $needed; do
    command -v "$program" >/dev/null || refuse "$program is missing" "The top of this script names Debian's packages."
done
ulimit -n 4096
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d /var/tmp/tuner-trial.XXXXXX)
name=tuner-trial-$$
leave() {
    [ ! -e "$work/started" ] || podman_ rm --force --time 0 "$name" >/dev/null 2>&1 || true
    wait
    rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
export STORAGE_DRIVER=vfs CONTAINERS_STORAGE_CONF="$work/storage.conf" BUILDAH_ISOLATION=chroot
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"

fail() { echo "failed: $*" >&2; exit 1; }
held() { echo "held: $*"; }

# A Debian with a Python, and with what this box needs to reach its mirrors.
debian() {
    debootstrap --variant=minbase --include="$1" bookworm "$2" "${MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" \
        || fail "debootstrap: $(tail -1 "$work/debootstrap.log")"
    cp /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$2/etc/"
    cp /etc/apt/apt.conf.d/* "$2/etc/apt/apt.conf.d/"
}
PYTHON=python3,python3-venv,python-is-python3,ca-certificates

# Five layouts, three blocks of short windows: neighbours do not void them, here the point is not how quiet the box is.
study() {
    printf '%s\n' 'service:' '  kind: crash-processor' '  name: crash-processor' 'study:' '  cores: 2' '  strategy: all' \
        '  repeats: 3' '  window: 6s' '  warmup: 2s' '  foreign_limit: 64' '  max_attempts: 9' >"$1"
}

build_image() {
    if [ -z "${BASE:-}" ]; then
        debian $PYTHON "$work/base"
        BASE=localhost/tuner-trial-base:1
        local container
        container=$(buildah from scratch)
        buildah copy -q "$container" "$work/base" / >/dev/null
        buildah commit -q "$container" "$BASE" >/dev/null
    fi
    git clone -q "$here" "$work/source"
    buildah bud --network host --build-arg BASE="$BASE" -f "$work/source/deploy/docker/Dockerfile" -t localhost/tuner:trial \
        "$work/source" >"$work/build.log" 2>&1 || fail "build: $(tail -3 "$work/build.log")"
}

# crun knows version 1 of cgroups and version 2, not both at once: beside both it does not see version 2.
podman_() {
    unshare -m sh -c '! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified; exec podman --runtime crun "$@"' podman "$@"
}
# Everything that compose.yaml closes, is closed.
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
    study "$work/study.yaml"
    install -d -o 10001 -g 10001 "$work/study"
    : >"$work/started"
    measure --entrypoint tuner localhost/tuner:trial doctor >"$work/doctor.log" 2>&1 || fail "doctor: $(cat "$work/doctor.log")"
    held "tuner doctor finds nothing that blocks, with everything closed"

    measure localhost/tuner:trial >"$work/1.log" 2>&1 & local run=$!
    await_windows "$work/1.log" 3 $run
    podman_ stop -t 120 "$name" >/dev/null
    local code=0; wait $run || code=$?
    [ $code -eq 130 ] || fail "exit code $code after a stop: $(tail -3 "$work/1.log")"
    [ -s "$work/study/RUNBOOK.md" ] || fail "no runbook after a stop"
    held "a stop ends it with 130, with study and runbook"

    measure localhost/tuner:trial >"$work/2.log" 2>&1 & run=$!
    await_windows "$work/2.log" 2 $run
    podman_ kill --signal KILL "$name" >/dev/null
    code=0; wait $run || code=$?
    [ $code -eq 137 ] || fail "exit code $code after a kill"
    held "a kill ends it"

    measure localhost/tuner:trial >"$work/3.log" 2>&1 || fail "exit code $? of the rest: $(tail -3 "$work/3.log")"
    local n
    n=$(cat "$work"/[123].log | grep -c 'items/10 min, load')
    [ "$n" -eq 15 ] || fail "$n windows were told in the three parts, of 15"
    held "what is left goes on: 15 windows in three parts, none of them twice"
    [ -z "$(podman_ ps --all --quiet)" ] || fail "left behind: $(podman_ ps --all)"
    tail -22 "$work/3.log"
}

# What is done inside: tuner-study.service as it is, then with each of the drop-ins that its comments name.
write_inside() {
    cat >"$1" <<'INSIDE'
#!/bin/bash
exec >/root/trial.log 2>&1
fail() { echo "failed: $*"; journalctl -u tuner-study -u tuner-check --no-pager -o cat | tail -20; systemctl poweroff; exit 1; }
held() { echo "held: $*"; }
windows() { journalctl -u tuner-study --no-pager -o cat | grep -c 'items/10 min, load'; }
begin() { started=$(windows); systemctl start --no-block tuner-study; }
await() {
    for _ in $(seq 1200); do [ $(($(windows) - started)) -lt "$1" ] || return 0; sleep 0.25; done
    fail "no $1 windows in five minutes"
}
is() { systemctl show --property="$1" --value "$2"; }
none_left() {
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q '^/opt/tuner/' && fail "left behind: $(tr '\0' ' ' <"$process/cmdline")"
    done
    [ ! -e /run/tuner ] || fail "left behind: /run/tuner"
}
dropin() {
    rm -rf /etc/systemd/system/tuner-study.service.d /var/lib/tuner/*
    mkdir /etc/systemd/system/tuner-study.service.d
    cat >/etc/systemd/system/tuner-study.service.d/trial.conf
    systemctl daemon-reload
}
useradd --system --home-dir /var/lib/tuner tuner

# Between two launches there is neither: looked at until it is there.
launch_cgroup() { compgen -G '/sys/fs/cgroup/system.slice/tuner-study.service/tuner-launch-*' >/dev/null; }
owners() {  # of the workers that run
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q 'crash-processor run' && stat -c %U "$process" 2>/dev/null
    done
}
begin; await 2
for _ in $(seq 1200); do launch_cgroup && break; sleep 0.05; done
launch_cgroup || fail "a launch has no cgroup of its own"
held "a launch has a cgroup of its own (Delegate=yes)"
systemctl stop tuner-study
[ "$(is Result tuner-study)" = success ] || fail "a stop is told as $(is Result tuner-study)"
[ -s /var/lib/tuner/RUNBOOK.md ] || fail "no runbook after a stop"
none_left
held "a stop is a success, with study and runbook, and leaves nothing running"
begin; await 2
systemctl kill --signal=KILL --kill-who=main tuner-study
for _ in $(seq 120); do [ "$(is ActiveState tuner-study)" = failed ] && break; sleep 0.5; done
[ "$(is Result tuner-study)" = signal ] || fail "a kill is told as $(is Result tuner-study)"
none_left
held "a kill of tuner fails the unit, and leaves nothing running"
begin
for _ in $(seq 600); do [ "$(is ActiveState tuner-study)" = inactive ] && break; sleep 0.5; done
[ "$(is ActiveState tuner-study) $(is Result tuner-study)" = "inactive success" ] || fail "it does not end"
[ "$(windows)" -eq 15 ] || fail "$(windows) windows in the three parts, of 15"
held "the next start goes on to the end: 15 windows in three parts, none of them twice"

systemctl enable --now tuner-check.timer
systemctl list-timers --no-pager tuner-check.timer | grep -q tuner-check.service || fail "no timer"
mkdir /etc/systemd/system/tuner-check.service.d
printf '[Service]\nEnvironment=BUDGET=2m\n' >/etc/systemd/system/tuner-check.service.d/trial.conf
systemctl daemon-reload
systemctl start tuner-check
case "$(is ExecMainStatus tuner-check)" in 0|4|5) ;; *) fail "tuner check ended with $(is ExecMainStatus tuner-check)" ;; esac
held "the weekly check has its timer, and answers: exit code $(is ExecMainStatus tuner-check)"

dropin </root/sealed.conf
begin; await 2; systemctl stop tuner-study
[ "$(is Result tuner-study)" = success ] || fail "sealed: $(is Result tuner-study)"
none_left
held "with sealed.conf, too"
dropin <<<$'[Service]\nUser=root\nGroup=root\nCapabilityBoundingSet=~'
sed -i 's/^  name:.*/&\n  user: tuner/' /etc/tuner/study.yaml
begin; await 2
found=
for _ in $(seq 1200); do found=$(owners | sort -u); [ -z "$found" ] || break; sleep 0.05; done
[ "$found" = tuner ] || fail "workers run as: ${found:-nobody, none was found}"
systemctl stop tuner-study
none_left
held "as root with its capabilities, whose workers are of the config's user"
echo "all of it held"
systemctl poweroff
INSIDE
    chmod +x "$1"
}

try_systemd() {
    build_image
    debian $PYTHON,systemd,systemd-sysv,dbus "$work/box"
    local container mounted
    container=$(buildah from localhost/tuner:trial)
    mounted=$(buildah mount "$container")
    cp -a "$mounted/opt/tuner" "$work/box/opt/"
    buildah umount "$container" >/dev/null
    cp "$here"/deploy/systemd/*.service "$here"/deploy/systemd/*.timer "$work/box/etc/systemd/system/"
    cp "$here/deploy/systemd/tuner-study.service.d/sealed.conf" "$work/box/root/"
    mkdir -p "$work/box/etc/tuner" "$work/box/etc/systemd/system/multi-user.target.wants"
    study "$work/box/etc/tuner/study.yaml"
    write_inside "$work/box/root/trial.sh"
    printf '[Unit]\nAfter=multi-user.target\n[Service]\nExecStart=/root/trial.sh\n' >"$work/box/etc/systemd/system/trial.service"
    ln -s ../trial.service "$work/box/etc/systemd/system/multi-user.target.wants/"
    # Where version 1 of cgroups is mounted as well, the machine gets version 2 alone.
    unshare -m sh -c '
        ! mountpoint -q /sys/fs/cgroup/unified || { umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; }
        SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec timeout -k 10 1500 \
            systemd-nspawn -q --register=no --keep-unit --link-journal=no -b -D "$1"' sh "$work/box" </dev/null >"$work/boot.log" 2>&1 \
        || fail "systemd-nspawn: $(tail -3 "$work/boot.log")"
    cat "$work/box/root/trial.log"
    grep -q '^all of it held$' "$work/box/root/trial.log" || exit 1
}

"try_$1"
