"""Use cases of `tuner lab`: published experiments, repeated on this host."""
