# A machine of its own, by QEMU: Debian's kernel, cgroups of version 2 with all their controllers, no network. Sourced by trial.sh.
# What trial/inside says there comes over its second serial line; the first has the console, for when it does not start.
packages=$PYTHON,systemd,systemd-sysv,dbus,udev,initramfs-tools,linux-image-cloud-amd64,kmod,procps,util-linux-extra
cpus=2 memory=4096
case "$trial" in
    limits) packages=$packages,docker.io,apparmor,iptables; images="tuner" ;;
    compose) packages=$packages,docker.io,apparmor,iptables; images="tuner redis prometheus"; cpus=4 ;;
    cluster) packages=$packages,containerd,runc,containernetworking-plugins,openssl,iproute2; images="tuner pause"; cpus=6; memory=11264 ;;
    *) images= ;;
esac

# Stand-ins for the images that compose.yaml names: Debian's Redis and the Prometheus in PROGRAMS. Each starts as the original does, as its own user.
build_redis() {
    local container
    container=$(buildah from "$BASE")
    buildah run --network host "$container" -- sh -c \
        'apt-get update -qq && apt-get install --yes --no-install-recommends redis-server >/dev/null' >"$work/redis.log" 2>&1 \
        || fail "redis: $(tail -1 "$work/redis.log")"
    printf '#!/bin/sh\nexec setpriv --reuid redis --regid redis --clear-groups -- "$@"\n' >"$work/become-redis"
    buildah copy -q --chmod 755 "$container" "$work/become-redis" /usr/local/bin/become-redis >/dev/null
    buildah config --entrypoint '["/usr/local/bin/become-redis"]' --workingdir /var/lib/redis "$container"
    buildah commit -q "$container" localhost/redis:trial >/dev/null
}
build_prometheus() {
    local container
    container=$(buildah from scratch)
    install -D "$PROGRAMS/prometheus" "$work/prometheus/bin/prometheus"
    mkdir "$work/prometheus/etc" "$work/prometheus/tmp" "$work/prometheus/prometheus"
    echo 'nobody:x:65534:65534::/:/bin/false' >"$work/prometheus/etc/passwd"
    buildah copy -q --chown 65534:65534 "$container" "$work/prometheus" / >/dev/null
    buildah config --user nobody --volume /prometheus --workingdir /prometheus --entrypoint '["/bin/prometheus"]' \
        --cmd '["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]' "$container"
    buildah commit -q "$container" localhost/prometheus:trial >/dev/null
}
# Holds a pod's namespaces, and does nothing.
build_pause() {
    local container
    container=$(buildah from scratch)
    printf '%s\n' '#include <signal.h>' '#include <unistd.h>' 'static void leave(int n) { (void)n; _exit(0); }' \
        'int main(void) { signal(SIGTERM, leave); signal(SIGINT, leave); for (;;) pause(); }' >"$work/pause.c"
    cc -Os -static -o "$work/pause" "$work/pause.c" || fail "pause cannot be built"
    buildah copy -q "$container" "$work/pause" /pause >/dev/null
    buildah config --entrypoint '["/pause"]' "$container"
    buildah commit -q "$container" localhost/pause:trial >/dev/null
}
# save IMAGE: to a file of the machine's, under the name that compose.yaml has for it; pause is known by its own.
save() {
    local name
    name=$(sed -n "s|^ *image: \(\(.*/\)\?$1:.*\)|\1|p" "$here/deploy/docker/compose.yaml")
    case "${name:=localhost/$1:1}" in
        localhost/*) ;;
        */*) name=docker.io/$name ;;
        *) name=docker.io/library/$name ;;
    esac
    buildah push -q "localhost/$1:trial" "docker-archive:$work/box/root/$1.tar:$name"
}

build_image
for image in $images; do
    [ "$image" = tuner ] || "build_$image"
done
debian "$packages" "$work/box"
install_tuner "$work/box"
mkdir "$work/box/root/trial/deploy"
for folder in docker kubernetes prometheus grafana; do cp -r "$here/deploy/$folder" "$work/box/root/trial/deploy/"; done
for image in $images; do
    save "$image"
done
rm -rf "$work/images"
for program in $programs; do
    case "$program" in
        docker-compose) install -D "$PROGRAMS/$program" "$work/box/usr/libexec/docker/cli-plugins/$program" ;;
        prometheus) ;;
        *) install -D "$PROGRAMS/$program" "$work/box/opt/kube/$program" ;;
    esac
done
for unit in docker.service docker.socket containerd.service; do
    [ ! -e "$work/box/lib/systemd/system/$unit" ] || chroot "$work/box" systemctl --quiet disable "$unit" >/dev/null 2>&1
done
begin_with_boot "$work/box" "ExecStart=/bin/bash /root/trial/$trial.sh
ExecStopPost=systemctl reboot --force --force
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS1"
printf '%s\n' virtio_pci virtio_blk >>"$work/box/etc/initramfs-tools/modules"
chroot "$work/box" update-initramfs -u >"$work/initramfs.log" 2>&1 || fail "no initramfs: $(tail -1 "$work/initramfs.log")"
mv "$work"/box/boot/vmlinuz-* "$work/vmlinuz"
mv "$work"/box/boot/initrd.img-* "$work/initrd"
mke2fs -q -t ext4 -d "$work/box" "$work/disk" 12G >"$work/mke2fs.log" 2>&1 || fail "no disk: $(tail -1 "$work/mke2fs.log")"
rm -rf "$work/box"

# A reboot ends it, and so does a kernel that gives up; what hangs is ended after an hour.
timeout -k 10 3600 qemu-system-x86_64 -machine q35 -accel "${ACCEL:-tcg,thread=multi}" -cpu "${CPU:-max}" -smp $cpus -m $memory \
    -display none -monitor none -nic none -no-reboot -device virtio-rng-pci -drive "file=$work/disk,format=raw,if=virtio" \
    -kernel "$work/vmlinuz" -initrd "$work/initrd" -append "root=/dev/vda rw console=ttyS0 panic=-1" \
    -serial "file:$work/console.log" -serial "file:$work/trial.log" </dev/null 2>"$work/qemu.log" &
machine=$!
echo $machine >"$work/machine.pid"
: >>"$work/trial.log"
tail --pid=$machine --follow=name --lines=+1 "$work/trial.log" 2>/dev/null &
told=$!
code=0
wait $machine || code=$?
rm "$work/machine.pid"   # from now on the pid may be somebody else's
wait $told || true
[ $code -eq 0 ] || fail "QEMU: $(tail -1 "$work/qemu.log")"
grep -q '^all of it held' "$work/trial.log" || fail "it did not all hold; the console ends: $(tail -3 "$work/console.log")"
