"""Report of `tuner compare`: sentences, tables and data."""
