"""The runbook: its page, steps, conditions and pictures."""
