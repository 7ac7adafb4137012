-- From version 14 to 15; what each column means: schema.sql. Nobody looked at the speed of the host.
ALTER TABLE launch ADD COLUMN idle_fixed_work_cpu_s REAL;
ALTER TABLE launch ADD COLUMN fixed_work_cpu_s REAL;
ALTER TABLE window ADD COLUMN fixed_work_cpu_s REAL;
ALTER TABLE usage ADD COLUMN fixed_work_cpu_s_total REAL;
