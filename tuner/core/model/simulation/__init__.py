"""The network event by event: in Python to be read, in C (`tuner-simulate`) to be used."""
