// Tasks by the moment at which each is through; the lower thread first among equals. A winner tree over all threads:
// taking one out costs one way to the root without a branch, putting one in mostly two or three steps.
#ifndef TUNER_SIMULATE_TASKS_H
#define TUNER_SIMULATE_TASKS_H

#include "simulate_random.h"

static const double infinity = __builtin_inf();

// Moments are 0 or more: their bits are in the same order as they are, and compare without a branch.
struct task {
    uint64_t at_bits;
    uint64_t thread;
};

struct tasks {
    struct task *nodes;  // node 1 is the first of all; nodes 2k and 2k + 1 are below k; leaves are threads
    size_t n_leaves;     // a power of two
};

static inline double first_at(const struct tasks *tasks)
{
    return double_of(tasks->nodes[1].at_bits);
}

static inline void add_task(struct tasks *tasks, uint32_t thread, double at)
{
    struct task task = {bits_of(at), thread};
    size_t node = tasks->n_leaves + thread;
    tasks->nodes[node] = task;
    for (node >>= 1; node; node >>= 1) {
        const struct task *now = &tasks->nodes[node];
        if (now->at_bits < task.at_bits || (now->at_bits == task.at_bits && now->thread < thread))
            break;
        tasks->nodes[node] = task;
    }
}

static inline void take_task_out(struct tasks *tasks, uint32_t thread)
{
    struct task *nodes = tasks->nodes;
    size_t node = tasks->n_leaves + thread;
    struct task best = {bits_of(infinity), thread};
    nodes[node] = best;
    for (; node > 1; node >>= 1) {
        struct task other = nodes[node ^ 1];
        // The left one wins a tie: its threads are lower. It is the other one when node is odd.
        uint64_t mask = -(uint64_t)(other.at_bits < best.at_bits + (node & 1));
        best.at_bits ^= (best.at_bits ^ other.at_bits) & mask;
        best.thread ^= (best.thread ^ other.thread) & mask;
        nodes[node >> 1] = best;
    }
}

// Empty, in nodes for 2 * n_leaves tasks.
static inline struct tasks make_tasks(struct task *nodes, size_t n_leaves)
{
    for (size_t i = 0; i < 2 * n_leaves; i++)
        nodes[i] = (struct task){bits_of(infinity), i < n_leaves ? 0 : i - n_leaves};
    return (struct tasks){nodes, n_leaves};
}

#endif
