"""The ranking and what stands beside it: answer, groups, limits, latency, next step."""
