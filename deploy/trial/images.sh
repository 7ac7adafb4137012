# Bases made of Debian's packages, and images on them. Sourced by trial.sh.
export STORAGE_DRIVER=vfs CONTAINERS_STORAGE_CONF="$work/storage.conf" BUILDAH_ISOLATION=chroot
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s/images"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
PYTHON=python3,python3-venv,python-is-python3,ca-certificates
OTHERS_PYTHON=ca-certificates,libexpat1,libffi8,libsqlite3-0,libssl3,libbz2-1.0,liblzma5,libreadline8,libncursesw6,libuuid1,zlib1g
TUNER=localhost/tuner:trial

# debian PACKAGES FOLDER: a Debian with these, and with what this box needs to reach its mirrors.
debian() {
    debootstrap --variant=minbase --include="$1" bookworm "$2" "${MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" \
        || fail "debootstrap: $(tail -1 "$work/debootstrap.log")"
    chroot "$2" apt-get clean
    cp /etc/ssl/certs/ca-certificates.crt "$2/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$2/etc/"
    cp /etc/apt/apt.conf.d/* "$2/etc/apt/apt.conf.d/"
}

# $TUNER, by the Dockerfile.
build_image() {
    if [ -z "${BASE:-}" ]; then
        if [ -n "${PYTHON_AT:-}" ]; then
            debian $OTHERS_PYTHON "$work/base"
            cp -a "$PYTHON_AT"/{bin,include,lib} "$work/base/usr/local/"
            chroot "$work/base" sh -c 'ldconfig; ln -sf python3 /usr/local/bin/python; python --version'
        else
            debian $PYTHON "$work/base"
        fi
        BASE=localhost/tuner-trial-base:1
        local container
        container=$(buildah from scratch)
        buildah copy -q "$container" "$work/base" / >/dev/null
        buildah commit -q "$container" "$BASE" >/dev/null
        rm -rf "$work/base"
    fi
    git clone -q "$here" "$work/source"
    buildah bud --network host --build-arg BASE="$BASE" -f "$work/source/deploy/docker/Dockerfile" -t $TUNER \
        "$work/source" >"$work/build.log" 2>&1 || fail "build: $(tail -3 "$work/build.log")"
}

# install_tuner ROOT: what the image has in /opt/tuner, and the units, on a system that has the same Python.
install_tuner() {
    local container mounted
    container=$(buildah from $TUNER)
    mounted=$(buildah mount "$container")
    mkdir -p "$1/etc/tuner"
    cp -a "$mounted/opt/tuner" "$1/opt/"
    buildah rm "$container" >/dev/null
    cp "$here"/deploy/systemd/*.service "$here"/deploy/systemd/*.timer "$1/etc/systemd/system/"
    cp -r "$here/deploy/trial/inside" "$1/root/trial"
    cp "$here/deploy/systemd/tuner-study.service.d/sealed.conf" "$1/root/trial/"
    chroot "$1" useradd --system --home-dir /var/lib/tuner tuner
}

# begin_with_boot ROOT COMMAND: a unit that runs it once everything else runs.
begin_with_boot() {
    printf '%s\n' '[Unit]' 'After=multi-user.target' '[Service]' "$2" >"$1/etc/systemd/system/trial.service"
    mkdir -p "$1/etc/systemd/system/multi-user.target.wants"
    ln -s ../trial.service "$1/etc/systemd/system/multi-user.target.wants/"
}
