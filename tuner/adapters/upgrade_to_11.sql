-- From version 10 to 11; what each column means: schema.sql. The upgrade adds up the windows of the launches that ended anew.
DELETE FROM launch_sum;
ALTER TABLE launch_sum ADD COLUMN child_running_s REAL;
