#include "analysis.h"

#include "linux_streams.h"

// The context of a thread's first frame. The exception's own context comes first: the one in the thread list was
// taken later, inside the handler that wrote the dump.
static bool first_context(struct analysis *analysis, size_t i, struct registers *context)
{
    const struct minidump *dump = &analysis->dump;
    const struct thread *thread = &dump->threads[i];
    uint32_t wanted = dump->exception.present ? dump->exception.thread_id : dump->requesting_thread_id;
    bool crashed = (dump->exception.present || dump->has_requesting_thread) && wanted == thread->id;
    if (crashed) {
        analysis->has_crashing_thread = true;
        analysis->crashing_thread = i;
        if (cpu_read_context(dump->cpu, dump->exception.context, context)) return true;
    }
    return cpu_read_context(dump->cpu, thread->context, context);
}

// The memory a thread's stack pointer points into: the thread's own stack, else a region of the dump.
static bool stack_memory(const struct minidump *dump, const struct thread *thread, uint64_t sp, struct memory *stack)
{
    uint64_t ignored;
    bool have = thread->stack.data != NULL;
    if (have) {
        *stack = (struct memory){thread->stack_start, thread->stack};
    } else {
        const struct memory *region = minidump_memory_at(dump, thread->stack_start);
        have = region != NULL;
        if (have) *stack = *region;
    }
    if (!have || !memory_read(stack, sp, 8, &ignored)) {
        const struct memory *region = minidump_memory_at(dump, sp);
        if (region) *stack = *region;
        have = have || region;
    }
    return have && stack->bytes.size > 0 && stack->base <= UINT64_MAX - stack->bytes.size;
}

// What GetLastError would have said: the 13th word of the thread's environment block.
static void read_last_error(const struct minidump *dump, const struct thread *thread, struct stack *stack)
{
    uint64_t offset = 13u * dump->cpu->width, value;
    if (thread->teb > UINT64_MAX - offset) return;
    const struct memory *region = minidump_memory_at(dump, thread->teb + offset);
    if (!region || !memory_read(region, thread->teb + offset, 4, &value)) return;
    stack->has_last_error = true;
    stack->last_error = (uint32_t)value;
}

static void walk_thread(struct analysis *analysis, size_t i)
{
    struct minidump *dump = &analysis->dump;
    const struct thread *thread = &dump->threads[i];
    struct stack *stack = &analysis->stacks[i];
    stack->first_frame = analysis->frames.count;
    if (dump->has_dump_thread && dump->dump_thread_id == thread->id) {
        stack->skipped = true;
        return;
    }
    read_last_error(dump, thread, stack);
    if (!first_context(analysis, i, &stack->context)) return;
    if (analysis->frames.count >= ANALYSIS_MAX_FRAMES) {
        analysis->cut_short = true;
        return;
    }
    struct memory memory;
    bool have = stack_memory(dump, thread, stack->context.value[dump->cpu->sp], &memory);
    struct walker walker = {dump, &analysis->store, &analysis->budget};
    if (!walk_stack(&walker, &stack->context, have ? &memory : NULL, &analysis->frames)) analysis->cut_short = true;
    stack->n_frames = analysis->frames.count - stack->first_frame;
}

const char *analyse(struct analysis *analysis, struct slice file, struct symbol_source source, uint64_t work)
{
    *analysis = (struct analysis){0};
    budget_init(&analysis->budget, work);
    analysis->store = (struct symbol_store){.source = source, .budget = &analysis->budget};
    const char *problem = minidump_read(&analysis->dump, &analysis->budget, file);
    if (problem) return problem;
    linux_count_unreadable(&analysis->dump);
    analysis->stacks = budget_alloc(&analysis->budget, analysis->dump.n_threads * sizeof *analysis->stacks);
    if (!analysis->stacks) return "out of memory";
    for (size_t i = 0; i < analysis->dump.n_threads; i++) walk_thread(analysis, i);
    if (analysis->budget.work_left == 0) analysis->cut_short = true;
    return NULL;
}

void analysis_free(struct analysis *analysis)
{
    symbol_store_free(&analysis->store);
    frames_free(&analysis->frames, &analysis->budget);
    if (analysis->dump.budget) minidump_free(&analysis->dump);
    budget_release(&analysis->budget);
}
