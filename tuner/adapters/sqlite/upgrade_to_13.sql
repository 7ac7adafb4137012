-- From version 12 to 13; what each column means: schema.sql. Nobody looked at the GIL of a running worker.
ALTER TABLE launch ADD COLUMN has_gil INTEGER;
ALTER TABLE launch ADD COLUMN gil_module TEXT;
