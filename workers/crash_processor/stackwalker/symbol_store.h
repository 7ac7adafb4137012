// Finds, opens and keeps the symbol files of a dump's modules: ROOT/<debug file>/<debug id>/<debug file>.sym
#ifndef SYMBOL_STORE_H
#define SYMBOL_STORE_H

#include "minidump.h"
#include "symbols.h"

// Where symbol texts come from: directories, or memory in tests and fuzzing. `open` is NULL when there are none;
// modules then do not count as lacking symbols, since nobody looked.
struct symbol_source {
    bool (*open)(void *context, const char *relative_path, struct slice *text);
    void (*close)(void *context, struct slice text);
    void *context;
};

struct symbol_roots {
    const char *const *paths;
    size_t count;
};

// Symbol files below directories; the first root that has the file wins. No roots, no symbols.
struct symbol_source symbol_directories(struct symbol_roots *roots);

struct symbol_store {
    struct symbol_source source;
    struct budget *budget;
    struct stored *files;  // opened, or known to be absent
};

// The symbols of a module, or NULL when there are none or they are corrupt; notes in the module what was found.
struct symbols *symbol_store_find(struct symbol_store *store, struct minidump *dump, struct module *module);

void symbol_store_free(struct symbol_store *store);

#endif
