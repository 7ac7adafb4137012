# study FILE LAYOUTS REPEATS [WINDOW [WARMUP]]: a config of the crash processor with short windows. Neighbours do not void them:
# in a trial the point is not how quiet the box is.
study() {
    printf '%s\n' 'service:' '  kind: crash-processor' '  name: crash-processor' 'study:' '  cores: 2' "  layouts: [$2]" '  strategy: all' \
        "  repeats: $3" "  window: ${4:-10s}" "  warmup: ${5:-4s}" '  foreign_limit: 64' '  max_attempts: 9' >"$1"
}
