-- From version 13 to 14; what each column means: schema.sql. Every launch ran alone.
ALTER TABLE study ADD COLUMN n_resident INTEGER NOT NULL DEFAULT 1;
ALTER TABLE launch ADD COLUMN heat INTEGER;
