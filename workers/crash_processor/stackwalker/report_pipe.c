#include "reason.h"
#include "report.h"

// A field must not hold the separator, nor end the line: such bytes are left out.
static void field(struct output *output, struct slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c != '|' && c != '\n' && c != '\r' && c != 0) output_bytes(output, &text.data[i], 1);
    }
}

static void field_text(struct output *output, const char *text)
{
    if (text) field(output, (struct slice){(const uint8_t *)text, strlen(text)});
}

static void print_system(struct output *output, const struct minidump *dump)
{
    output_text(output, "OS|");
    field_text(output, dump->os_name);
    output_text(output, "|");
    field(output, dump->os_version);
    if (dump->os_build.data) {
        output_text(output, " ");
        field(output, dump->os_build);
    }
    output_text(output, "\nCPU|");
    output_text(output, dump->cpu->name);
    output_text(output, "|");
    field(output, dump->cpu_info);
    output_text(output, "|");
    output_number(output, dump->n_cpus);
    output_text(output, "\n");
}

static void print_crash(struct output *output, const struct analysis *analysis)
{
    char reason[REASON_ROOM];
    output_text(output, "Crash|");
    if (analysis->dump.exception.present) {
        crash_reason(&analysis->dump, reason);
        field_text(output, reason);
        output_text(output, "|");
        output_hex(output, crash_address(&analysis->dump), 1);
    } else {
        output_text(output, "No crash|");
    }
    output_text(output, "|");
    if (analysis->has_crashing_thread) output_number(output, analysis->crashing_thread);
    output_text(output, "\n");
}

static void print_module(struct output *output, const struct module *module, bool main_module)
{
    output_text(output, "Module|");
    field(output, module->file);
    output_text(output, "|");
    field_text(output, module->version);
    output_text(output, "|");
    field(output, path_leaf(module->debug_file));
    output_text(output, "|");
    field_text(output, module->debug_id ? module->debug_id : "000000000000000000000000000000000");
    output_text(output, "|");
    output_hex(output, module->base, 8);
    output_text(output, "|");
    output_hex(output, module->base + module->size - 1, 8);
    output_text(output, main_module ? "|1\n" : "|0\n");
}

// From the start of the line, the function or the module, whichever is the closest that is known, to where the
// thread goes on: the return address, not the call before it.
static uint64_t offset_of(const struct frame *frame)
{
    uint64_t address = frame->instruction + (frame->trust != TRUST_CONTEXT);
    if (frame->source.file.data) return address - frame->source.address;
    if (frame->has_function) return address - frame->function_base;
    bool names_module = frame->module && frame->module->file.size;  // an offset from nothing named says nothing
    return address - (names_module ? frame->module->base : 0);
}

static void print_frame(struct output *output, size_t thread, size_t number, const struct frame *frame)
{
    output_number(output, thread);
    output_text(output, "|");
    output_number(output, number);
    output_text(output, "|");
    if (frame->module) field(output, frame->module->file);
    output_text(output, "|");
    field(output, frame->function);
    output_text(output, "|");
    field(output, frame->source.file);
    output_text(output, "|");
    if (frame->source.file.data) output_number(output, frame->source.line);
    output_text(output, "|");
    output_hex(output, offset_of(frame), 1);
    output_text(output, "\n");
}

static void print_thread(struct output *output, const struct analysis *analysis, size_t i)
{
    const struct stack *stack = &analysis->stacks[i];
    for (size_t k = 0; k < stack->n_frames; k++) {
        print_frame(output, i, k, &analysis->frames.items[stack->first_frame + k]);
    }
}

void report_pipe(struct output *output, const struct analysis *analysis)
{
    const struct minidump *dump = &analysis->dump;
    print_system(output, dump);
    print_crash(output, analysis);
    for (size_t i = 0; i < dump->n_modules; i++) print_module(output, &dump->modules[i], i == 0);
    output_text(output, "\n");
    bool crashed = analysis->has_crashing_thread;
    if (crashed) print_thread(output, analysis, analysis->crashing_thread);  // first, as Breakpad prints it
    for (size_t i = 0; i < dump->n_threads; i++) {
        if (!crashed || i != analysis->crashing_thread) print_thread(output, analysis, i);
    }
    output_flush(output);
}
