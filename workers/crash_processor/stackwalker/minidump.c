#include "minidump.h"

enum stream_type {
    UNUSED = 0,
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
    *text = (struct slice){0};
    if (!read_u32(dump->file, at, &size) || size > MINIDUMP_MAX_STRING_BYTES) return false;
    if (!slice_sub(dump->file, at + 4, size, &units)) return false;
    uint8_t *out = budget_alloc(dump->budget, ((size_t)size + 1) / 2 * 3 + 1);
    if (!out) return false;
    size_t n = 0;
    bool whole = true;
    for (size_t i = 0; i < size; i += 2) {
        uint32_t c = i + 2 <= size ? u16_at(units, i) : 0xdc00;  // half a unit is no better than a lone surrogate
        uint32_t low = i + 4 <= size ? u16_at(units, i + 2) : 0;
        if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i += 2;
        } else if (c >= 0xd800 && c < 0xe000) {
            c = 0xfffd;
            whole = false;
        }
        n += put_utf8(out + n, c);
    }
    *text = (struct slice){out, n};
    return whole;
}

struct slice path_leaf(struct slice path)
{
    size_t start = path.size;
    if (!start) return path;
    while (start && path.data[start - 1] != '/' && path.data[start - 1] != '\\') start--;
    return (struct slice){path.data + start, path.size - start};
}

// The entries of a list that merely helps; false, and counted, when it is broken as a whole.
static bool helpful_list(struct minidump *dump, struct slice stream, size_t entry_size, size_t max_count,
                         enum unreadable kind, struct slice *entries, size_t *count)
{
    if (stream.size == 0) return false;
    if (minidump_list(stream, entry_size, max_count, entries, count)) return true;
    dump->unreadable[kind]++;
    return false;
}

static const char *read_directory(struct minidump *dump)
{
    struct slice header, directory, stream;
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
        uint32_t size = u32_at(directory, i * 12 + 4), at = u32_at(directory, i * 12 + 8);
        if (!slice_sub(dump->file, at, size, &stream)) {
            dump->unreadable[UNREADABLE_STREAM] += type != UNUSED;
            continue;
        }
        uint64_t place = (uint64_t)size << 32 | at;
        if (!ranges_push(&dump->streams, dump->budget, type, type, place)) return "out of memory";
    }
    return ranges_sort(&dump->streams, dump->budget) ? NULL : "out of memory";
}

// The bytes that an entry names by size and offset; data is NULL when there are none. A range outside the file is
// counted.
static struct slice bytes_of(struct minidump *dump, uint32_t size, uint32_t at, enum unreadable kind)
{
    struct slice bytes = {0};
    if (size == 0 || slice_sub(dump->file, at, size, &bytes)) return bytes;
    dump->unreadable[kind]++;
    return (struct slice){0};
}

// A null offset or size means "look in the memory list"; so does a range outside the file.
static struct slice stack_of(struct minidump *dump, struct slice entry)
{
    uint32_t size = u32_at(entry, 32), at = u32_at(entry, 36);
    return at == 0 ? (struct slice){0} : bytes_of(dump, size, at, UNREADABLE_STACK);
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
        thread->context = bytes_of(dump, u32_at(entry, 40), u32_at(entry, 44), UNREADABLE_CONTEXT);
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
    if (!helpful_list(dump, stream, 12, MINIDUMP_MAX_THREADS, UNREADABLE_THREAD_NAME_LIST, &entries, &n)) return;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct slice entry = {entries.data + i * 12, 12}, name;
        uint32_t id = u32_at(entry, 0);
        uint64_t at = u64_at(entry, 4);
        if (at == 0) continue;
        if (!minidump_string(dump, at, &name)) dump->unreadable[UNREADABLE_THREAD_NAME]++;
        if (name.data) ok = ranges_push(&names, dump->budget, id, id, at);
    }
    ok = ok && ranges_sort(&names, dump->budget);
    for (size_t i = 0; ok && i < dump->n_threads; i++) {
        const struct range *found = ranges_find(&names, dump->threads[i].id);
        if (found) minidump_string(dump, found->value, &dump->threads[i].name);  // counted above
    }
    ranges_free(&names, dump->budget);
}

// Room for `n` more regions; false when memory is out.
static bool make_room(struct minidump *dump, size_t n)
{
    struct memory *regions = budget_alloc(dump->budget, (dump->n_regions + n) * sizeof *regions);
    if (!regions) return false;
    if (dump->n_regions) memcpy(regions, dump->regions, dump->n_regions * sizeof *regions);
    dump->regions = regions;
    return true;
}

