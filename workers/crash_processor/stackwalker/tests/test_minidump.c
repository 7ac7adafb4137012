// One bad entry of a list costs that entry, is counted, and leaves the others.
#include "check.h"
#include "linux_streams.h"

enum { DUMP_BYTES = 4096, N_STREAMS = 8, DIRECTORY_AT = 32, OUTSIDE = 0x7ffffff0 };

// A dump under way: streams and what they point to, one after the other.
struct draft {
    uint8_t bytes[DUMP_BYTES];
    uint32_t used, n_streams;
};

static void put(struct draft *draft, size_t at, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++) draft->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

static uint32_t add_bytes(struct draft *draft, const void *bytes, uint32_t size)
{
    uint32_t at = draft->used;
    if (bytes) memcpy(draft->bytes + at, bytes, size);
    draft->used += size;
    return at;
}

// A new stream of zeros; where it is.
static uint32_t add_stream(struct draft *draft, uint32_t type, uint32_t size)
{
    uint32_t at = add_bytes(draft, NULL, size);
    size_t entry = DIRECTORY_AT + 12 * draft->n_streams++;
    put(draft, entry, type, 4);
    put(draft, entry + 4, size, 4);
    put(draft, entry + 8, at, 4);
    return at;
}

static uint32_t add_name(struct draft *draft, const void *units, uint32_t size)
{
    uint32_t at = add_bytes(draft, NULL, 4);
    put(draft, at, size, 4);
    add_bytes(draft, units, size);
    return at;
}

// No threads, Linux on amd64.
static void begin(struct draft *draft)
{
    *draft = (struct draft){.used = DIRECTORY_AT + 12 * N_STREAMS};
    memcpy(draft->bytes, "MDMP", 4);
    put(draft, 4, 0xa793, 4);
    put(draft, 12, DIRECTORY_AT, 4);
    add_stream(draft, 3, 4);
    uint32_t system = add_stream(draft, 7, 56);
    put(draft, system, 9, 2);
    put(draft, system + 20, 0x8201, 4);
}

// Reads the draft from a block of its exact length.
static void read_draft(struct draft *draft, struct minidump *dump, struct budget *budget)
{
    put(draft, 8, draft->n_streams, 4);
    budget_init(budget, BUDGET_MAX_WORK);
    const char *problem = minidump_read(dump, budget, heap_slice(draft->bytes, draft->used));
    CHECK(problem == NULL);
    linux_count_unreadable(dump);
}

static void done(struct minidump *dump, struct budget *budget)
{
    heap_free(dump->file);
    minidump_free(dump);
    budget_release(budget);
    CHECK_NUMBER(budget->bytes_left, BUDGET_MAX_BYTES);
}

static size_t n_unreadable(const struct minidump *dump)
{
    size_t sum = 0;
    for (int i = 0; i < N_UNREADABLE; i++) sum += dump->unreadable[i];
    return sum;
}

static void check_string(const void *units, uint32_t size, bool is_whole, const char *expected)
{
    uint8_t bytes[64] = {(uint8_t)size};
    memcpy(bytes + 4, units, size);
    struct budget budget;
    budget_init(&budget, 100);
    struct minidump dump = {.file = heap_slice(bytes, size + 4), .budget = &budget};
    struct slice text;

    CHECK(minidump_string(&dump, 0, &text) == is_whole);
    CHECK_TEXT(text, expected);
    heap_free(dump.file);
    budget_release(&budget);
}

