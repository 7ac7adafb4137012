// libFuzzer target: any bytes as a minidump, and any bytes as the symbol file of all its modules.
//
// The input's first four bytes (little-endian) say how long the dump is; what follows it is symbol text. Both
// reports are printed to /dev/null, so that the printing of hostile names is tried as well.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "report.h"

// A few seconds of walking are fine for a real dump, but slow a fuzzer down to nothing.
static const uint64_t work_per_input = UINT64_C(1) << 22;

static bool open_symbols(void *context, const char *relative_path, struct slice *text)
{
    (void)relative_path;
    *text = *(const struct slice *)context;
    return true;
}

static void close_symbols(void *context, struct slice text)
{
    (void)context;
    (void)text;
}

// A copy without a spare byte at its end, so that reading one too far is seen.
static struct slice exact_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size) memcpy(copy, data, size);
    return (struct slice){copy, size};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct output output;
    static struct analysis analysis;
    static int null_fd = -1;
    if (null_fd < 0) null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    uint32_t dump_size;
    struct slice input = {data, size};
    if (!read_u32(input, 0, &dump_size)) return 0;
    size_t room = size - 4, n = dump_size < room ? dump_size : room;
    struct slice dump = exact_copy(data + 4, n), text = exact_copy(data + 4 + n, room - n);

    struct symbol_source source = {open_symbols, close_symbols, &text};
    if (!analyse(&analysis, dump, source, work_per_input)) {
        output_init(&output, null_fd);
        report_json(&output, &analysis);
        output_init(&output, null_fd);
        report_pipe(&output, &analysis);
    }
    analysis_free(&analysis);
    free((void *)(uintptr_t)dump.data);
    free((void *)(uintptr_t)text.data);
    return 0;
}
