"""The live view of a study."""
