// The network event by event, for speed: events.py is the same in readable Python, and gives the same trajectory.
#ifndef TUNER_SIMULATE_H
#define TUNER_SIMULATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_BATCHES = 20, N_BUCKETS = 2800, MOST_STAGES = 4096, MOST_THREADS = 1 << 20, MOST_QUEUED = 1000000 };

// "gil" and "core" compute (on shared cores), the others wait; "blocked" is uninterruptible, in the load average.
enum stage_kind { STAGE_GIL, STAGE_CORE, STAGE_ASLEEP, STAGE_BLOCKED, N_STAGE_KINDS };

// Events that end no stage; in the digest their kinds follow those of the stages.
enum { EVENT_FORCED = N_STAGE_KINDS, EVENT_ARRIVAL };

struct stage {
    enum stage_kind kind;
    double mean_s;
};

struct scenario {
    uint32_t n_processes, n_threads;  // threads of each process
    uint64_t seed, n_items, n_warm_items;
    double arrival_per_s;  // 0: threads always have items
    double cv_ratio;
    double switch_interval_s, handover_s;
    double least_residence_s;  // where the buckets of residence times begin
    double cores;              // that tasks may keep busy
    size_t n_stages, n_speeds;
    struct stage *stages;
    double *speeds;  // with 1, 2 ... runnable tasks; the last one holds for more
};

// How many tasks are where; their integrals over time stand in the same order. BUSY is cores, of however slow tasks.
enum level { RUNNABLE, WORK, BUSY, GIL_HELD, GIL_WAITING, ASLEEP, BLOCKED, QUEUED, N_LEVELS };

struct counts {
    double elapsed_s;
    double integrals_s[N_LEVELS];
    double residence_sum_s;
    double batch_ends_s[N_BATCHES];
    uint64_t histogram[N_BUCKETS];
    uint64_t n_forced, n_events, digest;
};

// Simulates into *counts; returns NULL, or what is wrong.
const char *simulate(const struct scenario *scenario, struct counts *counts);

#endif
