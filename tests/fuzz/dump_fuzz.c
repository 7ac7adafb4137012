// libFuzzer target: any bytes as a minidump. Its modules find symbols by their path: good ones, broken ones, none.
#include "fixed_inputs.h"
#include "fuzz_target.h"

static bool open_symbols(void *context, const char *relative_path, struct slice *text)
{
    static const uint8_t broken[] = "MODULE a b c d\nFUNC zz\n";
    const struct slice *good = context;
    unsigned sum = 0;
    for (const char *c = relative_path; *c; c++) sum += (unsigned char)*c;
    if (sum % 8 == 0) return false;
    *text = sum % 8 == 1 ? (struct slice){broken, sizeof broken - 1} : *good;
    return true;
}

static void close_symbols(void *context, struct slice text)
{
    (void)context;
    (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    limit_cpu_of_input();
    struct slice dump = exact_copy(data, size), text = exact_copy(fixed_symbols, sizeof fixed_symbols);
    walk_and_report(dump, (struct symbol_source){open_symbols, close_symbols, &text});
    free_copy(dump);
    free_copy(text);
    return 0;
}
