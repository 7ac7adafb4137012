-- From version 10 to 11; what each column means: schema.sql.
DELETE FROM launch_sum;
ALTER TABLE launch_sum ADD COLUMN child_running_s REAL;
