"""The wiring: which adapters serve which settings. A command imports the module that it needs."""
