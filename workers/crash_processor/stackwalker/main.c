// crash-stackwalk: reads one minidump, prints its threads' stacks.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

#ifndef CRASH_STACKWALK_VERSION
#define CRASH_STACKWALK_VERSION "unknown"
#endif

enum { EXIT_UNREADABLE = 1, EXIT_USAGE = 2, EXIT_CPU_LIMIT = 3 };

static const char usage[] =
    "Usage: crash-stackwalk [--json | --pipe] [--cpu-limit SECONDS] [--passes N] DUMP [SYMBOL_DIR ...]\n";

static const char help[] =
    "\n"
    "Read the minidump DUMP (amd64 or x86) and print the stacks of its threads, with functions and lines from\n"
    "Breakpad symbol files SYMBOL_DIR/NAME/ID/NAME.sym.\n"
    "\n"
    "  --json               one JSON object with rust-minidump's field names (the default)\n"
    "  --pipe               Breakpad's machine-readable lines: OS|, CPU|, Crash|, Module|, then one line a frame\n"
    "  --cpu-limit SECONDS  end with status 3 after this much CPU time\n"
    "  --passes N           do the work N times over and print the last result (to load a CPU in measurements)\n"
    "  --help, --version\n"
    "\n"
    "What of a dump cannot be read is left out, and counted in a line WARNING on stderr: 2 module names could not be\n"
    "read.\n"
    "\n"
    "Status: 0 done; 1 the dump cannot be read, with one line ERROR on stderr; 2 wrong usage; 3 CPU limit reached.\n";

struct options {
    bool pipe;
    unsigned long cpu_limit_s;  // 0: none
    unsigned long passes;
    const char *dump;
    struct symbol_roots roots;
};

// Ends the program from a signal handler, hence without stdio.
static void die(const char *message, int status)
{
    ssize_t ignored = write(STDERR_FILENO, message, strlen(message));
    (void)ignored;
    _exit(status);
}

static void on_cpu_limit(int signal)
{
    (void)signal;
    die("ERROR the CPU limit was reached\n", EXIT_CPU_LIMIT);
}

// A mapped file that somebody truncates raises SIGBUS where it is read.
static void on_lost_file(int signal)
{
    (void)signal;
    die("ERROR the dump or a symbol file shrank while it was read\n", EXIT_UNREADABLE);
}

static int fail(const char *dump, const char *problem)
{
    fprintf(stderr, "ERROR %s: %s\n", dump, problem);
    return EXIT_UNREADABLE;
}

static int wrong_usage(const char *problem, const char *what)
{
    fprintf(stderr, "crash-stackwalk: %s%s\n%s", problem, what, usage);
    return EXIT_USAGE;
}

static bool parse_count(const char *text, unsigned long *count)
{
    char *end;
    errno = 0;
    *count = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
    return *count > 0 && *end == 0 && errno == 0;
}

// -1, or the status to end with. Options may stand anywhere; what is none of them moves to the front of argv.
static int parse_options(int argc, char **argv, struct options *options)
{
    int n_words = 0;
    bool only_words = false;  // after --
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];
        if (only_words || option[0] != '-' || !option[1]) {
            argv[n_words++] = argv[i];
        } else if (strcmp(option, "--") == 0) {
            only_words = true;
        } else if (strcmp(option, "--json") == 0) {
            options->pipe = false;
        } else if (strcmp(option, "--pipe") == 0) {
            options->pipe = true;
        } else if (strcmp(option, "--cpu-limit") == 0) {
            if (!parse_count(argv[++i], &options->cpu_limit_s))
                return wrong_usage("--cpu-limit needs whole seconds, 1 or more", "");
        } else if (strcmp(option, "--passes") == 0) {
            if (!parse_count(argv[++i], &options->passes)) return wrong_usage("--passes needs a number, 1 or more", "");
        } else if (strcmp(option, "--help") == 0) {
            printf("%s%s", usage, help);
            return 0;
        } else if (strcmp(option, "--version") == 0) {
            puts("crash-stackwalk " CRASH_STACKWALK_VERSION);
            return 0;
        } else {
            return wrong_usage("unknown option ", option);
        }
    }
    if (n_words == 0) return wrong_usage("no DUMP was given", "");
    options->dump = argv[0];
    options->roots = (struct symbol_roots){(const char *const *)argv + 1, (size_t)(n_words - 1)};
    return -1;
}

