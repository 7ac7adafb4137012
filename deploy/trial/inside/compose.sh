#!/bin/bash
# compose.yaml under Docker: tuner, Redis and Prometheus. The machine has four CPUs, two of them the study's.
. "$(dirname "$0")/common.sh"
here=$(cd "$(dirname "$0")" && pwd)
units="docker"
systemctl start docker || fail "no Docker"
for image in tuner redis prometheus; do docker load --quiet --input "/root/$image.tar" >/dev/null || fail "no image $image"; done
study /etc/tuner/study.yaml "2x1, 1x2" 3
export STUDY_CPUS=2-3 OTHER_CPUS=0-1 GRAFANA_PASSWORD=trial STUDY_CONFIG=/etc/tuner/study.yaml
compose() { docker compose --file "$here/deploy/docker/compose.yaml" "$@"; }
log() { compose logs --no-log-prefix tuner 2>/dev/null; }
told_windows() { [ "$(log | grep -c 'items/10 min, load')" -ge "$1" ]; }
ask() {  # what Prometheus says to a query
    /opt/tuner/bin/python -c 'import json, sys, urllib.parse, urllib.request
found = json.load(urllib.request.urlopen("http://127.0.0.1:9090/api/v1/query?" + urllib.parse.urlencode({"query": sys.argv[1]}), timeout=20))
print(*(row["value"][1] for row in found["data"]["result"]))' "$1" 2>/dev/null
}
states() { compose ps --all; compose logs --tail 5; }
compose config --quiet || fail "compose.yaml is refused"
compose up --detach --no-build tuner redis prometheus >/root/up.log 2>&1 || fail "up: $(tail -3 /root/up.log)"
[ "$(compose ps --services --filter status=running | sort | paste -sd ' ')" = "prometheus redis tuner" ] || { states; fail "not all of it runs"; }
held "up: $(docker --version), $(docker compose version)"
until_ 600 "two windows" told_windows 2
scraped() { [ "$(ask 'up{job="tuner"}')" = 1 ]; }
until_ 120 "a scrape of tuner" scraped
[ -n "$(ask tuner_study_layouts)" ] || fail "Prometheus has no metric of tuner's"
held "Prometheus scrapes it: $(ask tuner_study_layouts) layouts"
/opt/tuner/bin/python -c 'import json, urllib.request
groups = json.load(urllib.request.urlopen("http://127.0.0.1:9090/api/v1/rules", timeout=20))["data"]["groups"]
rules = [rule for group in groups for rule in group["rules"]]
assert rules and all(rule["health"] in ("ok", "unknown") for rule in rules), rules
print(f"held: its {len(rules)} rules are loaded, none of them in error")' || fail "rules"
compose exec -T redis redis-cli ping | grep -q PONG || fail "no Redis"
compose exec -T tuner python -c 'import os, redis; assert redis.Redis.from_url(os.environ["REDIS_URL"]).ping()' || fail "tuner does not reach Redis"
held "Redis answers the container of the study"
compose stop tuner >/dev/null 2>&1
code=$(docker inspect --format '{{.State.ExitCode}}' "$(compose ps --all --quiet tuner)")
[ "$code" -eq 130 ] || fail "a stop is told as exit code $code"
held "a stop ends it with 130"
compose up --detach --no-build tuner >/dev/null 2>&1
ended() { [ "$(docker inspect --format '{{.State.Status}}' "$(compose ps --all --quiet tuner)")" = exited ]; }
until_ 900 "the end of the study" ended
code=$(docker inspect --format '{{.State.ExitCode}}' "$(compose ps --all --quiet tuner)")
log
[ "$code" -eq 0 ] || fail "it ended with exit code $code"
told_windows 6 && ! told_windows 7 || fail "$(log | grep -c 'items/10 min, load') windows in two parts, of 6"
held "the next up goes on: 6 windows in two parts, none of them twice"
compose cp tuner:/study/RUNBOOK.md /root/RUNBOOK.md >/dev/null 2>&1 && [ -s /root/RUNBOOK.md ] || fail "no runbook"
held "cp brings its runbook"
compose down --volumes >/dev/null 2>&1
[ -z "$(docker ps --all --quiet)$(docker volume ls --quiet)" ] || fail "left behind: $(docker ps --all) $(docker volume ls)"
held "down leaves nothing"
echo "all of it held"
