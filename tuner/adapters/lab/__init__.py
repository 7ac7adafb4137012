"""The experiments' outside: published figures, programs that run to their end, files of what they gave."""
