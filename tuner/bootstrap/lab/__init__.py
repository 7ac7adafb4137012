"""The wiring of `tuner lab`."""
