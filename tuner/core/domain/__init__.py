"""Layouts, services, launches, windows and studies: the values that all other rooms use."""
