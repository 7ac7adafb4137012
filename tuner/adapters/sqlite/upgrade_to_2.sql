-- From version 1 to 2; what each column means: schema.sql. Version 1 always asked for the full grid.
ALTER TABLE study ADD COLUMN within_ratio REAL NOT NULL DEFAULT 0.02;
ALTER TABLE study ADD COLUMN confidence REAL NOT NULL DEFAULT 0.95;
ALTER TABLE study ADD COLUMN kind TEXT NOT NULL DEFAULT 'strict';
ALTER TABLE study ADD COLUMN objective TEXT NOT NULL DEFAULT 'throughput';
ALTER TABLE study ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE study ADD COLUMN min_window_s REAL;

ALTER TABLE launch ADD COLUMN window_s REAL;
ALTER TABLE launch ADD COLUMN n_windows INTEGER;
ALTER TABLE launch ADD COLUMN unsettled TEXT;
ALTER TABLE launch ADD COLUMN steady_from_s REAL;
ALTER TABLE launch ADD COLUMN trend_ratio_per_h REAL;
ALTER TABLE launch ADD COLUMN trend_se_ratio_per_h REAL;

CREATE TABLE warmup_sample_packed (
  launch_id      INTEGER NOT NULL REFERENCES launch,
  n              INTEGER NOT NULL,
  at_us          INTEGER NOT NULL,
  n_done_total   INTEGER NOT NULL,
  n_failed_total INTEGER NOT NULL,
  load1_x100     INTEGER NOT NULL,
  load5_x100     INTEGER NOT NULL,
  load15_x100    INTEGER NOT NULL,
  n_active       INTEGER,
  PRIMARY KEY (launch_id, n)
) STRICT, WITHOUT ROWID;

CREATE VIEW warmup_sample AS
  SELECT
    launch_id,
    n,
    at_us / 1e6 AS at_s,
    n_done_total,
    n_failed_total,
    load1_x100 / 100.0 AS load1,
    load5_x100 / 100.0 AS load5,
    load15_x100 / 100.0 AS load15,
    n_active
  FROM warmup_sample_packed;
