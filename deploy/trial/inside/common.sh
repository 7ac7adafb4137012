# What the trials inside of a machine share. Each is run by bash, as root, on a Debian that has tuner in /opt/tuner and its units.
# What held and what failed goes to the standard output; the first failure ends the trial.
set -u
. "$(dirname "$0")/study.sh"
units="tuner-study tuner-check"
fail() { echo "failed: $*"; journalctl $(printf -- '-u %s ' $units) --no-pager -o cat 2>&1 | tail -20; exit 1; }
held() { echo "held: $*"; }
windows() { journalctl -u tuner-study --no-pager -o cat | grep -c 'items/10 min, load'; }
is() { systemctl show --property="$1" --value "$2"; }

# until_ SECONDS WHAT COMMAND...: the command succeeds within that time, or WHAT is told as what did not happen.
until_() {
    local deadline=$(($(date +%s) + $1)) what=$2
    shift 2
    until "$@"; do
        [ "$(date +%s)" -lt "$deadline" ] || fail "$what did not happen"
        sleep 0.3
    done
}
is_at_rest() { case "$(is ActiveState tuner-study)" in inactive|failed) true ;; *) false ;; esac; }
is_at_work() { ! is_at_rest; }
begin() {
    started=$(windows)
    systemctl start --no-block tuner-study
    until_ 60 "a start of the study" is_at_work
}
has_windows() { [ $(($(windows) - started)) -ge "$1" ]; }
await() { until_ 600 "window $1" has_windows "$1"; }
none_left() {
    for process in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q '^/opt/tuner/' && fail "left behind: $(tr '\0' ' ' <"$process/cmdline")"
    done
    [ ! -e /run/tuner ] || fail "left behind: /run/tuner"
}
# The lines of a drop-in come on the standard input; the study begins anew.
dropin() {
    rm -rf /etc/systemd/system/tuner-study.service.d /var/lib/tuner/*
    mkdir /etc/systemd/system/tuner-study.service.d
    cat >/etc/systemd/system/tuner-study.service.d/trial.conf
    systemctl daemon-reload
}
# Every window that the study's file has, one a line.
kept() {
    /opt/tuner/bin/python -c 'import sqlite3, sys
for row in sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute("SELECT * FROM window ORDER BY id"):
    print(row)' "${1:-/var/lib/tuner/overnight.tuner.db}"
}
