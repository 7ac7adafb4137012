#include "ranges.h"

#include <string.h>

bool ranges_push(struct ranges *ranges, struct budget *budget, uint64_t start, uint64_t end, uint64_t value)
{
    if (ranges->count == ranges->capacity) {
        size_t capacity = ranges->capacity ? ranges->capacity * 2 : 256;
        struct range *grown =
            budget_resize(budget, ranges->items, ranges->capacity, capacity, sizeof *ranges->items);
        if (!grown) return false;
        ranges->items = grown;
        ranges->capacity = capacity;
    }
    if (ranges->count) {
        const struct range *last = &ranges->items[ranges->count - 1];
        if (start < last->start || (start == last->start && end < last->end)) ranges->unsorted = true;
    }
    ranges->items[ranges->count++] = (struct range){start, end, value};
    return true;
}

bool ranges_add(struct ranges *ranges, struct budget *budget, uint64_t start, uint64_t size, uint64_t value)
{
    if (size == 0 || start > UINT64_MAX - size) return true;
    return ranges_push(ranges, budget, start, start + size - 1, value);
}

static bool comes_before(const struct range *a, const struct range *b)
{
    return a->start != b->start ? a->start < b->start : a->end < b->end;
}

// Merge sort, bottom up: stable, and its time does not depend on what a file says.
bool ranges_sort(struct ranges *ranges, struct budget *budget)
{
    if (!ranges->unsorted) return true;
    size_t n = ranges->count;
    struct range *spare = budget_resize(budget, NULL, 0, n, sizeof *spare);
    if (!spare) return false;
    struct range *from = ranges->items, *to = spare;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t middle = low + width < n ? low + width : n;
            size_t high = middle + width < n ? middle + width : n;
            size_t left = low, right = middle;
            for (size_t k = low; k < high; k++) {
                bool take_right = right < high && (left >= middle || comes_before(&from[right], &from[left]));
                to[k] = from[take_right ? right++ : left++];
            }
        }
        struct range *swap = from;
        from = to;
        to = swap;
    }
    if (from != ranges->items) memcpy(ranges->items, from, n * sizeof *from);
    budget_free(budget, spare, n, sizeof *spare);
    ranges->unsorted = false;
    return true;
}

bool ranges_finish(struct ranges *ranges, struct budget *budget)
{
    if (!ranges_sort(ranges, budget)) return false;
    size_t kept = 0;
    for (size_t i = 0; i < ranges->count; i++) {
        if (kept && ranges->items[i].start <= ranges->items[kept - 1].end) continue;
        ranges->items[kept++] = ranges->items[i];
    }
    ranges->count = kept;
    return true;
}

const struct range *ranges_floor(const struct ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].start <= address) low = middle + 1;
        else high = middle;
    }
    return low ? &ranges->items[low - 1] : NULL;
}

const struct range *ranges_find(const struct ranges *ranges, uint64_t address)
{
    const struct range *candidate = ranges_floor(ranges, address);
    return candidate && address <= candidate->end ? candidate : NULL;
}

void ranges_free(struct ranges *ranges, struct budget *budget)
{
    budget_free(budget, ranges->items, ranges->capacity, sizeof *ranges->items);
    *ranges = (struct ranges){0};
}
