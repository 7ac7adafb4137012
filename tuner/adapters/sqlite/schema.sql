-- A tuner study: one SQLite file, written by one tuner, readable by anybody with sqlite3 while it grows.
--
-- PRAGMA application_id = 0x74756e72 ("tunr"), PRAGMA user_version = the schema's version.
-- Version history:
--   1  studies, launches, windows with their samples
--   2  what is to be found out (within, confidence, kind, objective, limits), and window lengths that a strategy
--      chooses per launch; the samples of the warm-up; why a launch never settled, where its steady state begins and
--      what trend is left in it
--   3  the kernel's clocks of workers and children (CPU apart, waiting for a core, states R and D), and what the items
--      counted of their CPU beside them in each window: the model is calibrated from these
--   4  of the time that workers spent in state D, the part in which they were starting a child
--   5  the time that workers' threads waited for the GIL; layouts of services that have no threads to choose
--   6  what became of the requests that tuner's load generator sent, and how long they took
--   7  the requests that were under way when a window began and when it ended, and how long they had waited
--   8  the boxes of a study that was measured on several
--   9  a digest of everything that is read, so that a digit which changed on the disk is seen
--   10 what the windows of each launch that ended add up to
--   11 of these sums also the time of children in state R
--   12 how the connections of tuner's load generator spread over the worker processes; the CPU of threads that work on items
--      apart from that of other threads of the workers, and that of masters apart from that of children
--   13 whether the GIL of a worker was on, and whose import switched it on
--   14 the launches that took turns on one host
--   15 the speed of the host, as the CPU time of one fixed computation
--   16 the noise of launches that take turns, from slice to slice
--   17 the counted share of launches that take turns
--   18 the time of interrupts that the kernel charges to no process; the CPU used outside the study's affinity
-- A file of an older version is read as it is, and brought to this one when its study goes on (upgrade_to_*.sql).
--
-- Rows are added, never changed; only a launch and a box get their end written into their row, and what a launch's
-- windows add up to is added up anew where it gets one more. Units end the names:
-- _s seconds, _bytes, _total grows from when the launch (items) or the box (CPU) began. Times named wall are seconds since
-- 1970, other times are seconds of the box's monotonic clock: good for differences, within one launch. NULL: not known.

-- What was asked for. One row.
CREATE TABLE study (
  id                 INTEGER PRIMARY KEY CHECK (id = 1),
  service            TEXT NOT NULL,     -- name of the service; exports and marks carry it
  strategy           TEXT NOT NULL,     -- how the next layout is chosen
  cores              INTEGER NOT NULL,  -- cores the layouts are for
  box_cores          REAL NOT NULL,     -- cores the box really offered (affinity, cgroup quota)
  within_ratio       REAL NOT NULL,     -- the answer may be worse than the best by this share (0..1)
  confidence         REAL NOT NULL,     -- of the answer (0..1)
  kind               TEXT NOT NULL,     -- what the answer promises: strict, calibrated, none
  objective          TEXT NOT NULL,     -- what is to be large: throughput, throughput-per-cpu
  limits             TEXT NOT NULL,     -- what may win: JSON, largest value per quantity
  window_s           REAL NOT NULL,     -- length of a window, seconds: the longest, where the strategy chooses
  min_window_s       REAL,              -- the shortest that the strategy may choose, seconds; NULL: window_s
  warmup_s           REAL,              -- warm-up before it, seconds; NULL: found per launch
  warmup_cap_s       REAL NOT NULL,     -- longest warm-up, seconds
  warms_cache        INTEGER NOT NULL,  -- 1: the first launch (block -1) only warms the page cache
  n_blocks           INTEGER NOT NULL,  -- launches asked for, per layout
  windows_per_launch INTEGER NOT NULL,  -- windows asked for, per launch
  max_attempts       INTEGER NOT NULL,  -- tries of a cell's launch, and of each of its windows
  foreign_limit_cores         REAL,          -- CPU of strangers that voids a window, cores; NULL: the default rule
  memory_pressure_limit_ratio REAL NOT NULL, -- share of a window (0..1) that may be spent waiting for memory
  seed               INTEGER NOT NULL,  -- of the order
  budget_s           REAL,              -- most time to spend, seconds; NULL: no limit
  created_wall_s     REAL NOT NULL,     -- seconds since 1970
  config             TEXT NOT NULL,     -- all settings, JSON
  n_resident         INTEGER NOT NULL DEFAULT 1  -- most layouts that take turns; 1: one runs after the other
) STRICT;

