// A minidump, read into plain structures. Names are UTF-8; what a dump does not have is NULL, 0 or false.
#ifndef MINIDUMP_H
#define MINIDUMP_H

#include "cfi.h"
#include "ranges.h"
#include "unreadable.h"

enum os { OS_WINDOWS, OS_MAC, OS_IOS, OS_LINUX, OS_ANDROID, OS_OTHER };

enum {
    MINIDUMP_MAX_STREAMS = 4096,
    MINIDUMP_MAX_THREADS = 65536,
    MINIDUMP_MAX_MODULES = 65536,
    MINIDUMP_MAX_REGIONS = 1 << 22,
    MINIDUMP_MAX_STRING_BYTES = 1 << 20,
};

struct module {
    uint64_t base;
    uint32_t size;
    struct slice name;        // as in the dump, with its path; empty when it cannot be read
    struct slice file;        // the last part of the name
    struct slice debug_file;  // data is NULL when there is none
    const char *debug_id;     // NULL when there is none
    const char *code_id;      // NULL when there is none
    const char *version;      // NULL when there is none
    struct symbols *symbols;  // NULL when not looked for, not found, or corrupt
    bool symbols_tried;       // for this module; the next three: for one of its name
    bool symbols_looked_for, symbols_loaded, symbols_corrupt;
};

struct unloaded_module {
    uint64_t base;
    uint32_t size;
    uint32_t timestamp;
    struct slice name;
};

struct thread {
    uint32_t id;
    uint64_t teb;
    uint64_t stack_start;
    struct slice stack;    // data is NULL when the thread names none
    struct slice context;  // data is NULL when it is not in the file
    struct slice name;     // data is NULL when it has none
};

struct exception {
    bool present;
    uint32_t thread_id;
    uint32_t code, flags;
    uint64_t address;
    uint32_t n_parameters;
    uint64_t parameters[15];
    struct slice context;  // data is NULL when it is not in the file
};

struct minidump {
    struct slice file;
    struct budget *budget;
    struct ranges streams;  // start = end = type; value: size << 32 | offset; the last of a type counts
    size_t unreadable[N_UNREADABLE];  // how many of each kind were left out or replaced

    uint32_t timestamp;
    enum os os;
    const char *os_name;
    uint16_t architecture;
    const struct cpu *cpu;
    unsigned n_cpus;
    struct slice cpu_info;
    struct slice os_version, os_build;  // build: data is NULL when there is none

    struct thread *threads;
    size_t n_threads;
    struct module *modules;
    size_t n_modules;
    struct ranges module_ranges;  // value: place in modules
    struct unloaded_module *unloaded;
    size_t n_unloaded;
    struct memory *regions;
    size_t n_regions;
    struct ranges region_ranges;  // value: place in regions
    struct exception exception;

    bool has_dump_thread, has_requesting_thread;
    uint32_t dump_thread_id, requesting_thread_id;
    bool has_misc, has_pid, has_create_time;
    uint32_t pid, create_time;
};

// Reads all of the above; NULL, or what is wrong with the dump. Streams that merely help are left out when broken, and
// so are broken entries of a list; `unreadable` counts both.
const char *minidump_read(struct minidump *dump, struct budget *budget, struct slice file);

void minidump_free(struct minidump *dump);

// The bytes of a stream; false when the dump has none, or it lies outside the file.
bool minidump_stream(const struct minidump *dump, uint32_t type, struct slice *stream);

// The memory region that holds an address, or NULL.
const struct memory *minidump_memory_at(const struct minidump *dump, uint64_t address);

// The module that holds an address, or NULL.
struct module *minidump_module_at(const struct minidump *dump, uint64_t address);

// The entries of a list stream: a count, and perhaps 4 bytes of padding before the first one.
bool minidump_list(struct slice stream, size_t entry_size, size_t max_count, struct slice *entries, size_t *count);

// A UTF-16 string with its byte length before it, as UTF-8. False when it is not all readable: invalid UTF-16 is then
// replaced by U+FFFD; data is NULL when the string lies outside the file or is longer than any name can be.
bool minidump_string(const struct minidump *dump, uint64_t at, struct slice *text);

// Writes a code point as UTF-8 to `out`, which has room for 4 bytes; how many it took.
size_t put_utf8(uint8_t *out, uint32_t c);

// The part after the last / or \.
struct slice path_leaf(struct slice path);

// In modules.c: fill the lists of loaded and unloaded modules.
void minidump_read_modules(struct minidump *dump);
void minidump_read_unloaded_modules(struct minidump *dump);

// In system.c: fill CPU and operating system; NULL, or what is wrong.
const char *minidump_read_system(struct minidump *dump);

#endif
