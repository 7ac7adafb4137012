"""From samples to windows to launches, and which windows are invalid."""
