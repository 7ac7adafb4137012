// Loaded and unloaded modules: names, and the ids by which symbol stores file them.
#include <stdio.h>

#include "minidump.h"

enum {
    MODULE_LIST = 4,
    UNLOADED_MODULE_LIST = 14,
    CV_PDB20 = 0x3031424e,  // "NB10"
    CV_PDB70 = 0x53445352,  // "RSDS"
    CV_ELF = 0x4270454c,    // "LEpB": Breakpad's build id
    GUID_BYTES = 16,
    ID_ROOM = 48,
};

static bool all_zero(struct slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i]) return false;
    }
    return true;
}

// 32 hex digits of a GUID, whose first three fields are little-endian numbers, then the age.
static void format_debug_id(char out[ID_ROOM], struct slice guid, uint32_t age)
{
    int n = snprintf(out, ID_ROOM, "%08X%04X%04X", u32_at(guid, 0), u16_at(guid, 4), u16_at(guid, 6));
    for (size_t i = 8; i < GUID_BYTES; i++) n += snprintf(out + n, ID_ROOM - (size_t)n, "%02X", guid.data[i]);
    snprintf(out + n, ID_ROOM - (size_t)n, "%x", age);
}

// Timestamp and image size: how Microsoft's symbol server files binaries.
static char *image_code_id(struct budget *budget, uint32_t timestamp, uint32_t size)
{
    char *out = budget_alloc(budget, ID_ROOM);
    if (out) snprintf(out, ID_ROOM, "%08x%x", timestamp, size);
    return out;
}

static struct slice until_nul(struct slice text)
{
    const uint8_t *nul = text.size ? memchr(text.data, 0, text.size) : NULL;
    if (nul) text.size = (size_t)(nul - text.data);
    return text;
}

static void read_pdb70(struct minidump *dump, struct module *module, struct slice cv, uint32_t timestamp)
{
    struct slice guid = {cv.data + 4, GUID_BYTES};
    module->debug_file = until_nul((struct slice){cv.data + 24, cv.size - 24});
    char *id = budget_alloc(dump->budget, ID_ROOM);
    if (id && !all_zero(guid)) {
        format_debug_id(id, guid, u32_at(cv, 20));
        module->debug_id = id;
    }
    module->code_id = image_code_id(dump->budget, timestamp, module->size);
    if (dump->os != OS_MAC && dump->os != OS_IOS) return;
    char *uuid = budget_alloc(dump->budget, ID_ROOM);  // macOS: the code id is the GUID itself
    if (!uuid) return;
    format_debug_id(uuid, guid, 0);
    for (size_t i = 0; i < 2 * GUID_BYTES; i++) {
        if (uuid[i] >= 'A' && uuid[i] <= 'F') uuid[i] = (char)(uuid[i] - 'A' + 'a');
    }
    uuid[2 * GUID_BYTES] = 0;
    module->code_id = uuid;
}

static void read_pdb20(struct minidump *dump, struct module *module, struct slice cv, uint32_t timestamp)
{
    module->debug_file = until_nul((struct slice){cv.data + 16, cv.size - 16});
    char *id = budget_alloc(dump->budget, ID_ROOM);
    if (id) snprintf(id, ID_ROOM, "%08X%x", u32_at(cv, 8), u32_at(cv, 12));
    module->debug_id = id;
    module->code_id = image_code_id(dump->budget, timestamp, module->size);
}

// A build id of any length; its first 16 bytes, filled up with zeros, stand in for a GUID. All zeros: no id (a
// mapped file that is no program).
static void read_elf(struct minidump *dump, struct module *module, struct slice build_id)
{
    module->debug_file = module->name;
    if (all_zero(build_id)) return;
    uint8_t guid[GUID_BYTES] = {0};
    memcpy(guid, build_id.data, build_id.size < GUID_BYTES ? build_id.size : GUID_BYTES);
    char *id = budget_alloc(dump->budget, ID_ROOM);
    char *code = budget_alloc(dump->budget, build_id.size * 2 + 1);
    if (!id || !code) return;
    format_debug_id(id, (struct slice){guid, GUID_BYTES}, 0);
    for (size_t i = 0; i < build_id.size; i++) {
        code[2 * i] = "0123456789abcdef"[build_id.data[i] >> 4];
        code[2 * i + 1] = "0123456789abcdef"[build_id.data[i] & 15];
    }
    module->debug_id = id;
    module->code_id = code;
}

// False when the module names an id, but it cannot be read.
static bool read_code_view(struct minidump *dump, struct module *module, struct slice entry)
{
    uint32_t timestamp = u32_at(entry, 16), size = u32_at(entry, 76), signature;
    struct slice cv;
    if (size == 0) return true;
    if (!slice_sub(dump->file, u32_at(entry, 80), size, &cv) || !read_u32(cv, 0, &signature)) return false;
    if (signature == CV_PDB70) {
        if (cv.size < 24) return false;
        read_pdb70(dump, module, cv, timestamp);
    } else if (signature == CV_PDB20) {
        if (cv.size < 16) return false;
        read_pdb20(dump, module, cv, timestamp);
    } else if (signature == CV_ELF) {
        read_elf(dump, module, (struct slice){cv.data + 4, cv.size - 4});
    }
    return true;
}

