// The kinds of things in a dump that may be unreadable while the rest of it is fine. Each is left out, or keeps its
// good part, and is counted; the command prints one line for each kind.
#ifndef UNREADABLE_H
#define UNREADABLE_H

#include <stddef.h>

enum unreadable {
    UNREADABLE_STREAM,
    UNREADABLE_SYSTEM_VERSION,
    UNREADABLE_CONTEXT,
    UNREADABLE_STACK,
    UNREADABLE_THREAD_NAME_LIST,
    UNREADABLE_THREAD_NAME,
    UNREADABLE_MODULE_LIST,
    UNREADABLE_MODULE,
    UNREADABLE_MODULE_NAME,
    UNREADABLE_MODULE_ID,
    UNREADABLE_UNLOADED_LIST,
    UNREADABLE_UNLOADED,
    UNREADABLE_UNLOADED_NAME,
    UNREADABLE_MEMORY_LIST,
    UNREADABLE_MEMORY,
    UNREADABLE_MAPPING,
    UNREADABLE_LIMIT,
    N_UNREADABLE,
};

// What to call `count` things of a kind: "module name", "module names".
const char *unreadable_name(enum unreadable kind, size_t count);

#endif
