#include "budget.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 32 * 1024 };

struct block {
    struct block *next;
    size_t used;
    size_t size;
    max_align_t data[];
};

void budget_init(struct budget *budget, uint64_t work)
{
    *budget = (struct budget){.bytes_left = BUDGET_MAX_BYTES, .work_left = work};
}

void *budget_alloc(struct budget *budget, size_t size)
{
    size_t rounded = (size + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
    if (rounded < size) return NULL;
    struct block *block = budget->blocks;
    if (!block || block->size - block->used < rounded) {
        size_t capacity = rounded > BLOCK_BYTES ? rounded : BLOCK_BYTES;
        if (capacity > budget->bytes_left || capacity > SIZE_MAX - sizeof *block) return NULL;
        block = calloc(1, sizeof *block + capacity);
        if (!block) return NULL;
        budget->bytes_left -= capacity;
        block->size = capacity;
        block->next = budget->blocks;
        budget->blocks = block;
    }
    void *given = (char *)block->data + block->used;
    block->used += rounded;
    return given;
}

void *budget_resize(struct budget *budget, void *block, size_t old_count, size_t count, size_t size)
{
    if (count > SIZE_MAX / size) return NULL;
    uint64_t old_bytes = (uint64_t)old_count * size;
    uint64_t bytes = (uint64_t)count * size;
    if (bytes > old_bytes && bytes - old_bytes > budget->bytes_left) return NULL;
    void *moved = realloc(block, (size_t)bytes);
    if (!moved) return NULL;
    budget->bytes_left += old_bytes;
    budget->bytes_left -= bytes;
    return moved;
}

void budget_free(struct budget *budget, void *block, size_t count, size_t size)
{
    free(block);
    budget->bytes_left += (uint64_t)count * size;
}

void budget_release(struct budget *budget)
{
    while (budget->blocks) {
        struct block *block = budget->blocks;
        budget->blocks = block->next;
        budget->bytes_left += block->size;
        free(block);
    }
}

bool budget_work(struct budget *budget, uint64_t amount)
{
    if (amount > budget->work_left) {
        budget->work_left = 0;
        return false;
    }
    budget->work_left -= amount;
    return true;
}
