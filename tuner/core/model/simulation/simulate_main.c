// tuner-simulate: reads scenarios, one a line, and prints what each one counted, one a line.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate.h"

enum { EXIT_PROBLEM = 2 };

static const char help[] =
    "Usage: tuner-simulate < SCENARIOS\n"
    "\n"
    "Simulate networks of worker processes event by event. Every line of the input is a scenario:\n"
    "\n"
    "  processes=4 threads=6 seed=1 n_items=20000 n_warm_items=2000 arrival_per_s=0 cv=0.5 switch_interval_s=0.005\n"
    "  handover_s=5e-06 least_residence_s=0.0001 cores=4 stages=gil:0.05,asleep:0.2,core:0.7,gil:0.05 speeds=1,2,3,4\n"
    "\n"
    "stages are gil, core, asleep, blocked, with mean seconds; speeds is the work per second with 1, 2 ... runnable\n"
    "tasks, and the last one holds for more; cores are those that they may keep busy; arrival_per_s=0: threads always\n"
    "have items. For every line one line is printed: integrals over the time measured, residence times in buckets 1 %\n"
    "wide, and a digest of the trajectory.\n"
    "\n"
    "Status: 0 done; 2 a line that is no scenario, with one line on stderr.\n";

// Of the line in hand: errors name it.
static unsigned long line_number;

static void fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "ERROR line %lu: ", line_number);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(EXIT_PROBLEM);
}

// A number that ends at end (a character of it), within the bounds; *text goes on behind it.
static double read_number(const char *name, char **text, const char *end, double least, double most)
{
    char *behind;
    double value = strtod(*text, &behind);
    if (behind == *text || !strchr(end, *behind) || !(value >= least && value <= most))
        fail("%s should be a number from %.9g to %.9g, got '%.40s'", name, least, most, *text);
    *text = behind;
    return value;
}

static uint64_t read_whole(const char *name, char *text, uint64_t least, uint64_t most)
{
    char *behind;
    errno = 0;
    unsigned long long value = strtoull(text, &behind, 10);
    if (errno || text[strspn(text, "0123456789")] || !*text || value < least || value > most)
        fail("%s should be a whole number from %llu to %llu, got '%.40s'", name, (unsigned long long)least,
             (unsigned long long)most, text);
    return value;
}

static size_t n_parts(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (!memory)
        fail("there is not enough memory");
    return memory;
}

static void read_stages(struct scenario *scenario, char *text)
{
    static const char *const kinds[N_STAGE_KINDS] = {"gil:", "core:", "asleep:", "blocked:"};
    size_t n = n_parts(text);
    if (n > MOST_STAGES)
        fail("stages should be at most %d, got %zu", MOST_STAGES, n);
    scenario->stages = allocate(n, sizeof *scenario->stages);
    scenario->n_stages = n;
    for (size_t i = 0; i < n; i++) {
        int kind = 0;
        while (kind < N_STAGE_KINDS && strncmp(text, kinds[kind], strlen(kinds[kind])))
            kind++;
        if (kind == N_STAGE_KINDS)
            fail("a stage should be gil:, core:, asleep: or blocked: and seconds, got '%.40s'", text);
        text += strlen(kinds[kind]);
        double mean_s = read_number("stages", &text, ",", 1e-300, 1e12);
        scenario->stages[i] = (struct stage){(enum stage_kind)kind, mean_s};
        text += *text == ',';
    }
}

static void read_speeds(struct scenario *scenario, char *text)
{
    size_t n = n_parts(text);
    if (n > MOST_THREADS)
        fail("speeds should be at most %d, got %zu", MOST_THREADS, n);
    scenario->speeds = allocate(n, sizeof *scenario->speeds);
    scenario->n_speeds = n;
    for (size_t i = 0; i < n; i++) {
        scenario->speeds[i] = read_number("speeds", &text, ",", 1e-9, 1e9);
        text += *text == ',';
    }
}

enum field {
    PROCESSES,
    THREADS,
    SEED,
    ITEMS,
    WARM_ITEMS,
    ARRIVAL,
    CV,
    SWITCH_INTERVAL,
    HANDOVER,
    LEAST_RESIDENCE,
    CORES,
    STAGES,
    SPEEDS,
    N_FIELDS
};

static const char *const field_names[N_FIELDS] = {
    "processes",         "threads",    "seed",              "n_items", "n_warm_items", "arrival_per_s", "cv",
    "switch_interval_s", "handover_s", "least_residence_s", "cores",   "stages",       "speeds",
};

static void read_field(struct scenario *scenario, enum field field, char *text)
{
    const char *name = field_names[field];
    switch (field) {
    case PROCESSES:
        scenario->n_processes = (uint32_t)read_whole(name, text, 1, MOST_THREADS);
        break;
    case THREADS:
        scenario->n_threads = (uint32_t)read_whole(name, text, 1, MOST_THREADS);
        break;
    case SEED:
        scenario->seed = read_whole(name, text, 0, UINT64_MAX);
        break;
    case ITEMS:
        scenario->n_items = read_whole(name, text, N_BATCHES, UINT64_C(1000000000000));
        break;
    case WARM_ITEMS:
        scenario->n_warm_items = read_whole(name, text, 0, UINT64_C(1000000000000));
        break;
    case ARRIVAL:
        scenario->arrival_per_s = read_number(name, &text, "", 0, 1e12);
        break;
    case CV:
        scenario->cv_ratio = read_number(name, &text, "", 0, 1);
        break;
    case SWITCH_INTERVAL:
        scenario->switch_interval_s = read_number(name, &text, "", 1e-9, __builtin_inf());
        break;
    case HANDOVER:
        scenario->handover_s = read_number(name, &text, "", 0, 1e9);
        break;
    case LEAST_RESIDENCE:
        scenario->least_residence_s = read_number(name, &text, "", 1e-300, 1e12);
        break;
    case CORES:
        scenario->cores = read_number(name, &text, "", 1e-9, 1e9);
        break;
    case STAGES:
        read_stages(scenario, text);
        break;
    case SPEEDS:
        read_speeds(scenario, text);
        break;
    default:
        break;
    }
}

