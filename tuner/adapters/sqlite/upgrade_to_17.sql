-- From version 16 to 17; what the column means: schema.sql. It was not stored.
ALTER TABLE launch ADD COLUMN counted_ratio REAL;
