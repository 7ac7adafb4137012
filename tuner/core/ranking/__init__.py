"""From launches to groups of layouts: ties, limits, costs, the next step."""