static bool wraps(uint64_t base, uint64_t size)
{
    return base > UINT64_MAX - size;
}

// False when memory is out.
static bool add_region(struct minidump *dump, uint64_t base, struct slice bytes)
{
    if (wraps(base, bytes.size)) {
        dump->unreadable[UNREADABLE_MEMORY]++;
        return true;
    }
    dump->regions[dump->n_regions] = (struct memory){base, bytes};
    return ranges_add(&dump->region_ranges, dump->budget, base, bytes.size, dump->n_regions++);
}

// The list of full dumps: 64-bit, its data lie one after the other, up to the end of the file. So a wrong size moves
// all data behind it.
struct memory64 {
    struct slice pairs;  // start and size of each region
    size_t count;
    uint64_t data_at, room;  // where the data begin, and how much of the file is left there
    bool too_long;           // the sizes add up to more than that
    bool has_bad;            // one entry alone has a wrong size, and the right one is known
    size_t bad;
    uint64_t bad_size;
};

static uint64_t start64(const struct memory64 *list, size_t i)
{
    return u64_at(list->pairs, i * 16);
}

static uint64_t size64(const struct memory64 *list, size_t i)
{
    return u64_at(list->pairs, i * 16 + 8);
}

// Whether so many bytes reach past the end of the file or of the address space, or into the next region.
static bool is_too_large(const struct memory64 *list, size_t i, uint64_t size)
{
    uint64_t start = start64(list, i), next = i + 1 < list->count ? start64(list, i + 1) : 0;
    return size > list->room || wraps(start, size) || (next > start && size > next - start);
}

// Where one size alone is impossible, the right one is what the others leave of the file. It is used only to find
// the regions behind it, and only where it is as round as the others: wrong memory would be worse than none.
static void find_bad_size(struct memory64 *list)
{
    uint64_t left = list->room, roundness = 4096;
    size_t n_bad = 0;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t size = size64(list, i);
        if (is_too_large(list, i, size)) {
            list->bad = i;
            n_bad++;
            continue;
        }
        if (size > left) return;
        left -= size;
        while (size % roundness) roundness /= 2;
    }
    list->bad_size = left;
    list->has_bad = n_bad == 1 && left % roundness == 0 && !is_too_large(list, list->bad, left);
}

static bool open_memory64(struct minidump *dump, struct memory64 *list)
{
    struct slice stream;
    uint64_t n;
    if (!minidump_stream(dump, MEMORY64_LIST, &stream) || stream.size == 0) return false;
    if (!read_u64(stream, 0, &n) || !read_u64(stream, 8, &list->data_at) || n > MINIDUMP_MAX_REGIONS ||
        stream.size != 16 + n * 16 || !slice_sub(stream, 16, n * 16, &list->pairs)) {
        dump->unreadable[UNREADABLE_MEMORY_LIST]++;
        return false;
    }
    list->count = (size_t)n;
    list->room = list->data_at < dump->file.size ? dump->file.size - list->data_at : 0;
    uint64_t left = list->room;
    for (size_t i = 0; i < list->count && !list->too_long; i++) {
        list->too_long = size64(list, i) > left;
        left -= list->too_long ? 0 : size64(list, i);
    }
    if (list->too_long) find_bad_size(list);
    return true;
}

// False when memory is out. From the first entry on that cannot be placed, all are unreadable.
static bool read_memory64(struct minidump *dump)
{
    struct memory64 list = {0};
    struct slice bytes;
    if (!open_memory64(dump, &list)) return true;
    if (!make_room(dump, list.count)) return false;
    uint64_t at = list.data_at;
    for (size_t i = 0; i < list.count; i++) {
        uint64_t size = size64(&list, i);
        if (list.has_bad && i == list.bad) {
            dump->unreadable[UNREADABLE_MEMORY]++;
            at += list.bad_size;
            continue;
        }
        if ((list.too_long && is_too_large(&list, i, size)) || !slice_sub(dump->file, at, size, &bytes)) {
            dump->unreadable[UNREADABLE_MEMORY] += list.count - i;
            break;
        }
        if (!add_region(dump, start64(&list, i), bytes)) return false;
        at += size;
    }
    return true;
}

