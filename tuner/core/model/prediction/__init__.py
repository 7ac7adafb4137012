"""From what an item asks for to layouts and boxes that were not measured, and how far to trust that."""