static void read_ids(struct minidump *dump, struct module *module, struct slice entry)
{
    bool whole = read_code_view(dump, module, entry);
    if (!whole) dump->unreadable[UNREADABLE_MODULE_ID]++;
    if (dump->os == OS_WINDOWS && (!whole || u32_at(entry, 76) == 0))
        module->code_id = image_code_id(dump->budget, u32_at(entry, 16), module->size);
}

// VS_FIXEDFILEINFO: Windows and macOS pack two numbers to a word, Breakpad on Linux uses four words.
static void read_version(struct minidump *dump, struct module *module, struct slice entry)
{
    if (u32_at(entry, 24) != 0xfeef04bd || u32_at(entry, 28) != 0x10000) return;
    uint32_t high = u32_at(entry, 32), low = u32_at(entry, 36);
    char *version = budget_alloc(dump->budget, ID_ROOM);
    if (!version) return;
    if (dump->os == OS_WINDOWS || dump->os == OS_MAC || dump->os == OS_IOS) {
        snprintf(version, ID_ROOM, "%u.%u.%u.%u", high >> 16, high & 0xffff, low >> 16, low & 0xffff);
    } else {
        snprintf(version, ID_ROOM, "%u.%u.%u.%u", high, low, u32_at(entry, 40), u32_at(entry, 44));
    }
    module->version = version;
}

// The name of an entry, as much of it as can be read: at worst the empty one.
static struct slice read_name(struct minidump *dump, struct slice entry, enum unreadable kind)
{
    struct slice name;
    if (!minidump_string(dump, u32_at(entry, 20), &name)) dump->unreadable[kind]++;
    return name.data ? name : (struct slice){(const uint8_t *)"", 0};
}

// Whether these are addresses at all. rust-minidump, too, leaves out a module of no size.
static bool is_area(uint64_t base, uint32_t size)
{
    return size > 0 && size <= UINT64_MAX - base;
}

// A module whose name or id cannot be read still has its place: its frames, and the others', need it. False when
// memory is out.
static bool read_module(struct minidump *dump, struct slice entry)
{
    uint64_t base = u64_at(entry, 0);
    uint32_t size = u32_at(entry, 8);
    if (!is_area(base, size)) {
        dump->unreadable[UNREADABLE_MODULE]++;
        return true;
    }
    struct module *module = &dump->modules[dump->n_modules];
    module->base = base;
    module->size = size;
    module->name = read_name(dump, entry, UNREADABLE_MODULE_NAME);
    module->file = path_leaf(module->name);
    read_ids(dump, module, entry);
    read_version(dump, module, entry);
    return ranges_add(&dump->module_ranges, dump->budget, base, size, dump->n_modules++);
}

void minidump_read_modules(struct minidump *dump)
{
    struct slice stream, entries;
    size_t n;
    if (!minidump_stream(dump, MODULE_LIST, &stream) || stream.size == 0) return;
    bool ok = minidump_list(stream, 108, MINIDUMP_MAX_MODULES, &entries, &n);
    if (ok) dump->modules = budget_alloc(dump->budget, n * sizeof *dump->modules);
    ok = ok && dump->modules;
    for (size_t i = 0; ok && i < n; i++) ok = read_module(dump, (struct slice){entries.data + i * 108, 108});
    if (ok && ranges_finish(&dump->module_ranges, dump->budget)) return;
    dump->unreadable[UNREADABLE_MODULE_LIST]++;
    dump->n_modules = 0;
    ranges_free(&dump->module_ranges, dump->budget);
}

// The entries of the list, whose header names its own length and theirs.
static bool unloaded_entries(struct slice stream, struct slice *entries, uint32_t *n)
{
    uint32_t header, entry_size;
    if (!read_u32(stream, 0, &header) || !read_u32(stream, 4, &entry_size) || !read_u32(stream, 8, n)) return false;
    if (header < 12 || entry_size != 24 || *n > MINIDUMP_MAX_MODULES) return false;
    return slice_sub(stream, header, (uint64_t)*n * 24, entries);
}

void minidump_read_unloaded_modules(struct minidump *dump)
{
    struct slice stream, entries;
    uint32_t n;
    if (!minidump_stream(dump, UNLOADED_MODULE_LIST, &stream) || stream.size == 0) return;
    if (unloaded_entries(stream, &entries, &n)) dump->unloaded = budget_alloc(dump->budget, n * sizeof *dump->unloaded);
    if (!dump->unloaded) {
        dump->unreadable[UNREADABLE_UNLOADED_LIST]++;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct slice entry = {entries.data + i * 24, 24};
        uint64_t base = u64_at(entry, 0);
        uint32_t size = u32_at(entry, 8);
        if (!is_area(base, size)) {
            dump->unreadable[UNREADABLE_UNLOADED]++;
            continue;
        }
        struct slice name = read_name(dump, entry, UNREADABLE_UNLOADED_NAME);
        dump->unloaded[dump->n_unloaded++] = (struct unloaded_module){base, size, u32_at(entry, 16), name};
    }
}
