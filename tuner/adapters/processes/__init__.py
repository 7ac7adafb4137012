"""Programs that tuner runs itself: process groups, signals, exit codes, logs."""