static void invalid_utf16_is_replaced(void)
{
    check_string("a\0b", 4, true, "ab");
    check_string("", 0, true, "");
    check_string("\x3d\xd8\xa9\xdc", 4, true, "\xf0\x9f\x92\xa9");
    check_string("a\0\xa9\xdc\x62", 6, false, "a\xef\xbf\xbd" "b");
    check_string("a\0\x3d\xd8", 4, false, "a\xef\xbf\xbd");
    check_string("\x3d\xd8\x3d\xd8\xa9\xdc", 6, false, "\xef\xbf\xbd\xf0\x9f\x92\xa9");
    check_string("a\0b", 3, false, "a\xef\xbf\xbd");
    check_string("\xff", 1, false, "\xef\xbf\xbd");
    check_string("\xa9\xdc\xa9\xdc\x3d\xd8\xff", 7, false, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void a_string_outside_the_file_is_none(void)
{
    struct budget budget;
    budget_init(&budget, 100);
    struct minidump dump = {.file = heap_slice("\x06\0\0\0a\0b\0", 8), .budget = &budget};
    struct slice text;

    CHECK(!minidump_string(&dump, 0, &text) && text.data == NULL);
    CHECK(!minidump_string(&dump, 6, &text) && text.data == NULL);
    CHECK(!minidump_string(&dump, UINT64_MAX - 2, &text) && text.data == NULL);
    heap_free(dump.file);
    budget_release(&budget);
}

static void a_module_keeps_what_of_it_is_good(void)
{
    struct draft draft;
    struct minidump dump;
    struct budget budget;
    begin(&draft);
    uint32_t name = add_name(&draft, "a\0b", 4), bad_name = add_name(&draft, "a\0\0\xdc", 4);
    uint32_t entries = add_stream(&draft, 4, 4 + 6 * 108) + 4;
    put(&draft, entries - 4, 6, 4);
    for (uint32_t i = 0; i < 6; i++) {
        put(&draft, entries + 108 * i, 0x10000 * (i + 1), 8);
        put(&draft, entries + 108 * i + 8, i == 3 ? 0 : 0x1000, 4);
        put(&draft, entries + 108 * i + 20, i == 1 ? OUTSIDE : i == 2 ? bad_name : name, 4);
        if (i == 4) put(&draft, entries + 108 * i + 76, UINT64_C(0x7ffffff000000100), 8);
    }
    read_draft(&draft, &dump, &budget);

    CHECK_NUMBER(dump.n_modules, 5);
    CHECK_TEXT(dump.modules[0].name, "ab");
    CHECK_TEXT(dump.modules[1].name, "");
    CHECK(dump.modules[1].name.data != NULL);
    CHECK_TEXT(dump.modules[2].name, "a\xef\xbf\xbd");
    CHECK_TEXT(dump.modules[4].name, "ab");
    CHECK(minidump_module_at(&dump, 0x20fff) == &dump.modules[1]);
    CHECK(minidump_module_at(&dump, 0x60000) == &dump.modules[4]);
    CHECK(minidump_module_at(&dump, 0x40000) == NULL);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_MODULE_NAME], 2);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_MODULE], 1);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_MODULE_ID], 1);
    CHECK_NUMBER(n_unreadable(&dump), 4);
    done(&dump, &budget);
}

static void unloaded_modules_and_thread_names_are_read_past_a_bad_one(void)
{
    struct draft draft;
    struct minidump dump;
    struct budget budget;
    begin(&draft);
    uint32_t name = add_name(&draft, "a\0b", 4);
    uint32_t at = add_stream(&draft, 14, 12 + 3 * 24);
    put(&draft, at, 12, 4);
    put(&draft, at + 4, 24, 4);
    put(&draft, at + 8, 3, 4);
    for (uint32_t i = 0; i < 3; i++) {
        put(&draft, at + 12 + 24 * i, 0x10000 * (i + 1), 8);
        put(&draft, at + 12 + 24 * i + 8, i == 0 ? 0 : 0x1000, 4);
        put(&draft, at + 12 + 24 * i + 20, i == 1 ? OUTSIDE : name, 4);
    }
    uint32_t names = add_stream(&draft, 24, 4 + 12);
    put(&draft, names, 1, 4);
    put(&draft, names + 8, UINT64_MAX - 1, 8);
    read_draft(&draft, &dump, &budget);

    CHECK_NUMBER(dump.n_unloaded, 2);
    CHECK_NUMBER(dump.unloaded[0].base, 0x20000);
    CHECK_TEXT(dump.unloaded[0].name, "");
    CHECK_TEXT(dump.unloaded[1].name, "ab");
    CHECK_NUMBER(dump.unreadable[UNREADABLE_UNLOADED], 1);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_UNLOADED_NAME], 1);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_THREAD_NAME], 1);
    CHECK_NUMBER(n_unreadable(&dump), 3);
    done(&dump, &budget);
}

// Four regions of 16 bytes at 0x1000, 0x2000, ...; each byte is the number of its region. Which of them are read, as
// bits, and how many are counted as unreadable: only what is right is read.
static void check_memory64(const uint64_t sizes[4], uint32_t n_data, unsigned read, size_t n_bad)
{
    struct draft draft;
    struct minidump dump;
    struct budget budget;
    begin(&draft);
    uint32_t at = add_stream(&draft, 9, 16 + 4 * 16);
    put(&draft, at, 4, 8);
    put(&draft, at + 8, draft.used, 8);
    for (uint32_t i = 0; i < 4; i++) {
        put(&draft, at + 16 + 16 * i, 0x1000 * (i + 1), 8);
        put(&draft, at + 24 + 16 * i, sizes[i], 8);
    }
    for (uint32_t i = 0; i < n_data; i++) add_bytes(&draft, &(uint8_t){(uint8_t)(i / 16)}, 1);
    read_draft(&draft, &dump, &budget);

    for (uint32_t i = 0; i < 4; i++) {
        const struct memory *region = minidump_memory_at(&dump, 0x1000 * (i + 1));
        CHECK((region != NULL) == (read >> i & 1));
        if (!region) continue;
        CHECK_NUMBER(region->bytes.size, 16);
        CHECK_NUMBER(region->bytes.data[0], i);
        CHECK_NUMBER(region->bytes.data[15], i);
    }
    CHECK_NUMBER(dump.unreadable[UNREADABLE_MEMORY], n_bad);
    CHECK_NUMBER(n_unreadable(&dump), n_bad);
    done(&dump, &budget);
}

