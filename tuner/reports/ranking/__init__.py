"""The ranking: answer, groups, limits, latency, next step."""
