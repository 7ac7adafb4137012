#!/usr/bin/env bash
# What action.yml runs: tuner grid or tuner check, then what came out as Markdown into the job's summary.
# Its inputs are environment variables: an input that was put into a script's text could run commands of its own.
# Ends with 0 where there is an answer, also one weaker than asked (tuner's 5, said by a warning); else with tuner's exit code.
set -uo pipefail
tuner=${TUNER:-tuner}
command=${COMMAND:-grid}
study=${STUDY:-study.tuner.db}
temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
number=1 # of the use of this action in its job
while [ -e "$temporary/tuner-$number.md" ]; do number=$((number + 1)); done
markdown=$temporary/tuner-$number.md

tell() { # error|warning TEXT: GitHub shows it at the top of the job
    local text=${2//'%'/%25}
    text=${text//$'\r'/%0D}
    printf '::%s title=tuner::%s\n' "$1" "${text//$'\n'/%0A}"
}

stop() { # CODE TEXT
    tell error "$2"
    exit "$1"
}

words() { # TEXT: one word a line, with quotes as in a shell
    xargs -r -n 1 printf '%s\n' <<<"$1"
}

case $command in grid | check) ;; *) stop 2 "command: expected grid or check, got '$command'" ;; esac
[ -z "${FAIL_IF_SLOWER:-}" ] || [ -n "${BEFORE:-}" ] || stop 2 "fail-if-slower needs before: the study to compare with"
[ -z "${SERVICE:-}" ] || [ "$command" = grid ] || stop 2 "service: tuner check measures the service of its study"
split=$(words "${OPTIONS:-}") || stop 2 "options: cannot be split into words, because a quote is missing: $OPTIONS"
options=()
[ -z "$split" ] || mapfile -t options <<<"$split"
[ -z "${CONFIG:-}" ] || options=("$CONFIG" "${options[@]}")
[ -z "${SERVICE:-}" ] || options+=(--command "$SERVICE")

written=$study
if [ "$command" = grid ]; then
    "$tuner" grid --study "$study" "${options[@]}"
    code=$?
else
    written=$temporary/check-$number.tuner.db
    said=$("$tuner" check "$study" "${options[@]}" --to "$written")
    code=$?
    printf '%s\n' "$said"
fi

exported=0
{
    echo "## tuner $command"
    echo
    case $code in
        0 | 4 | 5)
            if [ "$command" = grid ]; then
                "$tuner" export "$study" --format markdown || exported=$?
            else
                printf '````text\n%s\n````\n' "$said" # four: a text that has three of them stays inside
            fi
            ;;
        *) echo "No answer: tuner $command ended with exit code $code. The job's log says why." ;;
    esac
} >"$markdown"

slower=0
if [ -n "${BEFORE:-}" ] && [[ $code =~ ^[045]$ ]]; then
    changed=$("$tuner" compare "$BEFORE" "$written" --format markdown \
        ${FAIL_IF_SLOWER:+--fail-if-slower "$FAIL_IF_SLOWER"} 2>"$markdown.judged")
    slower=$?
    cat "$markdown.judged" >&2
    if [[ $slower =~ ^[045]$ ]]; then
        printf '\n## What changed since %s\n\n%s\n\n%s\n' "${BEFORE##*/}" "$(<"$markdown.judged")" "$changed" >>"$markdown"
    fi
    rm -f "$markdown.judged"
fi

[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf '%s\n' "study=$written" "exit-code=$code" "markdown=$markdown" >>"$GITHUB_OUTPUT"
fi

case $code in
    0) ;;
    4) stop 4 "$study is stale: another layout is better now" ;;
    5) tell warning "tuner $command ended with an answer weaker than asked" ;;
    *) stop "$code" "tuner $command ended with exit code $code" ;;
esac
[ $exported -eq 0 ] || stop $exported "tuner export ended with exit code $exported"
case $slower in
    0) ;;
    4) stop 4 "surely slower than $BEFORE by more than $FAIL_IF_SLOWER" ;;
    5) tell warning "whether it is slower than $BEFORE cannot be judged" ;;
    *) stop $slower "tuner compare ended with exit code $slower" ;;
esac
