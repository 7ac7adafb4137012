// What both libFuzzer targets do with a dump and symbols: walk, and print both reports to /dev/null.
#ifndef FUZZ_TARGET_H
#define FUZZ_TARGET_H

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "report.h"

// A few seconds of walking are fine for a real dump, but slow a fuzzer down to nothing.
static const uint64_t work_per_input = UINT64_C(1) << 21;

// Five seconds of CPU time for one input, and the process aborts, so that libFuzzer keeps the input. Its own -timeout
// looks at the clock on the wall, which goes on while a busy machine runs others.
enum { MOST_CPU_S = 5 };

static inline void too_slow(int signal)
{
    (void)signal;
    static const char text[] = "ERROR: one input took 5 s of CPU time\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    abort();
}

static inline void limit_cpu_of_input(void)
{
    struct sigaction action = {.sa_handler = too_slow};
    struct itimerval limit = {.it_value = {.tv_sec = MOST_CPU_S}};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &limit, NULL);
}

// A copy without a spare byte at its end, so that reading one too far is seen.
static inline struct slice exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    return (struct slice){copy, size};
}

static inline void free_copy(struct slice copy)
{
    free((void *)(uintptr_t)copy.data);
}

static inline void walk_and_report(struct slice dump, struct symbol_source source)
{
    static struct output output;
    static struct analysis analysis;
    static int null_fd = -1;
    if (null_fd < 0) null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (!analyse(&analysis, dump, source, work_per_input)) {
        output_init(&output, null_fd);
        report_json(&output, &analysis);
        output_init(&output, null_fd);
        report_pipe(&output, &analysis);
    }
    analysis_free(&analysis);
}

#endif
