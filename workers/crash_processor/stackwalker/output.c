#include "output.h"

#include <errno.h>
#include <unistd.h>

void output_init(struct output *output, int fd)
{
    output->fd = fd;
    output->error = 0;
    output->comma = false;
    output->used = 0;
}

void output_flush(struct output *output)
{
    size_t done = 0;
    while (done < output->used && !output->error) {
        ssize_t n = write(output->fd, output->buffer + done, output->used - done);
        if (n >= 0) done += (size_t)n;
        else if (errno != EINTR) output->error = errno;
    }
    output->used = 0;
}

void output_bytes(struct output *output, const void *bytes, size_t size)
{
    const char *from = bytes;
    while (size) {
        if (output->used == sizeof output->buffer) output_flush(output);
        size_t room = sizeof output->buffer - output->used, n = size < room ? size : room;
        memcpy(output->buffer + output->used, from, n);
        output->used += n;
        from += n;
        size -= n;
    }
}

void output_text(struct output *output, const char *text)
{
    output_bytes(output, text, strlen(text));
}

void output_slice(struct output *output, struct slice text)
{
    output_bytes(output, text.data, text.size);
}

static void output_char(struct output *output, char c)
{
    output_bytes(output, &c, 1);
}

void output_number(struct output *output, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    output_bytes(output, digits + at, sizeof digits - at);
}

void output_hex(struct output *output, uint64_t number, unsigned digits)
{
    char text[18];
    size_t at = sizeof text;
    for (unsigned i = 0; i < digits || number; i++, number >>= 4) text[--at] = "0123456789abcdef"[number & 15];
    text[--at] = 'x';
    text[--at] = '0';
    output_bytes(output, text + at, sizeof text - at);
}

static void separate(struct output *output)
{
    if (output->comma) output_char(output, ',');
    output->comma = true;
}

void json_open(struct output *output, char bracket)
{
    separate(output);
    output_char(output, bracket);
    output->comma = false;
}

void json_close(struct output *output, char bracket)
{
    output_char(output, bracket);
    output->comma = true;
}

void json_key(struct output *output, const char *key)
{
    separate(output);
    output_char(output, '"');
    output_text(output, key);
    output_text(output, "\":");
    output->comma = false;
}

void json_null(struct output *output)
{
    separate(output);
    output_text(output, "null");
}

void json_bool(struct output *output, bool value)
{
    separate(output);
    output_text(output, value ? "true" : "false");
}

void json_number(struct output *output, uint64_t number)
{
    separate(output);
    output_number(output, number);
}

void json_hex(struct output *output, uint64_t number, unsigned digits)
{
    separate(output);
    output_char(output, '"');
    output_hex(output, number, digits);
    output_char(output, '"');
}

// Length of the UTF-8 sequence at the start of `text`, or 0 when it is none (also when overlong or a surrogate).
static size_t utf8_length(struct slice text)
{
    const uint8_t *s = text.data;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    if (n > text.size) return 0;
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0)) return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) return 0;
    return n;
}

static void output_escaped(struct output *output, uint8_t c)
{
    static const char hex[] = "0123456789abcdef";
    switch (c) {
    case '"': output_text(output, "\\\""); break;
    case '\\': output_text(output, "\\\\"); break;
    case '\b': output_text(output, "\\b"); break;
    case '\f': output_text(output, "\\f"); break;
    case '\n': output_text(output, "\\n"); break;
    case '\r': output_text(output, "\\r"); break;
    case '\t': output_text(output, "\\t"); break;
    default:
        output_text(output, "\\u00");
        output_char(output, hex[c >> 4]);
        output_char(output, hex[c & 15]);
    }
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

void json_slice(struct output *output, struct slice text)
{
    if (!text.data) {
        json_null(output);
        return;
    }
    separate(output);
    output_char(output, '"');
    while (text.size) {
        size_t n = 0;
        while (n < text.size && is_plain(text.data[n])) n++;
        if (n == 0 && text.data[0] >= 0x80) n = utf8_length(text);
        output_bytes(output, text.data, n);
        if (n == 0) {
            if (text.data[0] < 0x80) output_escaped(output, text.data[0]);
            else output_text(output, "\xef\xbf\xbd");
            n = 1;
        }
        text = (struct slice){text.data + n, text.size - n};
    }
    output_char(output, '"');
}

void json_text(struct output *output, const char *text)
{
    json_slice(output, (struct slice){(const uint8_t *)text, text ? strlen(text) : 0});
}
