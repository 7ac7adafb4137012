"""The programs of published experiments, each run to its end by `tuner lab`; they import nothing of tuner."""