// Every field once, in any order.
static void read_scenario(struct scenario *scenario, char *line)
{
    bool seen[N_FIELDS] = {false};
    char *rest = NULL;
    for (char *word = strtok_r(line, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
        char *value = strchr(word, '=');
        int field = 0;
        if (value)
            *value++ = '\0';
        while (field < N_FIELDS && strcmp(word, field_names[field]))
            field++;
        if (!value || field == N_FIELDS)
            fail("'%.40s' is no field of a scenario; see --help", word);
        if (seen[field])
            fail("%s is there twice", word);
        seen[field] = true;
        read_field(scenario, (enum field)field, value);
    }
    for (int field = 0; field < N_FIELDS; field++)
        if (!seen[field])
            fail("%s is missing", field_names[field]);
}

static bool has_stage(const struct scenario *scenario, enum stage_kind kind)
{
    for (size_t i = 0; i < scenario->n_stages; i++)
        if (scenario->stages[i].kind == kind)
            return true;
    return false;
}

// The most time that work takes, over its time on a core of its own, with up to n tasks on the cores.
static double most_stretch(const struct scenario *scenario, size_t n)
{
    double most = 0.0;
    for (size_t k = 1; k <= n; k++) {
        double stretch = (double)k / scenario->speeds[(k < scenario->n_speeds ? k : scenario->n_speeds) - 1];
        most = stretch > most ? stretch : most;
    }
    return most;
}

// What no field shows alone. A hand-over that costs what a turn brings would leave no time for work.
static void check_scenario(const struct scenario *scenario)
{
    uint64_t n = (uint64_t)scenario->n_processes * scenario->n_threads;
    if (n > MOST_THREADS)
        fail("there should be at most %d threads together, got %llu", MOST_THREADS, (unsigned long long)n);
    if (scenario->arrival_per_s > 0 && scenario->arrival_per_s < 1e-12)
        fail("arrival_per_s should be 0, or a number from 1e-12, got %.9g", scenario->arrival_per_s);
    if (!has_stage(scenario, STAGE_GIL) || scenario->n_threads == 1)
        return;
    // Where all that computes holds a GIL, each process computes once at most.
    size_t n_runnable = has_stage(scenario, STAGE_CORE) ? n : scenario->n_processes;
    if (scenario->handover_s * most_stretch(scenario, n_runnable) > scenario->switch_interval_s / 2)
        fail("handover_s is microseconds: %.9g s on shared cores is more than half of switch_interval_s",
             scenario->handover_s);
}

static void print_counts(const struct counts *counts)
{
    static const char *const levels[N_LEVELS] = {"runnable_s",    "work_s",   "busy_s",    "gil_held_s",
                                                 "gil_waiting_s", "asleep_s", "blocked_s", "queued_s"};
    printf("elapsed_s=%.17g", counts->elapsed_s);
    for (int i = 0; i < N_LEVELS; i++)
        printf(" %s=%.17g", levels[i], counts->integrals_s[i]);
    printf(" residence_sum_s=%.17g n_forced=%llu n_events=%llu digest=%016llx", counts->residence_sum_s,
           (unsigned long long)counts->n_forced, (unsigned long long)counts->n_events,
           (unsigned long long)counts->digest);
    for (int i = 0; i < N_BATCHES; i++)
        printf("%s%.17g", i ? "," : " batch_ends_s=", counts->batch_ends_s[i]);
    const char *before = " histogram=";
    for (int i = 0; i < N_BUCKETS; i++)
        if (counts->histogram[i]) {
            printf("%s%d:%llu", before, i, (unsigned long long)counts->histogram[i]);
            before = ",";
        }
    putchar('\n');
}

static void simulate_line(char *line)
{
    struct scenario scenario = {0};
    static struct counts counts;
    read_scenario(&scenario, line);
    check_scenario(&scenario);
    const char *problem = simulate(&scenario, &counts);
    free(scenario.stages);
    free(scenario.speeds);
    if (problem)
        fail("%s", problem);
    print_counts(&counts);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--help")) {
        fputs(help, stdout);
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts("tuner-simulate " TUNER_SIMULATE_VERSION);
        return 0;
    }
    if (argc > 1) {
        fputs("ERROR tuner-simulate takes scenarios on its standard input; see --help\n", stderr);
        return EXIT_PROBLEM;
    }
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) >= 0) {
        line_number++;
        if (strlen(line) != (size_t)length)
            fail("there is a null byte in it");
        simulate_line(line);
    }
    free(line);
    if (ferror(stdin)) {
        perror("ERROR standard input");
        return EXIT_PROBLEM;
    }
    if (fflush(stdout) || ferror(stdout)) {
        perror("ERROR standard output");
        return EXIT_PROBLEM;
    }
    return 0;
}