-- The layouts asked for, and behind them those by which the grid has grown (provenance grid_grew says how).
CREATE TABLE study_layout (
  position  INTEGER PRIMARY KEY,  -- 0, 1, ... as they were asked for, and joined
  processes INTEGER NOT NULL,     -- count
  threads   INTEGER NOT NULL,     -- count, in each process; 0: the service has none to choose
  variant   TEXT NOT NULL,        -- of the service; '' as it is
  UNIQUE (processes, threads, variant)
) STRICT;

-- Where and with what it ran: host, kernel, python, git revision ...
CREATE TABLE provenance (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The boxes of a fleet, a row for each time that one joined. No row: the study was measured on one, or is of an older
-- version; launch.box has the names.
CREATE TABLE box (
  id            INTEGER PRIMARY KEY,  -- in the order of joining
  name          TEXT NOT NULL,     -- as in launch.box
  cores         REAL NOT NULL,     -- cores it offers (affinity, cgroup quota)
  joined_wall_s REAL NOT NULL,     -- seconds since 1970, by the coordinator's clock; so left_wall_s
  ahead_s       REAL NOT NULL,     -- its wall clock less the coordinator's, seconds: times of its launches are its own
  provenance    TEXT NOT NULL,     -- JSON: host, kernel, python, version of tuner ...
  left_wall_s   REAL,              -- NULL: it did not, as far as is known
  why           TEXT               -- it left
) STRICT;

-- One start of one layout.
CREATE TABLE launch (
  id              INTEGER PRIMARY KEY,  -- in the order of starting
  block           INTEGER NOT NULL CHECK (block >= -1),  -- 0, 1, ...; -1 comes before and is not counted
  position        INTEGER NOT NULL,     -- place in the block, 0, 1, ...; in block -1: 0 warms the page cache, others scout
  attempt         INTEGER NOT NULL,     -- 1, 2, ...: made again when it failed or was spoilt
  processes       INTEGER NOT NULL,     -- count
  threads         INTEGER NOT NULL,     -- count, in each process; 0: the service has none to choose
  variant         TEXT NOT NULL,        -- of the service; '' as it is
  box             TEXT NOT NULL,        -- host
  started_wall_s  REAL NOT NULL,        -- seconds since 1970
  window_s        REAL,                 -- length asked of each of its windows, seconds; NULL: the study's window_s
  n_windows       INTEGER,              -- windows asked of it; NULL: the study's windows_per_launch
  running_after_s REAL,                 -- start to every process RUNNING, seconds
  warmup_s        REAL,                 -- RUNNING to the first window, seconds
  settled         INTEGER,              -- 1 steady state was reached, 0 it never was, NULL not judged
  unsettled       TEXT,                 -- why it never settled, "slug: what was seen" (docs/warmup.md); NULL: see settled
  steady_from_s   REAL,                 -- RUNNING to the beginning of steady state, seconds; NULL: not judged
  trend_ratio_per_h    REAL,            -- what throughput still gained an hour after that (0.01: 1 %); NULL: not judged
  trend_se_ratio_per_h REAL,            -- standard error of it
  has_gil         INTEGER,              -- 1 a worker ran with a GIL that is on, 0 none did, NULL not seen
  gil_module      TEXT,                 -- whose import switched the GIL on in a free-threaded Python; NULL: not known
  error           TEXT,                 -- why it failed or was spoilt; NULL: it did not
  ended_wall_s    REAL,                 -- stopped and gone, seconds since 1970; NULL: still running, or cut off
  heat            INTEGER,              -- of its block, whose launches took turns; NULL: it ran alone
  idle_fixed_work_cpu_s REAL,           -- CPU seconds of one unit of fixed work before it, when no layout worked; NULL: not measured
  fixed_work_cpu_s      REAL,           -- CPU seconds of one unit of fixed work, mean over its windows; NULL: not measured
  noise_of_second_ratio REAL,           -- sd of the throughput of a second of slices / mean, without changes of its whole heat; NULL: unknown
  counted_ratio         REAL            -- counted time / running time, in slices (0..1); NULL: it ran alone, or unknown
) STRICT;

-- One stretch of a launch, counted. Sums and means over its samples and usage stand here too, though they follow from
-- them: ranking reads 100 000 windows at once and must not read sixty million samples for it.
CREATE TABLE window (
  id             INTEGER PRIMARY KEY,  -- in the order of finishing
  launch_id      INTEGER NOT NULL REFERENCES launch,
  window_index   INTEGER NOT NULL,  -- 0, 1, ... within the block's launch of this layout
  attempt        INTEGER NOT NULL,  -- 1, 2, ...: a void window is taken again
  started_wall_s REAL NOT NULL,     -- seconds since 1970
  began_s        REAL NOT NULL,     -- monotonic seconds at its first sample
  length_s       REAL NOT NULL,     -- seconds between the two readings
  n_done         INTEGER NOT NULL,  -- items finished well in it
  n_failed       INTEGER NOT NULL,  -- items finished badly in it
  load1_mean     REAL NOT NULL,     -- of the kernel's 1-minute load average, tasks
  load1_max      REAL NOT NULL,     -- tasks
  n_active_mean  REAL,              -- tasks running or uninterruptible, without the one that counts them
  n_active_from_load1 REAL,         -- tasks: load1 turned back into what it averages; NULL: window too short
  service_cpu_s  REAL NOT NULL,     -- CPU seconds of the workers and their descendants
  tuner_cpu_s    REAL NOT NULL,     -- CPU seconds of tuner, supervisord, guardian, feeder
  backend_cpu_s  REAL NOT NULL,     -- CPU seconds of the named backends
  foreign_cpu_s  REAL NOT NULL,     -- CPU seconds of everybody else
  steal_s        REAL NOT NULL,     -- CPU seconds the hypervisor gave to others
  pss_bytes      REAL,              -- mean proportional set size of workers and descendants, bytes
  worker_cpu_s   REAL,              -- CPU seconds of the workers' own threads
  child_cpu_s    REAL,              -- CPU seconds of the rest of the service: children and below
  run_delay_s    REAL,              -- thread-seconds that threads which work on items waited for a core (before version 12: all)
  running_s      REAL,              -- thread-seconds of workers in state R (running, or waiting for a core)
  blocked_s      REAL,              -- thread-seconds of workers in state D (uninterruptible)
  spawning_s     REAL,              -- of these, thread-seconds in which they were starting a child
  child_running_s    REAL,          -- seconds x children in state R
  child_blocked_s    REAL,          -- seconds x children in state D
  probe_python_cpu_s REAL,          -- CPU seconds of threads that work on items, as the probe was told
  probe_child_cpu_s  REAL,          -- CPU seconds of the children that items started, as the probe was told
  gil_waiting_s      REAL,          -- thread-seconds that threads which work on items waited for the GIL (before version 12: all)
  gil_waking_s       REAL,          -- of these, awake to ask for it: waiting for a core
  item_cpu_s         REAL,          -- the part of worker_cpu_s that threads used which work on items
  master_cpu_s       REAL,          -- the part of child_cpu_s that programs used which only start the workers
  beside_delay_s     REAL,          -- thread-seconds that these programs, and other threads of the workers, waited for a core
  fixed_work_cpu_s   REAL,          -- CPU seconds of one unit of fixed work, x seconds of the window: the speed of the host
  interrupt_s        REAL,          -- CPU seconds of interrupts that are charged to no process; 0: the kernel charges all to processes
  elsewhere_cpu_s    REAL,          -- CPU seconds used on CPUs on which tuner and the service may not run; NULL: none, or not measured
  -- Of the requests that tuner's load generator sent; NULL: it sends none. In an open loop latency counts from when a
  -- request was due. What failed counts as taking longest; 3600 stands for all that is longer, or has no end.
  -- What was under way at its end counts as taking longer than it had waited: tuner/core/domain/requests.py.
  n_requests         INTEGER,       -- requests that came to their end in it, failed ones included
  n_requests_failed  INTEGER,       -- of these, not answered with a status below 400, or not even sent
  latency_p50_s      REAL,          -- half of them were answered well within so many seconds; NULL also: too few to say
  latency_p95_s      REAL,          -- the same of 95 %
  latency_p99_s      REAL,          -- the same of 99 %
  n_requests_unfinished INTEGER,    -- requests that were under way at its end; NULL also: not known
  latencies          BLOB,          -- histogram of those that were answered well: tuner/adapters/sqlite/latencies_packed.py
  unfinished         BLOB,          -- of those under way at its end, likewise: how long they had waited; NULL also: not known
  unfinished_before  BLOB,          -- the same of those under way at its beginning
  rate_per_s         REAL,          -- requests that became due per second; NULL: closed loop
  capacity_per_s     REAL,          -- of which closed loop's throughput that rate is a share; NULL: of none
  -- spread is JSON: seconds looked at; thread-seconds without a request while other workers had too many; connections x
  -- seconds that no worker had accepted; a list of the same of each worker. NULL also: not to be seen
  spread             TEXT,          -- of connections over the worker processes
  UNIQUE (launch_id, window_index, attempt)
) STRICT;

-- Why a window does not count. No row: it counts.
CREATE TABLE void_reason (
  window_id INTEGER NOT NULL REFERENCES window,
  n         INTEGER NOT NULL,  -- 0, 1, ... as they were found
  slug      TEXT NOT NULL,     -- worker-died, disturbed, ...: docs/messages.md explains each
  detail    TEXT NOT NULL,     -- what was seen
  PRIMARY KEY (window_id, n)
) STRICT, WITHOUT ROWID;

-- What the windows of a launch add up to, written once it has ended: ranking reads 20 000 rows in place of 100 000 windows.
-- It follows from table window, and stands for it. No row: the launch runs, was cut off, or its windows are of more than
-- one kind (only some tell the CPU of workers, or are at a rate); then its windows are read.
CREATE TABLE launch_sum (
  launch_id      INTEGER PRIMARY KEY REFERENCES launch,
  n_windows      INTEGER NOT NULL,  -- windows that count; 0: the sums below are 0
  length_s       REAL NOT NULL,     -- of these together, seconds
  n_done         INTEGER NOT NULL,  -- items finished well
  n_failed       INTEGER NOT NULL,  -- items finished badly
  rates          REAL NOT NULL,     -- sum over windows of items finished well per second
  squares        REAL NOT NULL,     -- and of its square
  load           REAL NOT NULL,     -- sum of load1_mean x seconds
  load_max       REAL NOT NULL,     -- largest load1_max, tasks
  active         REAL NOT NULL,     -- sum of n_active_mean x seconds, of windows that have it
  active_s       REAL NOT NULL,     -- seconds of these
  from_load1     REAL NOT NULL,     -- the same of n_active_from_load1
  from_load1_s   REAL NOT NULL,     -- seconds of these
  limited_load   REAL NOT NULL,     -- sum of estimate_load (tuner/core/domain/settled_load.py) x seconds
  service_cpu_s  REAL NOT NULL,     -- CPU seconds of the workers and their descendants
  tuner_cpu_s    REAL NOT NULL,     -- CPU seconds of tuner, supervisord, guardian, feeder
  backend_cpu_s  REAL NOT NULL,     -- CPU seconds of the named backends
  foreign_cpu_s  REAL NOT NULL,     -- CPU seconds of everybody else
  steal_s        REAL NOT NULL,     -- CPU seconds the hypervisor gave to others
  pss_bytes      REAL NOT NULL,     -- sum over windows that have it
  n_pss          INTEGER NOT NULL,  -- windows that have it
  pss_max        REAL NOT NULL,     -- the largest, bytes
  is_told        INTEGER NOT NULL CHECK (is_told IN (0, 1)),  -- 1: each of these windows tells the CPU of workers, none is at a rate
  worker_cpu_s   REAL,              -- CPU seconds of the workers' own threads; NULL, as below: one of the windows lacks it
  child_cpu_s    REAL,              -- CPU seconds of children and below
  run_delay_s    REAL,              -- thread-seconds that threads which work on items waited for a core (before version 12: all)
  blocked_s      REAL,              -- thread-seconds of workers in state D
  spawning_s     REAL,              -- of these, thread-seconds in which they were starting a child
  child_running_s    REAL,          -- seconds x children in state R
  child_blocked_s    REAL,          -- the same in state D
  probe_python_cpu_s REAL,          -- CPU seconds of threads that work on items, as the probe was told
  probe_child_cpu_s  REAL,          -- CPU seconds of the children that items started, as the probe was told
  gil_waiting_s      REAL,          -- thread-seconds that threads which work on items waited for the GIL (before version 12: all)
  gil_waking_s       REAL,          -- of these, awake to ask for it
  item_cpu_s         REAL,          -- the part of worker_cpu_s that threads used which work on items
  master_cpu_s       REAL,          -- the part of child_cpu_s that programs used which only start the workers
  beside_delay_s     REAL,          -- thread-seconds that these programs, and other threads of the workers, waited for a core
  interrupt_s        REAL,          -- CPU seconds of interrupts that are charged to no process
  elsewhere_cpu_s    REAL,          -- CPU seconds used on CPUs on which tuner and the service may not run
  n_void         INTEGER NOT NULL,  -- windows that do not count
  n_short        INTEGER NOT NULL,  -- of these: for memory pressure alone, and not at a rate
  void           TEXT,              -- JSON: how many windows by slug of table void_reason; NULL: none
  -- Requests of all windows that count, as in table window; NULL: there were none.
  n_requests_failed  INTEGER,       -- requests that were not answered well
  latencies          BLOB,          -- histogram of those that were answered well
  unfinished         BLOB,          -- of those under way at the end of a window: how long they had waited
  unfinished_before  BLOB,          -- the same at the beginning
  rate_per_s         REAL,          -- requests that became due per second
  capacity_per_s     REAL,          -- of which closed loop's throughput that rate is a share
  spread             TEXT           -- of connections over the workers
) STRICT;

-- What the probe read at the two edges of a window.
CREATE TABLE reading (
  window_id           INTEGER NOT NULL REFERENCES window,
  edge                INTEGER NOT NULL CHECK (edge IN (0, 1)),  -- 0 begin, 1 end
  at_s                REAL NOT NULL,     -- monotonic seconds
  n_done_total        INTEGER NOT NULL,  -- items finished well since the launch
  n_failed_total      INTEGER NOT NULL,  -- items finished badly since the launch
  python_cpu_ns_total INTEGER,           -- CPU of the workers' own threads, nanoseconds
  child_cpu_ns_total  INTEGER,           -- CPU of the children that items spawned, nanoseconds
  waiting_ns_total    INTEGER,           -- time items waited, nanoseconds
  n_slots             INTEGER,           -- threads that count items
  PRIMARY KEY (window_id, edge)
) STRICT, WITHOUT ROWID;

-- One row a second and window, as small integers in the order they are read: 10 million take 340 MB (35 bytes a row,
-- 60 as floating point; bench/store.py). Rows, not blobs, so that SQL can ask for them: see the view `sample`.
CREATE TABLE sample_packed (
  window_id      INTEGER NOT NULL REFERENCES window,
  n              INTEGER NOT NULL,  -- 0, 1, ... in time order
  at_us          INTEGER NOT NULL,  -- microseconds since window.began_s
  n_done_total   INTEGER NOT NULL,  -- items finished well since the launch
  n_failed_total INTEGER NOT NULL,  -- items finished badly since the launch
  load1_x100     INTEGER NOT NULL,  -- hundredths of tasks: the kernel prints two decimals
  load5_x100     INTEGER NOT NULL,
  load15_x100    INTEGER NOT NULL,
  n_active       INTEGER,           -- tasks running or uninterruptible, without the one that counts them
  PRIMARY KEY (window_id, n)
) STRICT, WITHOUT ROWID;

CREATE VIEW sample AS
  SELECT
    window_id,
    n,
    at_us / 1e6 AS at_s,         -- seconds since the window began
    n_done_total,                -- items finished well since the launch
    n_failed_total,              -- items finished badly since the launch
    load1_x100 / 100.0 AS load1, -- load averages, tasks
    load5_x100 / 100.0 AS load5,
    load15_x100 / 100.0 AS load15,
    n_active                     -- tasks running or uninterruptible
  FROM sample_packed;

-- One row a second of warm-up, as in sample_packed. A launch that had to warm up again has the gap in at_us.
CREATE TABLE warmup_sample_packed (
  launch_id      INTEGER NOT NULL REFERENCES launch,
  n              INTEGER NOT NULL,  -- 0, 1, ... in time order
  at_us          INTEGER NOT NULL,  -- monotonic microseconds
  n_done_total   INTEGER NOT NULL,  -- items finished well since the launch
  n_failed_total INTEGER NOT NULL,  -- items finished badly since the launch
  load1_x100     INTEGER NOT NULL,  -- hundredths of tasks
  load5_x100     INTEGER NOT NULL,
  load15_x100    INTEGER NOT NULL,
  n_active       INTEGER,           -- tasks running or uninterruptible, without the one that counts them
  PRIMARY KEY (launch_id, n)
) STRICT, WITHOUT ROWID;

CREATE VIEW warmup_sample AS
  SELECT
    launch_id,
    n,
    at_us / 1e6 AS at_s,         -- monotonic seconds
    n_done_total,                -- items finished well since the launch
    n_failed_total,              -- items finished badly since the launch
    load1_x100 / 100.0 AS load1, -- load averages, tasks
    load5_x100 / 100.0 AS load5,
    load15_x100 / 100.0 AS load15,
    n_active                     -- tasks running or uninterruptible
  FROM warmup_sample_packed;

-- What had been used by then: at the edges of a window and every few seconds.
CREATE TABLE usage (
  window_id                INTEGER NOT NULL REFERENCES window,
  n                        INTEGER NOT NULL,  -- 0, 1, ... in time order
  at_s                     REAL NOT NULL,     -- monotonic seconds
  wall_s                   REAL NOT NULL,     -- seconds since 1970
  service_cpu_s_total      REAL NOT NULL,     -- CPU seconds of the workers and their descendants
  tuner_cpu_s_total        REAL NOT NULL,     -- CPU seconds of tuner, supervisord, guardian, feeder
  backend_cpu_s_total      REAL NOT NULL,     -- CPU seconds of the named backends
  box_cpu_s_total          REAL NOT NULL,     -- CPU seconds of the whole box, steal left out
  steal_s_total            REAL NOT NULL,     -- CPU seconds the hypervisor gave to others
  n_context_switches_total INTEGER NOT NULL,  -- of the whole box
  pss_bytes                INTEGER,           -- proportional set size of workers and descendants, bytes
  n_processes              INTEGER NOT NULL,  -- worker processes alive
  n_threads                INTEGER NOT NULL,  -- threads of these
  cpu_pressure_s_total     REAL,              -- PSI "some": seconds a task waited for a core
  memory_pressure_s_total  REAL,              -- ... for memory
  io_pressure_s_total      REAL,              -- ... for I/O
  worker_cpu_s_total       REAL,              -- CPU seconds of the workers' own threads, ended ones included
  child_cpu_s_total        REAL,              -- the rest of service_cpu_s_total: children and below, reaped or not
  run_delay_s_total        REAL,              -- thread-seconds that the workers' threads waited for a core
  running_s_total          REAL,              -- seconds x workers' threads in state R, from looks a second apart
  blocked_s_total          REAL,              -- seconds x workers' threads in state D, from looks a second apart
  child_running_s_total    REAL,              -- seconds x children and below in state R, from these rows
  child_blocked_s_total    REAL,              -- seconds x children and below in state D, from these rows
  spawning_s_total         REAL,              -- the part of blocked_s_total in which they were starting a child
  gil_waiting_s_total      REAL,              -- seconds x workers' threads that waited for the GIL, from some looks a second
  gil_waking_s_total       REAL,              -- the part of gil_waiting_s_total in which they waited for a core to ask for it
  item_cpu_s_total         REAL,              -- the part of worker_cpu_s_total that threads used which work on items
  master_cpu_s_total       REAL,              -- the part of child_cpu_s_total that programs used which only start the workers
  beside_delay_s_total     REAL,              -- thread-seconds that these programs, and other threads of the workers, waited for a core
  fixed_work_cpu_s_total   REAL,              -- CPU seconds that one unit of fixed work each second would have taken
  interrupt_s_total        REAL,              -- CPU seconds of interrupts that are charged to no process
  elsewhere_cpu_s_total    REAL,              -- CPU seconds used on CPUs on which tuner and the service may not run
  PRIMARY KEY (window_id, n)
) STRICT, WITHOUT ROWID;

-- What shows that rows are still as they were written: SQLite itself sees a page that makes no sense, not another digit.
-- A file whose rows and digests differ is not read. It is no signature: whoever changes both is not seen.
-- Every file since version 9 has one for its study, launches, boxes, windows, and for what windows and warm-ups are made
-- of; since version 10 for what windows add up to.
CREATE TABLE digest (
  of    TEXT NOT NULL,     -- study (with its layouts and provenance), box, launch, window (as the ranking reads it, with what
                           -- made it void), details (its readings, usage and samples), warmup (a launch's samples of it),
                           -- sum (what a launch's windows add up to, with what its row says of it)
  id    INTEGER NOT NULL,  -- of that row; details: of the window; warmup, sum: of the launch
  crc32 INTEGER NOT NULL,  -- over the rows as Python's marshal writes them (version 2): tuner/adapters/sqlite/digests.py
  PRIMARY KEY (of, id)
) STRICT, WITHOUT ROWID;
