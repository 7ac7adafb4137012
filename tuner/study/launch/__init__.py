"""One launch: start, warm-up, windows, stop; client and rate searches."""
