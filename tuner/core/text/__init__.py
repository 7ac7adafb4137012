"""Text to values and back: durations, sizes, addresses, commands, metric formats, secrets."""
