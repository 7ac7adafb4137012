// The event loop. events.py explains it; names and order are the same here, and so is every bit of the result:
// no libm, no contraction of multiply and add (-ffp-contract=off), the same order of equal moments.
//
// What differs is how the next event is found: by two winner trees over all threads, one of virtual ends of
// computing and one of ends of waits. Nothing is allocated while time passes but the queue of open arrivals.
#include "simulate.h"

#include <stdlib.h>
#include <string.h>

#include "simulate_random.h"
#include "simulate_tasks.h"

#define NOBODY UINT32_MAX
#define STEPS 0x1p48  // that a clock of 53 bits goes in sixteenths of a turn

#define FNV_OFFSET UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

struct step {
    enum stage_kind kind;
    double fixed_s, random_s;
};

struct thread {
    double began_s;
    double ends_s;  // of one that computes: in virtual time; of one in line for a GIL: the work it will do
    uint32_t process, stage;
    uint32_t behind;  // the next one in the same line, for a GIL or for an item
};

struct line {
    uint32_t first, last;
};

struct gil {
    double turn_ends_s;
    uint32_t holder;
    struct line line;
    uint32_t before, after;  // processes whose turns end before and after; all turns are as long: a list is in order
};

struct network {
    double now_s, virtual_s, next_arrival_s;
    double levels[N_LEVELS], integrals_s[N_LEVELS];  // an even number, for vector instructions
    uint64_t n_events, digest, n_forced;
    size_t n_runnable;
    struct tasks computing, waiting;
    const double *speeds, *stretches, *rates;  // by n_runnable: speed, and per task: time per work, work per time
    const struct step *steps;
    struct thread *threads;
    struct gil *gils;
    uint32_t n_stages, first_turn, last_turn;
    bool is_complete;
    double turn_s, last_turn_s, handover_s, arrival_per_s, cores;
    struct line idle;
    double *queue;  // a ring
    size_t queue_first, queue_length, queue_size;
    const char *problem;
    // items done
    uint64_t n_done, n_warm_items, n_items, batch_ends_at;
    size_t batch;
    double begin_s, residence_sum_s, least_residence_s, per_log;
    struct counts *counts;
    struct exponentials exponentials;
};

static inline void push(struct thread *threads, struct line *line, uint32_t thread)
{
    threads[thread].behind = NOBODY;
    if (line->first == NOBODY)
        line->first = thread;
    else
        threads[line->last].behind = thread;
    line->last = thread;
}

static inline uint32_t pop(const struct thread *threads, struct line *line)
{
    uint32_t thread = line->first;
    line->first = threads[thread].behind;
    return thread;
}

static inline void note(struct network *net, uint64_t kind, uint64_t thread)
{
    net->n_events++;
    net->digest = (net->digest ^ bits_of(net->now_s)) * FNV_PRIME;
    net->digest = (net->digest ^ (kind << 32 | thread)) * FNV_PRIME;
}

static void begin_measuring(struct network *net)
{
    net->begin_s = net->now_s;
    net->residence_sum_s = 0.0;
    net->batch = 0;
    net->batch_ends_at = net->n_items / N_BATCHES;
    net->n_forced = 0;
    memset(net->integrals_s, 0, sizeof net->integrals_s);
    memset(net->counts, 0, sizeof *net->counts);
}

static inline size_t bucket_of(const struct network *net, double residence_s)
{
    double ratio = residence_s / net->least_residence_s;
    if (!(ratio > 1.0))
        return 0;
    double bucket = natural_log(ratio) * net->per_log;
    return bucket < N_BUCKETS - 1 ? (size_t)bucket : N_BUCKETS - 1;
}

static inline void end_item(struct network *net, double residence_s)
{
    if (++net->n_done == net->n_warm_items)
        begin_measuring(net);
    if (net->n_done <= net->n_warm_items)
        return;
    net->residence_sum_s += residence_s;
    net->counts->histogram[bucket_of(net, residence_s)]++;
    if (net->n_done - net->n_warm_items == net->batch_ends_at) {
        net->counts->batch_ends_s[net->batch++] = net->now_s - net->begin_s;
        net->is_complete = net->batch == N_BATCHES;
        net->batch_ends_at = net->n_items * (net->batch + 1) / N_BATCHES;
    }
}

static inline void compute(struct network *net, uint32_t thread, double work_s)
{
    double ends_s = net->virtual_s + work_s;
    net->threads[thread].ends_s = ends_s;
    add_task(&net->computing, thread, ends_s);
    net->n_runnable++;
}

