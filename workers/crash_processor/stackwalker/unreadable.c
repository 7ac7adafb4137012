#include "unreadable.h"

static const char *const names[N_UNREADABLE][2] = {
    [UNREADABLE_STREAM] = {"stream", "streams"},
    [UNREADABLE_SYSTEM_VERSION] = {"system version", "system versions"},
    [UNREADABLE_CONTEXT] = {"CPU context", "CPU contexts"},
    [UNREADABLE_STACK] = {"thread stack", "thread stacks"},
    [UNREADABLE_THREAD_NAME_LIST] = {"list of thread names", "lists of thread names"},
    [UNREADABLE_THREAD_NAME] = {"thread name", "thread names"},
    [UNREADABLE_MODULE_LIST] = {"list of modules", "lists of modules"},
    [UNREADABLE_MODULE] = {"module", "modules"},
    [UNREADABLE_MODULE_NAME] = {"module name", "module names"},
    [UNREADABLE_MODULE_ID] = {"module id", "module ids"},
    [UNREADABLE_UNLOADED_LIST] = {"list of unloaded modules", "lists of unloaded modules"},
    [UNREADABLE_UNLOADED] = {"unloaded module", "unloaded modules"},
    [UNREADABLE_UNLOADED_NAME] = {"unloaded module name", "unloaded module names"},
    [UNREADABLE_MEMORY_LIST] = {"list of memory regions", "lists of memory regions"},
    [UNREADABLE_MEMORY] = {"memory region", "memory regions"},
    [UNREADABLE_MAPPING] = {"line of the memory map", "lines of the memory map"},
    [UNREADABLE_LIMIT] = {"process limit", "process limits"},
};

const char *unreadable_name(enum unreadable kind, size_t count)
{
    return names[kind][count != 1];
}
