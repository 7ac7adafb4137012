// The unwind rules of a symbol file: STACK CFI INIT lines, and the deltas that follow each.
#include "symbols.h"

// One "STACK CFI address rules" line.
static bool take_delta(struct cursor *at, uint64_t *address, struct slice *rules)
{
    struct cursor line = *at;
    if (!take_word(&line, "STACK CFI") || !take_space(&line) || !take_hex(&line, 16, address) || !take_space(&line) ||
        !take_rest(&line, rules))
        return false;
    *at = line;
    return true;
}

// Deltas that are not in order of address: collected, sorted by address and then by text, and used in that order.
static bool use_sorted_deltas(const struct symbols *symbols, struct cursor at, uint64_t address, rules_user use,
                              void *context)
{
    struct ranges deltas = {0};
    uint64_t from;
    struct slice rules;
    bool ok = true;
    while (ok && take_delta(&at, &from, &rules)) {
        ok = budget_work(symbols->budget, rules.size + 16) &&
             ranges_push(&deltas, symbols->budget, from, from, (uint64_t)(rules.data - symbols->text.data));
    }
    ok = ok && ranges_sort(&deltas, symbols->budget);
    for (size_t i = 0; ok && i < deltas.count && deltas.items[i].start <= address; i++) {
        // Among equal addresses, pick the smallest text that was not used yet (they are rare, and few).
        for (size_t k = i + 1; ok && k < deltas.count && deltas.items[k].start == deltas.items[i].start; k++) {
            struct cursor a = symbols_cursor(symbols, deltas.items[i].value), b = symbols_cursor(symbols, deltas.items[k].value);
            struct slice first, second;
            ok = take_rest(&a, &first) && take_rest(&b, &second) &&
                 budget_work(symbols->budget, first.size + second.size);
            if (ok && compare_slices(second, first) < 0) {
                struct range swap = deltas.items[i];
                deltas.items[i] = deltas.items[k];
                deltas.items[k] = swap;
            }
        }
        struct cursor line = symbols_cursor(symbols, deltas.items[i].value);
        ok = ok && take_rest(&line, &rules) && use(context, rules);
    }
    ranges_free(&deltas, symbols->budget);
    return ok;
}

// Whether the deltas' addresses only grow, as dump_syms writes them.
static bool deltas_in_order(const struct symbols *symbols, struct cursor at)
{
    uint64_t address, last = 0;
    struct slice rules;
    for (bool first = true; take_delta(&at, &address, &rules); first = false) {
        if (!first && address <= last) return false;
        if (!budget_work(symbols->budget, rules.size + 16)) return false;
        last = address;
    }
    return true;
}

bool symbols_rules(const struct symbols *symbols, uint64_t address, rules_user use, void *context)
{
    const struct range *found = ranges_find(&symbols->index.rules, address);
    if (!found) return false;
    struct cursor at = symbols_cursor(symbols, found->value);
    struct slice rules;
    uint64_t number;
    if (!take_word(&at, "STACK CFI INIT") || !take_space(&at) || !take_hex(&at, 16, &number) || !take_space(&at) ||
        !take_hex(&at, 8, &number) || !take_space(&at) || !take_rest(&at, &rules) || !use(context, rules))
        return false;
    if (!deltas_in_order(symbols, at)) return use_sorted_deltas(symbols, at, address, use, context);
    while (take_delta(&at, &number, &rules) && number <= address) {
        if (!budget_work(symbols->budget, rules.size + 16) || !use(context, rules)) return false;
    }
    return true;
}
