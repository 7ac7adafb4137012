// Nothing is read that is not there, whatever offset or size is asked for.
#include "check.h"
#include "ranges.h"

static void a_part_must_lie_within_the_whole(void)
{
    struct slice all = heap_slice("0123456789", 10), part;

    CHECK(slice_sub(all, 0, 10, &part));
    CHECK(slice_sub(all, 10, 0, &part));
    CHECK(!slice_sub(all, 0, 11, &part));
    CHECK(!slice_sub(all, 11, 0, &part));
    CHECK(!slice_sub(all, 5, UINT64_MAX, &part));
    CHECK(!slice_sub(all, UINT64_MAX, 1, &part));
    CHECK(!slice_sub(all, UINT64_MAX - 4, 10, &part));
    heap_free(all);
}

static void numbers_are_little_endian_and_whole(void)
{
    struct slice all = heap_slice("\x01\x02\x03\x04\x05\x06\x07\x08\x09", 9);
    uint32_t small;
    uint64_t large;

    CHECK(read_u32(all, 5, &small));
    CHECK_NUMBER(small, 0x09080706);
    CHECK(!read_u32(all, 6, &small));
    CHECK(read_u64(all, 1, &large));
    CHECK_NUMBER(large, UINT64_C(0x0908070605040302));
    CHECK(!read_u64(all, 2, &large));
    heap_free(all);
}

static void of_overlapping_ranges_the_first_stays(void)
{
    struct budget budget;
    budget_init(&budget, 1000);
    struct ranges ranges = {0};
    ranges_add(&ranges, &budget, 300, 100, 3);
    ranges_add(&ranges, &budget, 100, 100, 1);
    ranges_add(&ranges, &budget, 199, 10, 2);  // begins in the first one's last byte
    ranges_add(&ranges, &budget, 300, 50, 4);  // the same start, but shorter
    ranges_add(&ranges, &budget, 500, 0, 5);
    ranges_add(&ranges, &budget, UINT64_MAX - 1, 10, 6);
    CHECK(ranges_finish(&ranges, &budget));

    CHECK_NUMBER(ranges.count, 2);
    CHECK(ranges_find(&ranges, 99) == NULL);
    CHECK_NUMBER(ranges_find(&ranges, 199)->value, 1);
    CHECK(ranges_find(&ranges, 200) == NULL);
    CHECK_NUMBER(ranges_find(&ranges, 349)->value, 4);
    CHECK(ranges_find(&ranges, 350) == NULL);
    CHECK_NUMBER(ranges_floor(&ranges, UINT64_MAX)->value, 4);
    ranges_free(&ranges, &budget);
    budget_release(&budget);
    CHECK_NUMBER(budget.bytes_left, BUDGET_MAX_BYTES);
}

static void equal_ranges_keep_their_order(void)
{
    struct budget budget;
    budget_init(&budget, 1000);
    struct ranges ranges = {0};
    for (uint64_t i = 0; i < 1000; i++) ranges_push(&ranges, &budget, 1000 - i / 10, 0, i);
    CHECK(ranges_sort(&ranges, &budget));

    for (size_t i = 1; i < ranges.count; i++) {
        const struct range *a = &ranges.items[i - 1], *b = &ranges.items[i];
        CHECK(a->start < b->start || (a->start == b->start && a->value < b->value));
    }
    ranges_free(&ranges, &budget);
}

static void a_budget_gives_no_more_than_it_has(void)
{
    struct budget budget;
    budget_init(&budget, 10);
    budget.bytes_left = 100 * 1024;

    CHECK(budget_alloc(&budget, 1024 * 1024) == NULL);
    CHECK(budget_alloc(&budget, SIZE_MAX - 3) == NULL);
    CHECK(budget_resize(&budget, NULL, 0, SIZE_MAX / 4, 8) == NULL);
    CHECK(budget_alloc(&budget, 64 * 1024) != NULL);
    CHECK(budget_alloc(&budget, 64 * 1024) == NULL);
    CHECK(budget_work(&budget, 10));
    CHECK(!budget_work(&budget, 1));
    budget_release(&budget);
}

int main(void)
{
    a_part_must_lie_within_the_whole();
    numbers_are_little_endian_and_whole();
    of_overlapping_ranges_the_first_stays();
    equal_ranges_keep_their_order();
    a_budget_gives_no_more_than_it_has();
    CHECK_DONE();
}
