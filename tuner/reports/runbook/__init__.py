"""Runbook of a study: page, steps, conditions and pictures."""
