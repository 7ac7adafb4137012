"""Heats: several layouts stay started on one host, and one of them works at a time."""
