#!/usr/bin/env bash
# Tries what is in this folder for real, on a Debian box, as root. Each trial runs a study of short windows, and breaks it.
#   deploy/trial.sh image      the image under Podman: builds it, measures in it, stops it, kills it, and goes on; five minutes
#   deploy/trial.sh systemd    the units under a systemd beside this box's own: the same, and the weekly check; eight minutes
# In a machine of its own, with a kernel of its own (QEMU, which needs no KVM; what computes takes much longer there):
#   deploy/trial.sh suspend    the box is suspended to memory within a window
#   deploy/trial.sh limits     quotas, cpusets, memory and pids of cgroups of version 2: of a unit, of a study's unit, of containers of Docker
#   deploy/trial.sh compose    compose.yaml under Docker, without Grafana
#   deploy/trial.sh cluster    the Kubernetes Job on a node: evicted, killed, completed, and with a wrong config
# It says which of Debian's packages it lacks. Of what Debian 12 has not, PROGRAMS names a folder: docker-compose (2.40 was tried) and
# prometheus (3.4) for compose; etcd (3.6), kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl (1.34) for cluster.
# The base of the image is made of Debian's packages, too (Python 3.11), so nothing is pulled from a registry of images; BASE names
# another one, as BASE=python:3.14.8-slim-trixie. PYTHON_AT=PREFIX takes that folder's Python in place of Debian's, in /usr/local as
# images of Python have it. MIRROR is a mirror of Debian's; ACCEL=kvm CPU=host take the box's KVM (not tried).
# It works in a temporary folder, and takes away what it made, also when it is interrupted.
set -euo pipefail
refuse() { echo "Error: $1" >&2; echo "$2" >&2; exit 2; }
fail() { echo "failed: $*" >&2; exit 1; }
held() { echo "held: $*"; }
trial=${1:-}
case "$trial" in
    image) needed="debootstrap buildah podman conmon crun" ;;
    systemd) needed="debootstrap buildah systemd-nspawn" ;;
    suspend|limits|compose|cluster) needed="debootstrap buildah qemu-system-x86_64 mke2fs cc" ;;
    *) refuse "there is no trial '$trial'" "Type deploy/trial.sh image, or systemd, suspend, limits, compose, cluster." ;;
esac
case "$trial" in
    compose) programs="docker-compose prometheus" ;;
    cluster) programs="etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl" ;;
    *) programs= ;;
esac
[ "$(id -u)" -eq 0 ] || refuse "only root may mount what this needs" "Type it as root, on a box that may be tried on."
for program in $needed; do
    command -v "$program" >/dev/null || refuse "$program is missing" \
        "Debian's packages are debootstrap, buildah, podman, conmon, crun, systemd-container, qemu-system-x86, e2fsprogs and gcc."
done
for program in $programs; do
    [ -x "${PROGRAMS:-}/$program" ] || refuse "no $program in PROGRAMS (${PROGRAMS:-not set})" \
        "Name a folder with the programs of their projects' releases, as PROGRAMS=/opt/programs: $programs."
done
[ -z "${PYTHON_AT:-}" ] || [ -x "$PYTHON_AT/bin/python3" ] || refuse "no bin/python3 in PYTHON_AT ($PYTHON_AT)" \
    "Name the folder that a Python was installed into, as PYTHON_AT=/opt/python3.13."
ulimit -n 4096
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d /var/tmp/tuner-trial.XXXXXX)
leave() {
    [ "$trial" != image ] || end_container
    [ ! -e "$work/machine.pid" ] || kill "$(cat "$work/machine.pid")" 2>/dev/null || true
    wait
    rm -rf --one-file-system "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM

. "$here/deploy/trial/inside/study.sh"
. "$here/deploy/trial/images.sh"
case "$trial" in
    image) . "$here/deploy/trial/image.sh" ;;
    systemd) . "$here/deploy/trial/systemd.sh" ;;
    *) . "$here/deploy/trial/machine.sh" ;;
esac
