-- From version 17 to 18; what each column means: schema.sql. The time of interrupts and the use of other CPUs were not stored.
-- The upgrade adds up the windows of the launches that ended anew.
DELETE FROM launch_sum;
ALTER TABLE window ADD COLUMN interrupt_s REAL;
ALTER TABLE window ADD COLUMN elsewhere_cpu_s REAL;
ALTER TABLE launch_sum ADD COLUMN interrupt_s REAL;
ALTER TABLE launch_sum ADD COLUMN elsewhere_cpu_s REAL;
ALTER TABLE usage ADD COLUMN interrupt_s_total REAL;
ALTER TABLE usage ADD COLUMN elsewhere_cpu_s_total REAL;
