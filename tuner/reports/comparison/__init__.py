"""`tuner compare`: sentences, tables and data."""
