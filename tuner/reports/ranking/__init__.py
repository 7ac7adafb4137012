"""Reports of a ranking: answer, groups, limits, latency, next step."""
