-- From version 8 to 9; what each column means: schema.sql. What the file holds by then is taken as it is: the upgrade
-- makes the digests of it.
CREATE TABLE digest (
  of    TEXT NOT NULL,
  id    INTEGER NOT NULL,
  crc32 INTEGER NOT NULL,
  PRIMARY KEY (of, id)
) STRICT, WITHOUT ROWID;
