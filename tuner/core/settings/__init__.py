"""Settings of a study in the form that people type: limits, rates, clients, backlogs."""
