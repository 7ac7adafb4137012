#!/bin/bash
# The box is suspended to memory (ACPI S3) within a window, and woken by its clock half a minute later.
. "$(dirname "$0")/common.sh"
study /etc/tuner/study.yaml "2x1, 1x2" 3
begin
await 2
until_ 60 "a window that runs" eval '[ "$(journalctl -u tuner-study --no-pager -o cat | tail -1 | grep -c "items/10 min, load")" -eq 1 ]'
kept >/root/before
sleep 12   # in the launch that follows, or in its window
rtcwake --mode mem --seconds 30 >/dev/null || fail "this machine cannot be suspended"
[ "$(awk '{print int($1)}' /proc/uptime)" -ge 30 ] || fail "it was not suspended"
asleep=$(/opt/tuner/bin/python -c 'import time; print(round(time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()))')
[ "$asleep" -ge 28 ] || fail "it was suspended for $asleep s"
held "the box was suspended for $asleep s"
until_ 600 "the end of the study" is_at_rest
journalctl -u tuner-study --no-pager -o cat
systemctl show tuner-study | grep -E "Result|ExecMainStatus"
kept >/root/after
diff <(head -n "$(wc -l </root/before)" /root/after) /root/before || fail "finished windows changed"
held "windows finished before are unchanged"
