# The units under a systemd of their own, by systemd-nspawn. Sourced by trial.sh.
build_image
debian $PYTHON,systemd,systemd-sysv,dbus "$work/box"
install_tuner "$work/box"
begin_with_boot "$work/box" "ExecStart=/bin/bash -c 'exec /bin/bash /root/trial/systemd.sh >/root/trial.log 2>&1'
ExecStopPost=systemctl poweroff"
# Where version 1 of cgroups is mounted as well, the machine gets version 2 alone.
unshare -m sh -c '
    ! mountpoint -q /sys/fs/cgroup/unified || { umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; }
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec timeout -k 10 1500 \
        systemd-nspawn -q --register=no --keep-unit --link-journal=no -b -D "$1"' sh "$work/box" </dev/null >"$work/boot.log" 2>&1 \
    || fail "systemd-nspawn: $(tail -3 "$work/boot.log")"
cat "$work/box/root/trial.log"
grep -q '^all of it held$' "$work/box/root/trial.log" || exit 1
