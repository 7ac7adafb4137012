#include "symbol_store.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct stored {
    struct stored *next;
    const char *path;
    bool found;
    struct symbols symbols;
};

// The file's text, read where it lies: of a large file only the pages that are looked at come into memory.
static bool map_file(const char *path, struct slice *text)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    struct stat status;
    bool ok = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    *text = (struct slice){NULL, 0};
    if (ok && status.st_size > 0) {
        void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = map != MAP_FAILED;
        if (ok) *text = (struct slice){map, (size_t)status.st_size};
    }
    close(fd);
    return ok;
}

static bool open_below_roots(void *context, const char *relative_path, struct slice *text)
{
    const struct symbol_roots *roots = context;
    char path[PATH_MAX];
    for (size_t i = 0; i < roots->count; i++) {
        int size = snprintf(path, sizeof path, "%s/%s", roots->paths[i], relative_path);
        if (size > 0 && (size_t)size < sizeof path && map_file(path, text)) return true;
    }
    return false;
}

static void unmap_file(void *context, struct slice text)
{
    (void)context;
    if (text.size) munmap((void *)(uintptr_t)text.data, text.size);
}

struct symbol_source symbol_directories(struct symbol_roots *roots)
{
    return (struct symbol_source){roots->count ? open_below_roots : NULL, unmap_file, roots};
}

static bool ends_in_pdb(struct slice name)
{
    if (name.size < 4 || name.data[name.size - 4] != '.') return false;
    const uint8_t *end = name.data + name.size;
    return (end[-3] | 0x20) == 'p' && (end[-2] | 0x20) == 'd' && (end[-1] | 0x20) == 'b';
}

// Names come from the dump: one that would leave the symbol directories has no symbols.
static bool is_safe_name(struct slice name)
{
    if (name.size == 0 || name.size > NAME_MAX || slice_is(name, ".") || slice_is(name, "..")) return false;
    return memchr(name.data, 0, name.size) == NULL;
}

// "name.pdb/ID/name.sym", "libname.so/ID/libname.so.sym"
static const char *relative_path(struct budget *budget, const struct module *module)
{
    if (!module->debug_id || !module->debug_file.data) return NULL;
    struct slice leaf = path_leaf(module->debug_file.size ? module->debug_file : module->name);
    if (!is_safe_name(leaf)) return NULL;
    int name = (int)leaf.size, stem = ends_in_pdb(leaf) ? name - 4 : name;
    size_t room = 2 * leaf.size + strlen(module->debug_id) + 8;
    char *path = budget_alloc(budget, room);
    if (path) {
        const char *text = (const char *)leaf.data;
        snprintf(path, room, "%.*s/%s/%.*s.sym", name, text, module->debug_id, stem, text);
    }
    return path;
}

static struct stored *stored_file(struct symbol_store *store, const char *path)
{
    for (struct stored *file = store->files; file; file = file->next) {
        if (strcmp(file->path, path) == 0) return file;
        if (!budget_work(store->budget, 16)) return NULL;
    }
    struct stored *file = budget_alloc(store->budget, sizeof *file);
    if (!file) return NULL;
    *file = (struct stored){.next = store->files, .path = path};
    store->files = file;
    struct slice text;
    file->found = store->source.open(store->source.context, path, &text);
    if (file->found) symbols_init(&file->symbols, store->budget, text);
    return file;
}

// What a module's symbols turned out to be is reported for all modules of that file name, as rust-minidump does.
// Modules without a name have nothing in common.
static void note(struct minidump *dump, const struct module *module, bool loaded, bool corrupt)
{
    for (size_t i = 0; i < dump->n_modules; i++) {
        struct module *other = &dump->modules[i];
        if (other != module && (!module->file.size || !slices_equal(other->file, module->file))) continue;
        other->symbols_looked_for = true;
        other->symbols_loaded = loaded;
        other->symbols_corrupt = corrupt;
    }
}

struct symbols *symbol_store_find(struct symbol_store *store, struct minidump *dump, struct module *module)
{
    if (module->symbols_tried || !store->source.open) return module->symbols;
    module->symbols_tried = true;
    if (!budget_work(store->budget, dump->n_modules)) return NULL;
    const char *path = relative_path(store->budget, module);
    struct stored *file = path ? stored_file(store, path) : NULL;
    bool found = file && file->found;
    if (found && !file->symbols.corrupt) module->symbols = &file->symbols;
    note(dump, module, found, found && file->symbols.corrupt);
    return module->symbols;
}

void symbol_store_free(struct symbol_store *store)
{
    for (struct stored *file = store->files; file; file = file->next) {
        if (!file->found) continue;
        struct slice text = file->symbols.text;
        symbols_free(&file->symbols);
        store->source.close(store->source.context, text);
    }
    store->files = NULL;
}
