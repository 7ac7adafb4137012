// libFuzzer target: any bytes as a symbol file, asked about its own addresses, then used to walk two dumps.
#include "fixed_inputs.h"
#include "fuzz_target.h"

enum { MAX_QUESTIONS = 48, MAX_WALKS = 3 };

static bool open_symbols(void *context, const char *relative_path, struct slice *text)
{
    (void)relative_path;
    *text = *(const struct slice *)context;
    return true;
}

static void close_symbols(void *context, struct slice text)
{
    (void)context;
    (void)text;
}

static bool read_rules(void *context, struct slice rules)
{
    struct cfi_rules *all = context;
    return cfi_add(all, rules);
}

static void ask(struct symbols *symbols, uint64_t address)
{
    struct function function;
    struct source source;
    if (symbols_function(symbols, address, &function)) symbols_source(symbols, &function, address, &source);
    struct cfi_rules rules = {.cpu = &cpu_amd64};
    symbols_rules(symbols, address, read_rules, &rules);
}

static void ask_about(struct symbols *symbols, const struct ranges *ranges)
{
    for (size_t i = 0; i < ranges->count && i < MAX_QUESTIONS; i++) {
        ask(symbols, ranges->items[i].start);
        ask(symbols, ranges->items[i].start + (ranges->items[i].end - ranges->items[i].start) / 2);
        ask(symbols, ranges->items[i].end);
        ask(symbols, ranges->items[i].end + 1);
    }
}

// A dump whose first frame is at this address of its first module.
static void walk_from(const uint8_t *bytes, size_t size, size_t ip_at, unsigned width, uint64_t address,
                      struct slice *text)
{
    struct slice dump = exact_copy(bytes, size);
    uint64_t ip = fixed_base + address;
    for (unsigned i = 0; i < width; i++) ((uint8_t *)(uintptr_t)dump.data)[ip_at + i] = (uint8_t)(ip >> (8 * i));
    walk_and_report(dump, (struct symbol_source){open_symbols, close_symbols, text});
    free_copy(dump);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    limit_cpu_of_input();
    static struct symbols symbols;
    struct budget budget;
    struct slice text = exact_copy(data, size);
    uint64_t addresses[MAX_WALKS] = {0x1002, 0x1002, 0x1002};
    size_t n_addresses = 1;
    budget_init(&budget, work_per_input);
    symbols_init(&symbols, &budget, text);
    if (!symbols.corrupt) {
        ask_about(&symbols, &symbols.index.functions);
        ask_about(&symbols, &symbols.index.publics);
        ask_about(&symbols, &symbols.index.rules);
        for (size_t i = 0; i < symbols.index.rules.count && n_addresses < MAX_WALKS; i++)
            addresses[n_addresses++] = symbols.index.rules.items[i].end;
    }
    symbols_free(&symbols);
    budget_release(&budget);
    for (size_t i = 0; i < n_addresses; i++) {
        walk_from(linux_amd64_dump, sizeof linux_amd64_dump, linux_amd64_ip, 8, addresses[i], &text);
        walk_from(windows_x86_dump, sizeof windows_x86_dump, windows_x86_ip, 4, addresses[i], &text);
    }
    free_copy(text);
    return 0;
}
