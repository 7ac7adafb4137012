-- From version 2 to 3; what each column means: schema.sql. The kernel's clocks were not kept; what the items counted was.
ALTER TABLE window ADD COLUMN worker_cpu_s REAL;
ALTER TABLE window ADD COLUMN child_cpu_s REAL;
ALTER TABLE window ADD COLUMN run_delay_s REAL;
ALTER TABLE window ADD COLUMN running_s REAL;
ALTER TABLE window ADD COLUMN blocked_s REAL;
ALTER TABLE window ADD COLUMN child_running_s REAL;
ALTER TABLE window ADD COLUMN child_blocked_s REAL;
ALTER TABLE window ADD COLUMN probe_python_cpu_s REAL;
ALTER TABLE window ADD COLUMN probe_child_cpu_s REAL;

UPDATE window SET (probe_python_cpu_s, probe_child_cpu_s) = (
  SELECT
    (after.python_cpu_ns_total - before.python_cpu_ns_total) * 1e-9,
    (after.child_cpu_ns_total - before.child_cpu_ns_total) * 1e-9
  FROM reading AS before JOIN reading AS after USING (window_id)
  WHERE before.window_id = window.id AND before.edge = 0 AND after.edge = 1
);

ALTER TABLE usage ADD COLUMN worker_cpu_s_total REAL;
ALTER TABLE usage ADD COLUMN child_cpu_s_total REAL;
ALTER TABLE usage ADD COLUMN run_delay_s_total REAL;
ALTER TABLE usage ADD COLUMN running_s_total REAL;
ALTER TABLE usage ADD COLUMN blocked_s_total REAL;
ALTER TABLE usage ADD COLUMN child_running_s_total REAL;
ALTER TABLE usage ADD COLUMN child_blocked_s_total REAL;
