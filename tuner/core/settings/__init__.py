"""Settings of a study as people write them: limits, rates, clients, backlogs."""
