"""Settings from YAML and command-line options: frozen values, or all errors at once with their places."""
