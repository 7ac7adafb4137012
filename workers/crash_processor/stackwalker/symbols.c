#include "symbols.h"

// Deeper than compilers inline, and what a call costs in work: its frame line is looked up, kept and printed.
enum { MAX_INLINE_DEPTH = 256, WORK_PER_INLINE = 256 };

struct inlined {
    uint64_t address;
    uint32_t size;
    uint32_t call_file;
    uint32_t call_line;
    uint32_t origin;
};

// The line and INLINE records of one function.
struct body {
    struct body *next;
    uint64_t offset;
    struct ranges lines;  // value: file << 32 | line
    struct ranges depths;  // start: depth of an inlined call, end: its address, value: its place in `inlined`
    struct inlined *inlined;
    size_t n_inlined;
    size_t capacity;
};

void symbols_init(struct symbols *symbols, struct budget *budget, struct slice text)
{
    *symbols = (struct symbols){.text = text, .budget = budget};
    symbols->corrupt = !symbol_index_build(&symbols->index, budget, text);
}

void symbols_free(struct symbols *symbols)
{
    symbol_index_free(&symbols->index, symbols->budget);
    ranges_free(&symbols->origins, symbols->budget);
    for (size_t i = 0; i < SYMBOLS_BODY_BUCKETS; i++) {
        for (struct body *body = symbols->bodies[i]; body; body = body->next) {
            ranges_free(&body->lines, symbols->budget);
            ranges_free(&body->depths, symbols->budget);
            budget_free(symbols->budget, body->inlined, body->capacity, sizeof *body->inlined);
        }
    }
}

static bool read_name(struct cursor line, const char *word, unsigned n_numbers, struct slice *name)
{
    uint64_t number;
    if (!take_word(&line, word) || !take_space(&line) || !take_multiple_mark(&line)) return false;
    for (unsigned i = 0; i < n_numbers; i++) {
        if (!take_hex(&line, 16, &number) || !take_space(&line)) return false;
    }
    return take_rest(&line, name);
}

// Of several PUBLICs at one address the last by name counts.
static bool public_function(const struct symbols *symbols, uint64_t address, struct function *function)
{
    const struct range *found = ranges_floor(&symbols->index.publics, address);
    if (!found) return false;
    const struct range *before = ranges_floor(&symbols->index.functions, address);
    if (before && found->start <= before->start) return false;
    if (!read_name(symbols_cursor(symbols, found->value), "PUBLIC", 2, &function->name)) return false;
    for (const struct range *other = found; other > symbols->index.publics.items && other[-1].start == found->start;) {
        other--;
        struct slice name;
        if (!budget_work(symbols->budget, 64)) return false;
        if (!read_name(symbols_cursor(symbols, other->value), "PUBLIC", 2, &name)) return false;
        if (compare_slices(name, function->name) > 0) function->name = name;
    }
    function->address = found->start;
    function->has_body = false;
    return true;
}

bool symbols_function(const struct symbols *symbols, uint64_t address, struct function *function)
{
    const struct range *found = ranges_find(&symbols->index.functions, address);
    if (!found) return public_function(symbols, address, function);
    if (!read_name(symbols_cursor(symbols, found->value), "FUNC", 3, &function->name)) return false;
    function->address = found->start;
    function->offset = found->value;
    function->has_body = true;
    return true;
}

static bool add_inlined(struct body *body, struct budget *budget, uint32_t depth, struct inlined inlined)
{
    if (body->n_inlined == body->capacity) {
        size_t capacity = body->capacity ? body->capacity * 2 : 8;
        struct inlined *grown = budget_resize(budget, body->inlined, body->capacity, capacity, sizeof *grown);
        if (!grown) return false;
        body->inlined = grown;
        body->capacity = capacity;
    }
    body->inlined[body->n_inlined] = inlined;
    return ranges_push(&body->depths, budget, depth, inlined.address, body->n_inlined++);
}

// "INLINE depth call_line call_file origin [address size]+"
static bool take_inline(struct cursor *line, struct body *body, struct budget *budget)
{
    struct inlined inlined;
    uint64_t size;
    uint32_t depth;
    if (!take_word(line, "INLINE") || !take_space(line) || !take_decimal(line, &depth) || !take_space(line) ||
        !take_decimal(line, &inlined.call_line) || !take_space(line) || !take_decimal(line, &inlined.call_file) ||
        !take_space(line) || !take_decimal(line, &inlined.origin))
        return false;
    do {
        if (!take_space(line) || !take_hex(line, 16, &inlined.address) || !take_space(line) || !take_hex(line, 8, &size))
            return false;
        inlined.size = (uint32_t)size;
        if (!add_inlined(body, budget, depth, inlined)) return false;
    } while (!take_newline(line));
    return true;
}

// "address size line file"
static bool take_line_record(struct cursor *line, struct body *body, struct budget *budget)
{
    uint64_t address, size;
    uint32_t number, file;
    return take_hex(line, 16, &address) && take_space(line) && take_hex(line, 8, &size) && take_space(line) &&
           take_decimal(line, &number) && take_space(line) && take_decimal(line, &file) && take_newline(line) &&
           ranges_add(&body->lines, budget, address, size, (uint64_t)file << 32 | number);
}

static bool take_body_line(struct cursor *at, struct body *body, struct budget *budget)
{
    struct cursor line = *at;
    struct slice rest;
    bool ok;
    if (line.at < line.end && *line.at == 'I') {
        ok = take_word(&line, "INLINE_ORIGIN") ? take_rest(&line, &rest) : take_inline(&line, body, budget);
    } else {
        ok = take_line_record(&line, body, budget);
    }
    if (ok) ok = budget_work(budget, (uint64_t)(line.at - at->at));
    if (ok) *at = line;
    return ok;
}