// A mistyped folder gives stacks without names, as one without the right files does: the latter is usual.
static void warn_of_missing_folders(struct symbol_roots roots)
{
    struct stat status;
    for (size_t i = 0; i < roots.count; i++) {
        if (stat(roots.paths[i], &status) != 0)
            fprintf(stderr, "WARNING symbol folder %s: %s\n", roots.paths[i], strerror(errno));
        else if (!S_ISDIR(status.st_mode))
            fprintf(stderr, "WARNING symbol folder %s: not a folder\n", roots.paths[i]);
    }
}

static void limit_cpu(unsigned long seconds)
{
    struct rlimit limit;
    struct sigaction action = {.sa_handler = on_cpu_limit};
    sigaction(SIGXCPU, &action, NULL);
    if (getrlimit(RLIMIT_CPU, &limit) != 0) return;
    // The soft limit sends SIGXCPU; the hard one, two seconds later, kills. A lower hard limit that was set for us
    // stays, and leaves a second for the message.
    rlim_t wanted = (rlim_t)seconds, hardest = wanted + 2;
    if (limit.rlim_max == RLIM_INFINITY || hardest < limit.rlim_max) limit.rlim_max = hardest;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max > 1 ? limit.rlim_max - 1 : 1;
    setrlimit(RLIMIT_CPU, &limit);
}

static bool map_dump(const char *path, struct slice *file, const char **problem)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        *problem = strerror(errno);
        if (fd >= 0) close(fd);
        return false;
    }
    void *map = MAP_FAILED;
    if (!S_ISREG(status.st_mode)) *problem = "not a regular file";
    else if (status.st_size == 0) *problem = "the file is empty";
    else map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED && S_ISREG(status.st_mode) && status.st_size) *problem = strerror(errno);
    close(fd);
    *file = (struct slice){map, (size_t)status.st_size};
    return map != MAP_FAILED;
}

// One line for each kind, so that a report that lacks something does not look complete.
static void warn_of_unreadable(const char *dump, const size_t unreadable[N_UNREADABLE])
{
    for (enum unreadable kind = 0; kind < N_UNREADABLE; kind++) {
        size_t n = unreadable[kind];
        if (n) fprintf(stderr, "WARNING %s: %zu %s could not be read\n", dump, n, unreadable_name(kind, n));
    }
}

// One pass: map, parse, walk, symbolise, and print when it is the last.
static int run_pass(const struct options *options, struct symbol_source source, struct output *output)
{
    static struct analysis analysis;
    struct slice file;
    const char *problem;
    if (!map_dump(options->dump, &file, &problem)) return fail(options->dump, problem);
    problem = analyse(&analysis, file, source, BUDGET_MAX_WORK);
    if (!problem && output) {
        if (options->pipe) report_pipe(output, &analysis);
        else report_json(output, &analysis);
        warn_of_unreadable(options->dump, analysis.dump.unreadable);
    }
    bool cut_short = (analysis.cut_short || !analysis.budget.work_left) && output;
    analysis_free(&analysis);
    munmap((void *)(uintptr_t)file.data, file.size);
    if (problem) return fail(options->dump, problem);
    if (cut_short) fprintf(stderr, "WARNING %s: too much to walk, what is later is left out\n", options->dump);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {.passes = 1};
    int status = parse_options(argc, argv, &options);
    if (status >= 0) return status;
    if (options.cpu_limit_s) limit_cpu(options.cpu_limit_s);
    warn_of_missing_folders(options.roots);
    struct sigaction action = {.sa_handler = on_lost_file};
    sigaction(SIGBUS, &action, NULL);

    static struct output output;
    output_init(&output, STDOUT_FILENO);
    struct symbol_source source = symbol_directories(&options.roots);
    for (unsigned long pass = 1; pass <= options.passes; pass++) {
        status = run_pass(&options, source, pass == options.passes ? &output : NULL);
        if (status) return status;
    }
    if (output.error) return fail("stdout", strerror(output.error));
    return 0;
}