static inline void stop_computing(struct network *net, uint32_t thread)
{
    take_task_out(&net->computing, thread);
    net->n_runnable--;
}

static inline void end_turn(struct network *net, uint32_t process)
{
    struct gil *gils = net->gils, *gil = &gils[process];
    *(gil->before == NOBODY ? &net->first_turn : &gils[gil->before].after) = gil->after;
    *(gil->after == NOBODY ? &net->last_turn : &gils[gil->after].before) = gil->before;
}

static inline void begin_turn(struct network *net, uint32_t process)
{
    struct gil *gils = net->gils, *gil = &gils[process];
    gil->turn_ends_s = net->now_s + net->turn_s;
    if (net->now_s > net->last_turn_s)
        net->problem = "switch_interval_s is below the resolution of the clock after this time; increase it";
    gil->before = net->last_turn;
    gil->after = NOBODY;
    *(net->last_turn == NOBODY ? &net->first_turn : &gils[net->last_turn].after) = process;
    net->last_turn = process;
}

static inline void hand_over(struct network *net, uint32_t process)
{
    struct gil *gil = &net->gils[process];
    uint32_t thread = pop(net->threads, &gil->line);
    net->levels[GIL_WAITING] -= 1.0;
    end_turn(net, process);
    if (gil->line.first != NOBODY)
        begin_turn(net, process);
    gil->holder = thread;
    net->levels[GIL_HELD] += 1.0;
    compute(net, thread, net->threads[thread].ends_s + net->handover_s);
}

static inline void want_gil(struct network *net, uint32_t thread, double work_s)
{
    uint32_t process = net->threads[thread].process;
    struct gil *gil = &net->gils[process];
    if (gil->holder == NOBODY) {
        gil->holder = thread;
        net->levels[GIL_HELD] += 1.0;
        compute(net, thread, work_s);
        return;
    }
    net->threads[thread].ends_s = work_s;
    if (gil->line.first == NOBODY)
        begin_turn(net, process);
    push(net->threads, &gil->line, thread);
    net->levels[GIL_WAITING] += 1.0;
}

static inline void enter(struct network *net, uint32_t thread)
{
    const struct step *step = &net->steps[net->threads[thread].stage];
    double length_s = step->fixed_s;
    if (step->random_s > 0)
        length_s += step->random_s * next_exponential(&net->exponentials);
    switch (step->kind) {
    case STAGE_GIL:
        want_gil(net, thread, length_s);
        break;
    case STAGE_CORE:
        compute(net, thread, length_s);
        break;
    default:
        add_task(&net->waiting, thread, net->now_s + length_s);
        net->levels[step->kind == STAGE_ASLEEP ? ASLEEP : BLOCKED] += 1.0;
    }
}

static inline void begin_item(struct network *net, uint32_t thread, double began_s)
{
    net->threads[thread].began_s = began_s;
    net->threads[thread].stage = 0;
    enter(net, thread);
}

static inline void next_stage(struct network *net, uint32_t thread)
{
    struct thread *one = &net->threads[thread];
    if (one->stage + 1 < net->n_stages) {
        one->stage++;
        enter(net, thread);
        return;
    }
    end_item(net, net->now_s - one->began_s);
    if (net->is_complete)
        return;
    if (net->arrival_per_s == 0) {
        begin_item(net, thread, net->now_s);
    } else if (net->queue_length) {
        double arrived_s = net->queue[net->queue_first];
        net->queue_first = (net->queue_first + 1) & (net->queue_size - 1);
        net->queue_length--;
        net->levels[QUEUED] -= 1.0;
        begin_item(net, thread, arrived_s);
    } else {
        push(net->threads, &net->idle, thread);
    }
}

static inline void end_computing(struct network *net, uint32_t thread)
{
    enum stage_kind kind = net->steps[net->threads[thread].stage].kind;
    note(net, kind, thread);
    stop_computing(net, thread);
    if (kind == STAGE_GIL) {
        uint32_t process = net->threads[thread].process;
        net->gils[process].holder = NOBODY;
        net->levels[GIL_HELD] -= 1.0;
        if (net->gils[process].line.first != NOBODY)
            hand_over(net, process);
    }
    next_stage(net, thread);
}

static inline void end_waiting(struct network *net, uint32_t thread)
{
    enum stage_kind kind = net->steps[net->threads[thread].stage].kind;
    note(net, kind, thread);
    take_task_out(&net->waiting, thread);
    net->levels[kind == STAGE_ASLEEP ? ASLEEP : BLOCKED] -= 1.0;
    next_stage(net, thread);
}