// Order of INLINE records that begin at one address in one depth.
static bool reaches_less(const struct inlined *a, const struct inlined *b)
{
    if (a->size != b->size) return a->size < b->size;
    if (a->call_file != b->call_file) return a->call_file < b->call_file;
    if (a->call_line != b->call_line) return a->call_line < b->call_line;
    return a->origin < b->origin;
}

// Sorts the INLINE records; of those that begin at one address in one depth the one that reaches furthest stays.
static bool finish_inlined(struct body *body, struct budget *budget)
{
    if (!ranges_sort(&body->depths, budget)) return false;
    size_t kept = 0;
    for (size_t i = 0; i < body->depths.count; i++) {
        struct range *item = &body->depths.items[i], *last = kept ? &body->depths.items[kept - 1] : NULL;
        if (!last || last->start != item->start || last->end != item->end) {
            body->depths.items[kept++] = *item;
        } else if (reaches_less(&body->inlined[last->value], &body->inlined[item->value])) {
            last->value = item->value;
        }
    }
    body->depths.count = kept;
    return true;
}

// Reads the records of a function once; frames of recursive functions ask again and again.
static struct body *body_of(struct symbols *symbols, const struct function *function)
{
    struct body **bucket = &symbols->bodies[function->offset / 16 % SYMBOLS_BODY_BUCKETS];
    for (struct body *body = *bucket; body; body = body->next) {
        if (body->offset == function->offset) return body;
        if (!budget_work(symbols->budget, 1)) return NULL;
    }
    struct body *body = budget_alloc(symbols->budget, sizeof *body);
    if (!body) return NULL;
    body->offset = function->offset;
    body->next = *bucket;
    *bucket = body;
    struct cursor at = symbols_cursor(symbols, function->offset);
    struct slice rest;
    if (take_rest(&at, &rest)) {
        while (take_body_line(&at, body, symbols->budget)) {}
    }
    bool ready = ranges_finish(&body->lines, symbols->budget) && finish_inlined(body, symbols->budget);
    return ready ? body : NULL;
}

// The inlined call at this depth whose code holds the address, or NULL.
static const struct inlined *inlined_at(const struct body *body, uint32_t depth, uint64_t address)
{
    size_t low = 0, high = body->depths.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct range *item = &body->depths.items[middle];
        if (item->start < depth || (item->start == depth && item->end <= address)) low = middle + 1;
        else high = middle;
    }
    if (low == 0 || body->depths.items[low - 1].start != depth) return NULL;
    const struct inlined *found = &body->inlined[body->depths.items[low - 1].value];
    return address - found->address < found->size ? found : NULL;
}

// The name behind a number in FILE or INLINE_ORIGIN lines; of several with one number the last counts.
static struct slice name_of(const struct symbols *symbols, const struct ranges *names, uint32_t number,
                            const char *word)
{
    struct slice name = {0};
    const struct range *found = ranges_find(names, number);
    if (!found) return name;
    struct cursor line = symbols_cursor(symbols, found->value);
    uint32_t ignored;
    if (!take_word(&line, word) || !take_space(&line) || !take_decimal(&line, &ignored) || !take_space(&line) ||
        !take_rest(&line, &name))
        return (struct slice){0};
    return name;
}

static struct slice file_name(const struct symbols *symbols, uint32_t number)
{
    return name_of(symbols, &symbols->index.files, number, "FILE");
}

// An INLINE record names the place of the call; a frame shows the place inside each function. So every name takes
// the call place of the next deeper record, and the innermost one the line record's.
static void fill_inlines(struct symbols *symbols, const struct body *body, uint64_t address, struct source *source)
{
    if (!symbols->has_origins) {
        symbols->has_origins = true;
        if (!symbol_index_origins(&symbols->origins, symbols->budget, symbols->text)) {
            ranges_free(&symbols->origins, symbols->budget);
            return;
        }
    }
    uint32_t n_depths = 0;
    while (n_depths < MAX_INLINE_DEPTH && inlined_at(body, n_depths, address)) {
        n_depths++;
        if (!budget_work(symbols->budget, WORK_PER_INLINE)) return;
    }
    source->inlines = budget_alloc(symbols->budget, n_depths * sizeof *source->inlines);
    if (!source->inlines) return;
    for (uint32_t depth = n_depths; depth-- > 0;) {
        struct inline_call call = {0};
        call.function =
            name_of(symbols, &symbols->origins, inlined_at(body, depth, address)->origin, "INLINE_ORIGIN");
        if (!call.function.data) continue;
        const struct inlined *deeper = inlined_at(body, depth + 1, address);
        const struct range *line = ranges_find(&body->lines, address);
        if (deeper) {
            call.file = file_name(symbols, deeper->call_file);
            call.line = deeper->call_line;
        } else if (line) {
            call.file = file_name(symbols, (uint32_t)(line->value >> 32));
            call.line = (uint32_t)line->value;
        }
        source->inlines[source->n_inlines++] = call;
    }
}

void symbols_source(struct symbols *symbols, const struct function *function, uint64_t address,
                    struct source *source)
{
    *source = (struct source){0};
    if (!function->has_body) return;
    struct body *body = body_of(symbols, function);
    if (!body) return;
    const struct inlined *outermost = inlined_at(body, 0, address);
    const struct range *line = ranges_find(&body->lines, address);
    if (outermost) {
        source->file = file_name(symbols, outermost->call_file);
        source->line = outermost->call_line;
        source->address = outermost->address;
        fill_inlines(symbols, body, address, source);
    } else if (line) {
        source->file = file_name(symbols, (uint32_t)(line->value >> 32));
        source->line = (uint32_t)line->value;
        source->address = line->start;
    }
}
