-- From version 4 to 5; what each column means: schema.sql. Nobody looked for threads that wait for the GIL.
ALTER TABLE window ADD COLUMN gil_waiting_s REAL;

ALTER TABLE window ADD COLUMN gil_waking_s REAL;

ALTER TABLE usage ADD COLUMN gil_waiting_s_total REAL;

ALTER TABLE usage ADD COLUMN gil_waking_s_total REAL;
