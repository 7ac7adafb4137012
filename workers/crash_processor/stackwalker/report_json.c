#include <stdio.h>

#include "linux_streams.h"
#include "reason.h"
#include "report.h"

static void print_system(struct output *output, const struct minidump *dump)
{
    struct slice version = dump->os_version, build = dump->os_build;
    uint64_t microcode;
    uint8_t *both = build.data ? budget_alloc(dump->budget, version.size + build.size + 1) : NULL;
    if (both) {  // both are as long as the dump says
        memcpy(both, version.data, version.size);
        both[version.size] = ' ';
        memcpy(both + version.size + 1, build.data, build.size);
        version = (struct slice){both, version.size + 1 + build.size};
    }
    json_key(output, "system_info");
    json_open(output, '{');
    json_key(output, "os");
    json_text(output, dump->os_name);
    json_key(output, "os_ver");
    json_slice(output, version);
    json_key(output, "cpu_arch");
    json_text(output, dump->cpu->name);
    json_key(output, "cpu_info");
    json_slice(output, dump->cpu_info);
    json_key(output, "cpu_count");
    json_number(output, dump->n_cpus);
    json_key(output, "cpu_microcode_version");
    if (linux_microcode(dump, &microcode)) json_hex(output, microcode, 1);
    else json_null(output);
    json_close(output, '}');
}

static void null_fields(struct output *output, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_key(output, keys[i]);
        json_null(output);
    }
}

static void print_crash(struct output *output, const struct analysis *analysis)
{
    // rust-minidump fills these by disassembling the instruction that crashed; this program does not.
    static const char *const unknown[] = {
        "adjusted_address",           "instruction",        "memory_accesses",
        "instruction_pointer_update", "possible_bit_flips", "crash_inconsistencies", "assertion",
    };
    char reason[REASON_ROOM];
    json_key(output, "crash_info");
    json_open(output, '{');
    json_key(output, "type");
    if (analysis->dump.exception.present) {
        crash_reason(&analysis->dump, reason);
        json_text(output, reason);
        json_key(output, "address");
        report_address(output, analysis, crash_address(&analysis->dump));
    } else {
        json_null(output);
        json_key(output, "address");
        json_null(output);
    }
    null_fields(output, unknown, sizeof unknown / sizeof *unknown);
    json_key(output, "crashing_thread");
    if (analysis->has_crashing_thread) json_number(output, analysis->crashing_thread);
    else json_null(output);
    json_close(output, '}');
}

static void print_module(struct output *output, const struct analysis *analysis, const struct module *module)
{
    json_open(output, '{');
    json_key(output, "filename");
    json_slice(output, module->file);
    json_key(output, "base_addr");
    report_address(output, analysis, module->base);
    json_key(output, "end_addr");
    report_address(output, analysis, module->base + module->size);
    json_key(output, "debug_file");
    json_slice(output, module->debug_file.data ? path_leaf(module->debug_file) : (struct slice){(const uint8_t *)"", 0});
    json_key(output, "debug_id");
    json_text(output, module->debug_id ? module->debug_id : "000000000000000000000000000000000");
    json_key(output, "code_id");
    json_text(output, module->code_id ? module->code_id : "");
    json_key(output, "version");
    json_text(output, module->version);
    json_key(output, "missing_symbols");
    json_bool(output, module->symbols_looked_for && !module->symbols_loaded);
    json_key(output, "loaded_symbols");
    json_bool(output, module->symbols_loaded);
    json_key(output, "corrupt_symbols");
    json_bool(output, module->symbols_corrupt);
    json_key(output, "symbol_url");
    json_null(output);
    json_key(output, "cert_subject");
    json_null(output);
    json_close(output, '}');
}

