"""Live view of a study in the terminal and as JSON."""
