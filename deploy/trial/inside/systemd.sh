#!/bin/bash
# tuner-study.service as it is, then with each of the drop-ins that its comments name; and the weekly check.
. "$(dirname "$0")/common.sh"
study /etc/tuner/study.yaml "2x1, 1x2, 1x1, 4x1, 2x2" 3 6s 2s

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

dropin </root/trial/sealed.conf
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
