"""Options, sessions and output that several commands share."""
