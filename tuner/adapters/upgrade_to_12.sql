-- From version 11 to 12; what each column means: schema.sql. Nobody looked at which worker holds which connection.
ALTER TABLE window ADD COLUMN spread TEXT;

ALTER TABLE launch_sum ADD COLUMN spread TEXT;
