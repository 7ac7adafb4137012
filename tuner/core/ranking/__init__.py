"""From launches to groups of layouts, and what follows: ties, limits, costs, the next step."""
