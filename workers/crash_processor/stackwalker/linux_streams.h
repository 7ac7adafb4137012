// What Breakpad on Linux copies from /proc and /etc into a dump, as text.
#ifndef LINUX_STREAMS_H
#define LINUX_STREAMS_H

#include "minidump.h"

struct lsb_release {
    struct slice id, release, codename, description;
};

// Each is false when the dump has no such stream, or it does not hold the answer.
bool linux_lsb_release(const struct minidump *dump, struct lsb_release *release);
bool linux_pid(const struct minidump *dump, uint32_t *pid);
bool linux_microcode(const struct minidump *dump, uint64_t *version);

// How many mappings the process had. Lines that are none are left out, and counted in `unreadable`.
bool linux_map_count(const struct minidump *dump, uint64_t *count, size_t *unreadable);

// One line of /proc/PID/limits. A limit's text is a number or "unlimited".
struct process_limit {
    struct slice name, soft, hard, unit;
};

// A limit's text as a number; false, and 0 as for rust-minidump, when it is none.
bool limit_number(struct slice text, uint64_t *number);

// Calls `use` for every limit; false when the dump has no such stream. Lines of too few columns are left out; they and
// those with another text than a number or "unlimited" are counted in `unreadable`.
typedef void (*limit_user)(void *context, const struct process_limit *limit);
bool linux_limits(const struct minidump *dump, limit_user use, void *context, size_t *unreadable);

// Counts what of the two lists cannot be read into `dump->unreadable`.
void linux_count_unreadable(struct minidump *dump);

#endif
