"""Progress of a study on a terminal, in a log, and in the file that `tuner watch` reads."""