static inline void force_handover(struct network *net, uint32_t process)
{
    struct gil *gil = &net->gils[process];
    uint32_t holder = gil->holder;
    struct thread *one = &net->threads[holder];
    note(net, EVENT_FORCED, holder);
    net->n_forced++;
    stop_computing(net, holder);
    net->levels[GIL_HELD] -= 1.0;
    double left_s = one->ends_s - net->virtual_s;
    one->ends_s = left_s > 0.0 ? left_s : 0.0;
    push(net->threads, &gil->line, holder);
    net->levels[GIL_WAITING] += 1.0;
    hand_over(net, process);
}

static bool grow_queue(struct network *net)
{
    size_t size = net->queue_size ? 2 * net->queue_size : 1024;
    double *queue = malloc(size * sizeof *queue);
    if (!queue) {
        net->problem = "there is not enough memory";
        return false;
    }
    for (size_t i = 0; i < net->queue_length; i++)
        queue[i] = net->queue[(net->queue_first + i) & (net->queue_size - 1)];
    free(net->queue);
    net->queue = queue;
    net->queue_first = 0;
    net->queue_size = size;
    return true;
}

static inline void arrive(struct network *net)
{
    note(net, EVENT_ARRIVAL, 0);
    net->next_arrival_s = net->now_s + next_exponential(&net->exponentials) / net->arrival_per_s;
    if (net->idle.first != NOBODY) {
        begin_item(net, pop(net->threads, &net->idle), net->now_s);
        return;
    }
    if (net->queue_length >= MOST_QUEUED) {
        net->problem = "1000000 items wait: arrival_per_s is above what the layout can do; lower it";
        return;
    }
    if (net->queue_length == net->queue_size && !grow_queue(net))
        return;
    net->queue[(net->queue_first + net->queue_length++) & (net->queue_size - 1)] = net->now_s;
    net->levels[QUEUED] += 1.0;
}

// Goes to the next event, and lets it happen.
static inline void step(struct network *net)
{
    size_t n = net->n_runnable;
    double end_virtual_s = first_at(&net->computing), end_s = infinity;
    if (n) {
        double left_s = end_virtual_s - net->virtual_s;
        end_s = net->now_s + (left_s > 0.0 ? left_s : 0.0) * net->stretches[n];
    }
    double at_s = end_s, wait_end_s = first_at(&net->waiting);
    if (wait_end_s < at_s)
        at_s = wait_end_s;
    double turn_end_s = net->first_turn == NOBODY ? infinity : net->gils[net->first_turn].turn_ends_s;
    if (turn_end_s < at_s)
        at_s = turn_end_s;
    if (net->next_arrival_s < at_s)
        at_s = net->next_arrival_s;
    if (at_s == infinity) {
        net->problem = "nothing happens any more: the times are too long";
        return;
    }
    double passed_s = at_s - net->now_s;
    net->levels[RUNNABLE] = (double)n;
    net->levels[WORK] = net->speeds[n];
    net->levels[BUSY] = (double)n < net->cores ? (double)n : net->cores;
    for (int i = 0; i < N_LEVELS; i++)
        net->integrals_s[i] += net->levels[i] * passed_s;
    net->now_s = at_s;
    if (n && end_s == at_s) {
        net->virtual_s = end_virtual_s;
        end_computing(net, (uint32_t)net->computing.nodes[1].thread);
        return;
    }
    net->virtual_s += passed_s * net->rates[n];
    if (wait_end_s == at_s)
        end_waiting(net, (uint32_t)net->waiting.nodes[1].thread);
    else if (turn_end_s == at_s)
        force_handover(net, net->first_turn);
    else
        arrive(net);
}

// Everything that a scenario needs, in one piece of memory.
struct room {
    struct task *computing, *waiting;
    struct thread *threads;
    struct gil *gils;
    struct step *steps;
    double *speeds, *stretches, *rates;
};

static void *make_room(const struct scenario *scenario, size_t n, size_t n_leaves, struct room *room)
{
    size_t nodes = 2 * n_leaves * sizeof(struct task), tables = (n + 1) * sizeof(double);
    size_t threads = n * sizeof(struct thread), gils = scenario->n_processes * sizeof(struct gil);
    size_t steps = scenario->n_stages * sizeof(struct step);
    char *memory = aligned_alloc(64, (2 * nodes + threads + gils + steps + 3 * tables + 63) / 64 * 64);
    char *at = memory;
    if (!memory)
        return NULL;
    room->computing = (void *)at, at += nodes;
    room->waiting = (void *)at, at += nodes;
    room->threads = (void *)at, at += threads;
    room->gils = (void *)at, at += gils;
    room->steps = (void *)at, at += steps;
    room->speeds = (void *)at, at += tables;
    room->stretches = (void *)at, at += tables;
    room->rates = (void *)at;
    return memory;
}