static void print_unloaded_modules(struct output *output, const struct analysis *analysis)
{
    char code_id[24];
    json_key(output, "unloaded_modules");
    json_open(output, '[');
    for (size_t i = 0; i < analysis->dump.n_unloaded; i++) {
        const struct unloaded_module *module = &analysis->dump.unloaded[i];
        json_open(output, '{');
        json_key(output, "filename");
        json_slice(output, module->name);
        json_key(output, "base_addr");
        report_address(output, analysis, module->base);
        json_key(output, "end_addr");
        report_address(output, analysis, module->base + module->size);
        json_key(output, "code_id");
        snprintf(code_id, sizeof code_id, "%08x%x", module->timestamp, module->size);
        json_text(output, code_id);
        json_key(output, "cert_subject");
        json_null(output);
        json_close(output, '}');
    }
    json_close(output, ']');
}

static void print_process(struct output *output, const struct minidump *dump)
{
    uint32_t pid = dump->pid;
    json_key(output, "pid");
    if (dump->has_misc ? dump->has_pid : linux_pid(dump, &pid)) json_number(output, pid);
    else json_null(output);
    json_key(output, "process_uptime");
    if (dump->has_create_time)
        json_number(output, dump->timestamp > dump->create_time ? dump->timestamp - dump->create_time : 0);
    else json_null(output);
}

static void print_limit_value(struct output *output, const char *key, struct slice text)
{
    uint64_t number;
    json_key(output, key);
    limit_number(text, &number);
    if (slice_is(text, "unlimited")) json_slice(output, text);
    else json_number(output, number);
}

static void print_limit(void *context, const struct process_limit *limit)
{
    struct output *output = context;
    if (!output->comma) {  // the first one
        json_open(output, '{');
        json_key(output, "limits");
        json_open(output, '[');
    }
    json_open(output, '{');
    json_key(output, "name");
    json_slice(output, limit->name);
    print_limit_value(output, "soft", limit->soft);
    print_limit_value(output, "hard", limit->hard);
    json_key(output, "unit");
    json_slice(output, limit->unit);
    json_close(output, '}');
}

static void print_linux(struct output *output, const struct minidump *dump)
{
    struct lsb_release release;
    uint64_t n_maps;
    size_t ignored;  // counted by the analysis
    json_key(output, "lsb_release");
    if (linux_lsb_release(dump, &release)) {
        json_open(output, '{');
        json_key(output, "id");
        json_slice(output, release.id);
        json_key(output, "release");
        json_slice(output, release.release);
        json_key(output, "codename");
        json_slice(output, release.codename);
        json_key(output, "description");
        json_slice(output, release.description);
        json_close(output, '}');
    } else {
        json_null(output);
    }
    json_key(output, "linux_memory_map_count");
    if (linux_map_count(dump, &n_maps, &ignored)) json_number(output, n_maps);
    else json_null(output);
    json_key(output, "proc_limits");
    linux_limits(dump, print_limit, output, &ignored);
    if (output->comma) {
        json_close(output, ']');
        json_close(output, '}');
    } else {
        json_null(output);
    }
}

void report_json(struct output *output, const struct analysis *analysis)
{
    static const char *const unknown[] = {"soft_errors", "mac_crash_info", "mac_boot_args", "handles"};
    const struct minidump *dump = &analysis->dump;
    json_open(output, '{');
    json_key(output, "status");
    json_text(output, "OK");
    print_crash(output, analysis);
    print_system(output, dump);
    print_process(output, dump);
    print_linux(output, dump);
    json_key(output, "main_module");
    json_number(output, 0);
    json_key(output, "modules_contains_cert_info");
    json_bool(output, false);
    json_key(output, "modules");
    json_open(output, '[');
    for (size_t i = 0; i < dump->n_modules; i++) print_module(output, analysis, &dump->modules[i]);
    json_close(output, ']');
    print_unloaded_modules(output, analysis);
    report_threads(output, analysis);
    null_fields(output, unknown, sizeof unknown / sizeof *unknown);
    json_close(output, '}');
    output_text(output, "\n");
    output_flush(output);
}
