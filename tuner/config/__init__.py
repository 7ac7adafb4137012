"""Settings: YAML and command-line options in, frozen values out; all errors at once, with their places."""
