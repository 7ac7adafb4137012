#include "minidump.h"

enum stream_type {
    THREAD_LIST = 3,
    MEMORY_LIST = 5,
    EXCEPTION = 6,
    MEMORY64_LIST = 9,
    MISC_INFO = 15,
    THREAD_NAMES = 24,
    BREAKPAD_INFO = 0x47670001,
};

bool minidump_stream(const struct minidump *dump, uint32_t type, struct slice *stream)
{
    const struct range *found = ranges_find(&dump->streams, type);
    return found && slice_sub(dump->file, (uint32_t)found->value, found->value >> 32, stream);
}

const struct memory *minidump_memory_at(const struct minidump *dump, uint64_t address)
{
    const struct range *found = ranges_find(&dump->region_ranges, address);
    return found ? &dump->regions[found->value] : NULL;
}

struct module *minidump_module_at(const struct minidump *dump, uint64_t address)
{
    const struct range *found = ranges_find(&dump->module_ranges, address);
    return found ? &dump->modules[found->value] : NULL;
}

bool minidump_list(struct slice stream, size_t entry_size, size_t max_count, struct slice *entries, size_t *count)
{
    uint32_t n;
    if (!read_u32(stream, 0, &n) || n > max_count) return false;
    uint64_t size = (uint64_t)n * entry_size;
    if (stream.size == size + 4) return *count = n, slice_sub(stream, 4, size, entries);
    if (stream.size == size + 8) return *count = n, slice_sub(stream, 8, size, entries);
    return false;
}

size_t put_utf8(uint8_t *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

bool minidump_string(const struct minidump *dump, uint64_t at, struct slice *text)
{
    uint32_t size;
    struct slice units;
    if (!read_u32(dump->file, at, &size) || size % 2 || !slice_sub(dump->file, at + 4, size, &units)) return false;
    uint8_t *out = budget_alloc(dump->budget, (size_t)size / 2 * 3 + 1);
    if (!out) return false;
    size_t n = 0;
    for (size_t i = 0; i < size; i += 2) {
        uint32_t c = u16_at(units, i);
        if (c >= 0xdc00 && c < 0xe000) return false;
        if (c >= 0xd800 && c < 0xdc00) {
            uint32_t low = i + 4 <= size ? u16_at(units, i + 2) : 0;
            if (low < 0xdc00 || low >= 0xe000) return false;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        }
        n += put_utf8(out + n, c);
    }
    *text = (struct slice){out, n};
    return true;
}

struct slice path_leaf(struct slice path)
{
    size_t start = path.size;
    if (!start) return path;
    while (start && path.data[start - 1] != '/' && path.data[start - 1] != '\\') start--;
    return (struct slice){path.data + start, path.size - start};
}

static const char *read_directory(struct minidump *dump)
{
    struct slice header, directory;
    if (!slice_sub(dump->file, 0, 32, &header)) return "too short for a minidump header";
    if (memcmp(header.data, "PMDM", 4) == 0) return "a big-endian minidump, which is not supported";
    if (memcmp(header.data, "MDMP", 4) != 0) return "not a minidump: it does not begin with MDMP";
    if (u16_at(header, 4) != 0xa793) return "a minidump of an unknown version";
    uint32_t n = u32_at(header, 8);
    dump->timestamp = u32_at(header, 20);
    if (n > MINIDUMP_MAX_STREAMS) return "more streams than a minidump can have";
    if (!slice_sub(dump->file, u32_at(header, 12), (uint64_t)n * 12, &directory))
        return "the stream directory lies outside the file";
    for (size_t i = 0; i < n; i++) {
        uint32_t type = u32_at(directory, i * 12);
        uint64_t place = (uint64_t)u32_at(directory, i * 12 + 4) << 32 | u32_at(directory, i * 12 + 8);
        if (!ranges_push(&dump->streams, dump->budget, type, type, place)) return "out of memory";
    }
    return ranges_sort(&dump->streams, dump->budget) ? NULL : "out of memory";
}

// A null offset or size means "look in the memory list"; so does a range outside the file.
static struct slice stack_of(const struct minidump *dump, struct slice entry)
{
    struct slice stack = {0};
    uint32_t size = u32_at(entry, 32), at = u32_at(entry, 36);
    if (size == 0 || at == 0 || !slice_sub(dump->file, at, size, &stack)) return (struct slice){0};
    return stack;
}

static const char *read_threads(struct minidump *dump)
{
    struct slice stream, entries;
    if (!minidump_stream(dump, THREAD_LIST, &stream)) return "it has no list of threads";
    if (!minidump_list(stream, 48, MINIDUMP_MAX_THREADS, &entries, &dump->n_threads))
        return "its list of threads is broken";
    dump->threads = budget_alloc(dump->budget, dump->n_threads * sizeof *dump->threads);
    if (!dump->threads) return "out of memory";
    for (size_t i = 0; i < dump->n_threads; i++) {
        struct thread *thread = &dump->threads[i];
        struct slice entry = {entries.data + i * 48, 48};
        thread->id = u32_at(entry, 0);
        thread->teb = u64_at(entry, 16);
        thread->stack_start = u64_at(entry, 24);
        thread->stack = stack_of(dump, entry);
        if (!slice_sub(dump->file, u32_at(entry, 44), u32_at(entry, 40), &thread->context))
            thread->context = (struct slice){0};
    }
    return NULL;
}

// Names are matched by thread id; the last one given for an id counts, a broken one is skipped.
static void read_thread_names(struct minidump *dump)
{
    struct slice stream, entries;
    size_t n;
    struct ranges names = {0};
    if (!minidump_stream(dump, THREAD_NAMES, &stream)) return;
    if (!minidump_list(stream, 12, MINIDUMP_MAX_THREADS, &entries, &n)) return;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct slice entry = {entries.data + i * 12, 12}, name;
        uint32_t id = u32_at(entry, 0);
        uint64_t at = u64_at(entry, 4);
        if (minidump_string(dump, at, &name)) ok = ranges_push(&names, dump->budget, id, id, at);
    }
    ok = ok && ranges_sort(&names, dump->budget);
    for (size_t i = 0; ok && i < dump->n_threads; i++) {
        const struct range *found = ranges_find(&names, dump->threads[i].id);
        if (found && !minidump_string(dump, found->value, &dump->threads[i].name))
            dump->threads[i].name = (struct slice){0};
    }
    ranges_free(&names, dump->budget);
}

