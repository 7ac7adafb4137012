// What is printed is JSON whatever bytes a dump holds.
#include <fcntl.h>
#include <unistd.h>

#include "check.h"
#include "output.h"

static struct output output;
static char printed[1 << 18];

static void begin(void)
{
    char path[] = "/tmp/stackwalker-test-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0) abort();
    unlink(path);
    output_init(&output, fd);
}

static const char *end(void)
{
    output_flush(&output);
    ssize_t n = pread(output.fd, printed, sizeof printed - 1, 0);
    printed[n < 0 ? 0 : n] = 0;
    close(output.fd);
    return printed;
}

static const char *json_of(const char *bytes, size_t size)
{
    struct slice text = heap_slice(bytes, size);
    begin();
    json_slice(&output, text);
    heap_free(text);
    return end();
}

#define CHECK_JSON(bytes, expected) CHECK(strcmp(json_of(bytes, sizeof(bytes) - 1), expected) == 0)

static void strings_are_escaped(void)
{
    CHECK_JSON("", "\"\"");
    CHECK_JSON("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    CHECK_JSON("\n\t\r\b\f\x01\x1f\0", "\"\\n\\t\\r\\b\\f\\u0001\\u001f\\u0000\"");
    CHECK_JSON("gr\xc3\xbc\xc3\x9f \xf0\x9f\x92\xa5", "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x92\xa5\"");
}

static void bytes_that_are_no_utf8_are_replaced(void)
{
    CHECK_JSON("a\xff" "b", "\"a\xef\xbf\xbd" "b\"");
    CHECK_JSON("\xc3", "\"\xef\xbf\xbd\"");                            // cut off
    CHECK_JSON("\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\"");            // overlong
    CHECK_JSON("\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");  // a surrogate
    CHECK_JSON("\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");  // above U+10FFFF
}

static void commas_stand_between_values(void)
{
    begin();
    json_open(&output, '{');
    json_key(&output, "a");
    json_open(&output, '[');
    json_number(&output, UINT64_MAX);
    json_hex(&output, 0x12, 8);
    json_hex(&output, UINT64_MAX, 1);
    json_close(&output, ']');
    json_key(&output, "b");
    json_null(&output);
    json_key(&output, "c");
    json_text(&output, NULL);
    json_close(&output, '}');

    CHECK(strcmp(end(), "{\"a\":[18446744073709551615,\"0x00000012\",\"0xffffffffffffffff\"],\"b\":null,\"c\":null}") == 0);
}

static void more_than_the_buffer_holds_is_written(void)
{
    begin();
    for (int i = 0; i < 20000; i++) output_text(&output, "0123456789");
    const char *text = end();

    CHECK_NUMBER(strlen(text), 200000);
    CHECK(strcmp(text + 199990, "0123456789") == 0);
}

static void a_failed_write_is_told(void)
{
    output_init(&output, open("/dev/full", O_WRONLY | O_CLOEXEC));
    output_text(&output, "x");
    output_flush(&output);

    CHECK(output.error != 0);
    close(output.fd);
}

int main(void)
{
    strings_are_escaped();
    bytes_that_are_no_utf8_are_replaced();
    commas_stand_between_values();
    more_than_the_buffer_holds_is_written();
    a_failed_write_is_told();
    CHECK_DONE();
}