static void regions_of_full_memory_are_found_past_a_wrong_size(void)
{
    check_memory64((uint64_t[]){16, 16, 16, 16}, 64, 0xf, 0);
    check_memory64((uint64_t[]){UINT64_MAX, 16, 16, 16}, 64, 0xe, 1);
    check_memory64((uint64_t[]){16, 0x1001, 16, 16}, 64, 0xd, 1);
    check_memory64((uint64_t[]){16, 16, 16, UINT64_C(1) << 63}, 64, 0x7, 1);
    check_memory64((uint64_t[]){16, 0x1001, 16, UINT64_MAX}, 64, 0x1, 3);  // two of them
    check_memory64((uint64_t[]){16, 0x1001, 16, 16}, 63, 0x1, 3);          // and the file was cut off
    check_memory64((uint64_t[]){16, 0x1001, 16, 16}, 71, 0x1, 3);          // or goes on behind
    check_memory64((uint64_t[]){16, 16, 16, 16}, 63, 0x7, 1);
    check_memory64((uint64_t[]){16, 16, 16, 16}, 0, 0, 4);
}

static void of_two_streams_of_a_type_the_one_in_the_file_counts(void)
{
    struct draft draft;
    struct minidump dump;
    struct budget budget;
    struct slice stream;
    begin(&draft);
    add_stream(&draft, 7, 56);
    put(&draft, DIRECTORY_AT + 12 * 2 + 8, OUTSIDE, 4);
    read_draft(&draft, &dump, &budget);

    CHECK(minidump_stream(&dump, 7, &stream));
    CHECK(dump.cpu == &cpu_amd64);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_STREAM], 1);
    CHECK_NUMBER(n_unreadable(&dump), 1);
    done(&dump, &budget);
}

static void lines_that_are_no_mapping_or_no_limit_are_counted(void)
{
    static const char maps[] = "1000-2000 r-xp 0 08:01 12 /a\nSize: 4 kB\n\n3000-40\n5000-6000 r--p 0 08:01 12\n70";
    static const char limits[] = "Limit  Soft  Hard  Units\nMax a  1  unlimited  x\nMax b\nMax c  -1  2  x\nMax d  1  2\n";
    struct draft draft;
    struct minidump dump;
    struct budget budget;
    uint64_t n_maps;
    size_t n_bad;
    begin(&draft);
    memcpy(draft.bytes + add_stream(&draft, 0x47670009, sizeof maps - 1), maps, sizeof maps - 1);
    memcpy(draft.bytes + add_stream(&draft, 0x4d7a0003, sizeof limits - 1), limits, sizeof limits - 1);
    read_draft(&draft, &dump, &budget);

    CHECK(linux_map_count(&dump, &n_maps, &n_bad));
    CHECK_NUMBER(n_maps, 2);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_MAPPING], 2);
    CHECK_NUMBER(dump.unreadable[UNREADABLE_LIMIT], 2);
    CHECK_NUMBER(n_unreadable(&dump), 4);
    done(&dump, &budget);
}

static void one_thing_and_two_things_have_their_own_names(void)
{
    CHECK(strcmp(unreadable_name(UNREADABLE_MODULE_NAME, 1), "module name") == 0);
    CHECK(strcmp(unreadable_name(UNREADABLE_MODULE_NAME, 2), "module names") == 0);
    for (enum unreadable kind = 0; kind < N_UNREADABLE; kind++) {
        CHECK(unreadable_name(kind, 1) && unreadable_name(kind, 2));
    }
}

int main(void)
{
    invalid_utf16_is_replaced();
    a_string_outside_the_file_is_none();
    a_module_keeps_what_of_it_is_good();
    unloaded_modules_and_thread_names_are_read_past_a_bad_one();
    regions_of_full_memory_are_found_past_a_wrong_size();
    of_two_streams_of_a_type_the_one_in_the_file_counts();
    lines_that_are_no_mapping_or_no_limit_are_counted();
    one_thing_and_two_things_have_their_own_names();
    CHECK_DONE();
}
