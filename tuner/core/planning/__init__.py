"""How long a study takes, and whether an answer still holds."""
