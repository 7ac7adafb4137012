"""The duration of a study, and whether an answer still holds."""
