"""Looks at a box before a study, and changes nothing: no file is written, no limit set, no lock taken."""
