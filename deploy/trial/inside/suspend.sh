#!/bin/bash
# The box is suspended to memory (ACPI S3) within a window, and woken by its clock half a minute later.
. "$(dirname "$0")/common.sh"
study /etc/tuner/study.yaml "2x1, 1x2" 3 20s
begin
await 2
kept >/root/before
[ "$(wc -l </root/before)" -eq 2 ] || fail "$(wc -l </root/before) windows are kept, of 2"
sleep 16   # the next launch needs up to ten seconds and warms up for four: its window has begun, and does not end before
rtcwake --mode mem --seconds 30 >/dev/null || fail "this machine cannot be suspended"
asleep=$(/opt/tuner/bin/python -c 'import time; print(round(time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()))')
[ "$asleep" -ge 28 ] || fail "it was suspended for $asleep s"
held "the box was suspended for $asleep s"
until_ 900 "the end of the study" is_at_rest
journalctl -u tuner-study --no-pager -o cat
[ "$(is Result tuner-study)" = success ] || fail "the study ended with $(is Result tuner-study)"
void=$(journalctl -u tuner-study --no-pager -o cat | grep 'void window')
[ "$(echo "$void" | grep -c 'clock-jumped')" -eq 1 ] && [ "$(echo "$void" | wc -l)" -eq 1 ] || fail "void windows: ${void:-none}"
[ "$(windows)" -eq 6 ] || fail "$(windows) windows were told, of 6"
kept >/root/after
[ "$(wc -l </root/after)" -eq 7 ] || fail "$(wc -l </root/after) windows are kept, of 6 and the void one"
head -n 2 /root/after | cmp -s - /root/before || fail "finished windows changed"
none_left
held "the window that it slept in is void and was taken again, no other is; what was finished before is unchanged"
echo "all of it held"