static bool add_region(struct minidump *dump, uint64_t base, struct slice bytes)
{
    dump->regions[dump->n_regions] = (struct memory){base, bytes};
    return ranges_add(&dump->region_ranges, dump->budget, base, bytes.size, dump->n_regions++);
}

// The list of full dumps: 64-bit, its data lie one after the other. One bad entry makes the rest unreachable.
static bool read_memory64(struct minidump *dump)
{
    struct slice stream, bytes;
    uint64_t n, at;
    if (!minidump_stream(dump, MEMORY64_LIST, &stream)) return false;
    if (!read_u64(stream, 0, &n) || !read_u64(stream, 8, &at)) return false;
    if (n > MINIDUMP_MAX_REGIONS || stream.size != 16 + n * 16) return false;
    dump->regions = budget_alloc(dump->budget, (size_t)n * sizeof *dump->regions);
    if (!dump->regions) return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t base = u64_at(stream, 16 + i * 16), size = u64_at(stream, 24 + i * 16);
        if (!slice_sub(dump->file, at, size, &bytes) || !add_region(dump, base, bytes)) return false;
        at += size;
    }
    return ranges_finish(&dump->region_ranges, dump->budget);
}

static bool read_memory32(struct minidump *dump)
{
    struct slice stream, entries, bytes;
    size_t n;
    if (!minidump_stream(dump, MEMORY_LIST, &stream)) return false;
    if (!minidump_list(stream, 16, MINIDUMP_MAX_REGIONS, &entries, &n)) return false;
    dump->regions = budget_alloc(dump->budget, n * sizeof *dump->regions);
    if (!dump->regions) return false;
    for (size_t i = 0; i < n; i++) {
        struct slice entry = {entries.data + i * 16, 16};
        uint32_t size = u32_at(entry, 8), at = u32_at(entry, 12);
        if (size == 0 || at == 0 || !slice_sub(dump->file, at, size, &bytes)) continue;
        if (!add_region(dump, u64_at(entry, 0), bytes)) return false;
    }
    return ranges_finish(&dump->region_ranges, dump->budget);
}

static void forget_memory(struct minidump *dump)
{
    dump->n_regions = 0;
    ranges_free(&dump->region_ranges, dump->budget);
}

static void read_exception(struct minidump *dump)
{
    struct slice stream;
    struct exception *exception = &dump->exception;
    if (!minidump_stream(dump, EXCEPTION, &stream) || stream.size < 168) return;
    exception->present = true;
    exception->thread_id = u32_at(stream, 0);
    exception->code = u32_at(stream, 8);
    exception->flags = u32_at(stream, 12);
    exception->address = u64_at(stream, 24);
    exception->n_parameters = u32_at(stream, 32);
    for (size_t i = 0; i < 15; i++) exception->parameters[i] = u64_at(stream, 40 + i * 8);
    if (!slice_sub(dump->file, u32_at(stream, 164), u32_at(stream, 160), &exception->context))
        exception->context = (struct slice){0};
}

static void read_small_streams(struct minidump *dump)
{
    struct slice stream;
    if (minidump_stream(dump, BREAKPAD_INFO, &stream) && stream.size >= 12) {
        uint32_t valid = u32_at(stream, 0);
        dump->has_dump_thread = valid & 1;
        dump->has_requesting_thread = valid >> 1 & 1;
        dump->dump_thread_id = u32_at(stream, 4);
        dump->requesting_thread_id = u32_at(stream, 8);
    }
    if (minidump_stream(dump, MISC_INFO, &stream) && stream.size >= 24) {
        uint32_t valid = u32_at(stream, 4);
        dump->has_misc = true;
        dump->has_pid = valid & 1;
        dump->has_create_time = valid >> 1 & 1;
        dump->pid = u32_at(stream, 8);
        dump->create_time = u32_at(stream, 12);
    }
}

const char *minidump_read(struct minidump *dump, struct budget *budget, struct slice file)
{
    *dump = (struct minidump){.file = file, .budget = budget};
    const char *problem = read_directory(dump);
    if (!problem) problem = read_threads(dump);
    if (!problem) problem = minidump_read_system(dump);
    if (problem) return problem;
    read_thread_names(dump);
    minidump_read_modules(dump);
    minidump_read_unloaded_modules(dump);
    if (!read_memory64(dump)) {
        forget_memory(dump);
        if (!read_memory32(dump)) forget_memory(dump);
    }
    read_exception(dump);
    read_small_streams(dump);
    return NULL;
}

void minidump_free(struct minidump *dump)
{
    ranges_free(&dump->streams, dump->budget);
    ranges_free(&dump->module_ranges, dump->budget);
    ranges_free(&dump->region_ranges, dump->budget);
}