static void fill_room(const struct scenario *scenario, size_t n, struct room *room)
{
    room->speeds[0] = room->stretches[0] = room->rates[0] = 0.0;
    for (size_t k = 1; k <= n; k++) {
        double speed = scenario->speeds[(k < scenario->n_speeds ? k : scenario->n_speeds) - 1];
        room->speeds[k] = speed;
        room->stretches[k] = (double)k / speed;
        room->rates[k] = speed / (double)k;
    }
    for (size_t i = 0; i < scenario->n_stages; i++) {
        double mean_s = scenario->stages[i].mean_s;
        room->steps[i] = (struct step){scenario->stages[i].kind, mean_s * (1.0 - scenario->cv_ratio),
                                       mean_s * scenario->cv_ratio};
    }
    for (uint32_t i = 0; i < n; i++)
        room->threads[i] = (struct thread){.process = i % scenario->n_processes, .behind = NOBODY};
    for (uint32_t i = 0; i < scenario->n_processes; i++)
        room->gils[i] = (struct gil){.holder = NOBODY, .line = {NOBODY, NOBODY}, .before = NOBODY, .after = NOBODY};
}

// Until when both clocks tell what a turn brings, in 16 steps of 53 bits or more. Later the work of a turn could be
// rounded away, turn after turn.
static double last_turn_s(const struct scenario *scenario, const double *rates, size_t n)
{
    double least = 1.0, most = 1.0;
    for (size_t k = 1; k <= n; k++) {
        least = rates[k] < least ? rates[k] : least;
        most = rates[k] > most ? rates[k] : most;
    }
    return scenario->switch_interval_s * (least / most) * STEPS;
}

static void open_network(struct network *net, uint32_t n)
{
    if (net->arrival_per_s > 0) {
        for (uint32_t thread = 0; thread < n; thread++)
            push(net->threads, &net->idle, thread);
        net->next_arrival_s = next_exponential(&net->exponentials) / net->arrival_per_s;
    } else {
        for (uint32_t thread = 0; thread < n; thread++)
            begin_item(net, thread, 0.0);
    }
}

const char *simulate(const struct scenario *scenario, struct counts *counts)
{
    uint32_t n = scenario->n_processes * scenario->n_threads;
    size_t n_leaves = 1;
    while (n_leaves < n)
        n_leaves *= 2;
    struct room room;
    void *memory = make_room(scenario, n, n_leaves, &room);
    if (!memory)
        return "there is not enough memory";
    fill_room(scenario, n, &room);
    struct network net = {
        .next_arrival_s = infinity,
        .digest = FNV_OFFSET,
        .computing = make_tasks(room.computing, n_leaves),
        .waiting = make_tasks(room.waiting, n_leaves),
        .speeds = room.speeds,
        .stretches = room.stretches,
        .rates = room.rates,
        .steps = room.steps,
        .threads = room.threads,
        .gils = room.gils,
        .n_stages = (uint32_t)scenario->n_stages,
        .first_turn = NOBODY,
        .last_turn = NOBODY,
        .turn_s = scenario->switch_interval_s,
        .last_turn_s = last_turn_s(scenario, room.rates, n),
        .handover_s = scenario->handover_s,
        .arrival_per_s = scenario->arrival_per_s,
        .cores = scenario->cores,
        .idle = {NOBODY, NOBODY},
        .n_warm_items = scenario->n_warm_items,
        .n_items = scenario->n_items,
        .least_residence_s = scenario->least_residence_s,
        .per_log = 1.0 / natural_log(1.01),
        .counts = counts,
    };
    seed_exponentials(&net.exponentials, scenario->seed);
    begin_measuring(&net);
    open_network(&net, n);
    while (!net.is_complete && !net.problem)
        step(&net);
    free(net.queue);
    free(memory);
    counts->elapsed_s = net.now_s - net.begin_s;
    memcpy(counts->integrals_s, net.integrals_s, sizeof counts->integrals_s);
    counts->residence_sum_s = net.residence_sum_s;
    counts->n_forced = net.n_forced;
    counts->n_events = net.n_events;
    counts->digest = net.digest;
    return net.problem;
}
