-- From version 11 to 12; what each column means: schema.sql. Nobody looked at which worker holds which connection.
-- The upgrade adds up the windows of the launches that ended anew.
DELETE FROM launch_sum;
ALTER TABLE window ADD COLUMN item_cpu_s REAL;
ALTER TABLE window ADD COLUMN master_cpu_s REAL;
ALTER TABLE window ADD COLUMN beside_delay_s REAL;
ALTER TABLE window ADD COLUMN spread TEXT;
ALTER TABLE launch_sum ADD COLUMN item_cpu_s REAL;
ALTER TABLE launch_sum ADD COLUMN master_cpu_s REAL;
ALTER TABLE launch_sum ADD COLUMN beside_delay_s REAL;
ALTER TABLE launch_sum ADD COLUMN spread TEXT;
ALTER TABLE usage ADD COLUMN item_cpu_s_total REAL;
ALTER TABLE usage ADD COLUMN master_cpu_s_total REAL;
ALTER TABLE usage ADD COLUMN beside_delay_s_total REAL;
