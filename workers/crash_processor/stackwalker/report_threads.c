// The part of the JSON report that tells of threads and their frames.
#include "reason.h"
#include "report.h"

void report_address(struct output *output, const struct analysis *analysis, uint64_t value)
{
    json_hex(output, value, analysis->dump.cpu->width * 2);
}

static void print_registers(struct output *output, const struct analysis *analysis, const struct registers *registers)
{
    const struct cpu *cpu = analysis->dump.cpu;
    json_key(output, "registers");
    json_open(output, '{');
    for (unsigned i = 0; i < cpu->n_registers; i++) {
        json_key(output, cpu->registers[i]);
        report_address(output, analysis, registers->value[i]);
    }
    json_close(output, '}');
}

static void print_inlines(struct output *output, const struct source *source)
{
    json_key(output, "inlines");
    if (source->n_inlines == 0) {
        json_null(output);
        return;
    }
    json_open(output, '[');
    for (size_t i = 0; i < source->n_inlines; i++) {
        const struct inline_call *call = &source->inlines[i];
        json_open(output, '{');
        json_key(output, "function");
        json_slice(output, call->function);
        json_key(output, "file");
        json_slice(output, call->file);
        json_key(output, "line");
        if (call->line) json_number(output, call->line);
        else json_null(output);
        json_close(output, '}');
    }
    json_close(output, ']');
}

enum { WORK_PER_UNLOADED = 16 };

// One look at all unloaded modules; false when there is no more work to spend.
static bool may_look(const struct minidump *dump)
{
    return budget_work(dump->budget, (uint64_t)dump->n_unloaded * WORK_PER_UNLOADED);
}

// Modules that were unloaded, but once lay where this frame is: each name once, with its offsets, both in order.
// A dump may have thousands at one place: what there is no work left for is left out.
static void print_unloaded_of_frame(struct output *output, const struct analysis *analysis, const struct frame *frame)
{
    const struct minidump *dump = &analysis->dump;
    const struct unloaded_module *before = NULL;
    json_key(output, "unloaded_modules");
    while (!frame->module && may_look(dump)) {
        const struct unloaded_module *next = NULL;
        for (size_t i = 0; i < dump->n_unloaded; i++) {
            const struct unloaded_module *item = &dump->unloaded[i];
            if (frame->instruction - item->base >= item->size) continue;
            if (before && compare_slices(item->name, before->name) <= 0) continue;
            if (!next || compare_slices(item->name, next->name) < 0) next = item;
        }
        if (!next) break;
        if (!before) json_open(output, '[');
        json_open(output, '{');
        json_key(output, "module");
        json_slice(output, next->name);
        json_key(output, "offsets");
        json_open(output, '[');
        uint64_t last = UINT64_MAX;
        for (bool more = true; more && may_look(dump);) {  // offsets grow: bases are tried from the highest down
            more = false;
            uint64_t best = UINT64_MAX;
            for (size_t i = 0; i < dump->n_unloaded; i++) {
                const struct unloaded_module *item = &dump->unloaded[i];
                uint64_t offset = frame->instruction - item->base;
                if (offset >= item->size || !slices_equal(item->name, next->name)) continue;
                if ((last == UINT64_MAX || offset > last) && offset < best) best = offset;
            }
            if (best != UINT64_MAX) {
                report_address(output, analysis, best);
                last = best;
                more = true;
            }
        }
        json_close(output, ']');
        json_close(output, '}');
        before = next;
    }
    if (before) json_close(output, ']');
    else json_null(output);
}

static void print_frame(struct output *output, const struct analysis *analysis, size_t number,
                        const struct frame *frame, const struct registers *registers)
{
    json_open(output, '{');
    json_key(output, "frame");
    json_number(output, number);
    json_key(output, "trust");
    json_text(output, trust_name(frame->trust));
    json_key(output, "offset");
    report_address(output, analysis, frame->instruction);
    json_key(output, "module");
    json_slice(output, frame->module ? frame->module->file : (struct slice){0});
    json_key(output, "module_offset");
    if (frame->module) report_address(output, analysis, frame->instruction - frame->module->base);
    else json_null(output);
    json_key(output, "function");
    json_slice(output, frame->function);
    json_key(output, "function_offset");
    if (frame->has_function) report_address(output, analysis, frame->instruction - frame->function_base);
    else json_null(output);
    json_key(output, "file");
    json_slice(output, frame->source.file);
    json_key(output, "line");
    if (frame->source.file.data) json_number(output, frame->source.line);
    else json_null(output);
    print_inlines(output, &frame->source);
    json_key(output, "missing_symbols");
    json_bool(output, !frame->has_function);
    print_unloaded_of_frame(output, analysis, frame);
    if (registers) print_registers(output, analysis, registers);
    json_close(output, '}');
}

// A thread's fields; the crashing thread is printed a second time on its own, with registers.
static void print_thread(struct output *output, const struct analysis *analysis, size_t i, bool alone)
{
    const struct thread *thread = &analysis->dump.threads[i];
    const struct stack *stack = &analysis->stacks[i];
    char error[REASON_ROOM];
    json_open(output, '{');
    if (alone) {
        json_key(output, "threads_index");
        json_number(output, i);
    }
    json_key(output, "thread_id");
    json_number(output, thread->id);
    json_key(output, "thread_name");
    json_slice(output, stack->skipped ? (struct slice){0} : thread->name);
    json_key(output, "last_error_value");
    if (stack->has_last_error) {
        windows_error(stack->last_error, error);
        json_text(output, error);
    } else {
        json_null(output);
    }
    json_key(output, "frame_count");
    json_number(output, stack->n_frames);
    json_key(output, "frames");
    json_open(output, '[');
    for (size_t k = 0; k < stack->n_frames; k++) {
        print_frame(output, analysis, k, &analysis->frames.items[stack->first_frame + k],
                    alone && k == 0 ? &stack->context : NULL);
    }
    json_close(output, ']');
    json_close(output, '}');
}

void report_threads(struct output *output, const struct analysis *analysis)
{
    json_key(output, "thread_count");
    json_number(output, analysis->dump.n_threads);
    json_key(output, "threads");
    json_open(output, '[');
    for (size_t i = 0; i < analysis->dump.n_threads; i++) print_thread(output, analysis, i, false);
    json_close(output, ']');
    if (analysis->has_crashing_thread && analysis->stacks[analysis->crashing_thread].n_frames) {
        json_key(output, "crashing_thread");
        print_thread(output, analysis, analysis->crashing_thread, true);
    }
}
