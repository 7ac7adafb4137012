-- From version 5 to 6; what each column means: schema.sql. What became of requests was not kept.
ALTER TABLE window ADD COLUMN n_requests INTEGER;

ALTER TABLE window ADD COLUMN n_requests_failed INTEGER;

ALTER TABLE window ADD COLUMN latency_p50_s REAL;

ALTER TABLE window ADD COLUMN latency_p95_s REAL;

ALTER TABLE window ADD COLUMN latency_p99_s REAL;

ALTER TABLE window ADD COLUMN latencies BLOB;

ALTER TABLE window ADD COLUMN rate_per_s REAL;

ALTER TABLE window ADD COLUMN capacity_per_s REAL;