// False when memory is out.
static bool read_memory32(struct minidump *dump)
{
    struct slice stream, entries;
    size_t n;
    if (!minidump_stream(dump, MEMORY_LIST, &stream)) return true;
    if (!helpful_list(dump, stream, 16, MINIDUMP_MAX_REGIONS, UNREADABLE_MEMORY_LIST, &entries, &n)) return true;
    if (!make_room(dump, n)) return false;
    for (size_t i = 0; i < n; i++) {
        struct slice entry = {entries.data + i * 16, 16};
        if (u32_at(entry, 12) == 0) continue;
        struct slice bytes = bytes_of(dump, u32_at(entry, 8), u32_at(entry, 12), UNREADABLE_MEMORY);
        if (bytes.data && !add_region(dump, u64_at(entry, 0), bytes)) return false;
    }
    return true;
}

// Where the list of full dumps is whole, it has all there is; else the other one is read as well.
static void read_memory(struct minidump *dump)
{
    const size_t *unreadable = dump->unreadable;
    bool ok = read_memory64(dump);
    bool whole = ok && dump->n_regions && !unreadable[UNREADABLE_MEMORY] && !unreadable[UNREADABLE_MEMORY_LIST];
    if (ok && !whole) ok = read_memory32(dump);
    if (ok && ranges_finish(&dump->region_ranges, dump->budget)) return;
    dump->unreadable[UNREADABLE_MEMORY_LIST]++;
    dump->n_regions = 0;
    ranges_free(&dump->region_ranges, dump->budget);
}

// A stream of one record; false, and counted, when it is too short.
static bool small_stream(struct minidump *dump, uint32_t type, size_t size, struct slice *stream)
{
    if (!minidump_stream(dump, type, stream) || stream->size == 0) return false;
    if (stream->size >= size) return true;
    dump->unreadable[UNREADABLE_STREAM]++;
    return false;
}

static void read_exception(struct minidump *dump)
{
    struct slice stream;
    struct exception *exception = &dump->exception;
    if (!small_stream(dump, EXCEPTION, 168, &stream)) return;
    exception->present = true;
    exception->thread_id = u32_at(stream, 0);
    exception->code = u32_at(stream, 8);
    exception->flags = u32_at(stream, 12);
    exception->address = u64_at(stream, 24);
    exception->n_parameters = u32_at(stream, 32);
    for (size_t i = 0; i < 15; i++) exception->parameters[i] = u64_at(stream, 40 + i * 8);
    exception->context = bytes_of(dump, u32_at(stream, 160), u32_at(stream, 164), UNREADABLE_CONTEXT);
}

static void read_small_streams(struct minidump *dump)
{
    struct slice stream;
    if (small_stream(dump, BREAKPAD_INFO, 12, &stream)) {
        uint32_t valid = u32_at(stream, 0);
        dump->has_dump_thread = valid & 1;
        dump->has_requesting_thread = valid >> 1 & 1;
        dump->dump_thread_id = u32_at(stream, 4);
        dump->requesting_thread_id = u32_at(stream, 8);
    }
    if (small_stream(dump, MISC_INFO, 24, &stream)) {
        uint32_t valid = u32_at(stream, 4);
        dump->has_misc = true;
        dump->has_pid = valid & 1;
        dump->has_create_time = valid >> 1 & 1;
        dump->pid = u32_at(stream, 8);
        dump->create_time = u32_at(stream, 12);
    }
}

static void check_context(struct minidump *dump, struct slice context)
{
    struct registers ignored;
    if (context.data && !cpu_read_context(dump->cpu, context, &ignored)) dump->unreadable[UNREADABLE_CONTEXT]++;
}

// Counts the contexts that are too short or another CPU's.
static void check_contexts(struct minidump *dump)
{
    for (size_t i = 0; i < dump->n_threads; i++) {
        if (dump->has_dump_thread && dump->dump_thread_id == dump->threads[i].id) continue;  // it is not walked
        check_context(dump, dump->threads[i].context);
    }
    check_context(dump, dump->exception.context);
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
    read_memory(dump);
    read_exception(dump);
    read_small_streams(dump);
    check_contexts(dump);
    return NULL;
}

void minidump_free(struct minidump *dump)
{
    ranges_free(&dump->streams, dump->budget);
    ranges_free(&dump->module_ranges, dump->budget);
    ranges_free(&dump->region_ranges, dump->budget);
}
