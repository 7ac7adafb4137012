"""Layouts, services, launches, windows, studies: the values that everything else speaks of."""
