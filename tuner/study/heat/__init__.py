"""Heats: several layouts resident on one host, of which one works at a time."""
