-- From version 7 to 8; what each column means: schema.sql. Nothing but the name of its box was kept of a launch's box.
CREATE TABLE box (
  id            INTEGER PRIMARY KEY,
  name          TEXT NOT NULL,
  cores         REAL NOT NULL,
  joined_wall_s REAL NOT NULL,
  ahead_s       REAL NOT NULL,
  provenance    TEXT NOT NULL,
  left_wall_s   REAL,
  why           TEXT
) STRICT;
