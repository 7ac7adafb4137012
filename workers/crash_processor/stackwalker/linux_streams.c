#include "linux_streams.h"

#include "symbol_text.h"

enum stream_type {
    LINUX_CPU_INFO = 0x47670003,
    LINUX_PROC_STATUS = 0x47670004,
    LINUX_LSB_RELEASE = 0x47670005,
    LINUX_MAPS = 0x47670009,
    LINUX_LIMITS = 0x4d7a0003,
};

// The next line of a text, without its end; false when there is none.
static bool next_line(struct slice *text, struct slice *line)
{
    if (text->size == 0) return false;
    const uint8_t *newline = memchr(text->data, '\n', text->size);
    size_t size = newline ? (size_t)(newline - text->data) : text->size;
    *line = (struct slice){text->data, size};
    size_t taken = newline ? size + 1 : size;
    *text = (struct slice){text->data + taken, text->size - taken};
    return true;
}

static struct slice trim(struct slice text)
{
    while (text.size && strchr(" \t\r\f\n", text.data[0]) && text.data[0]) {
        text = (struct slice){text.data + 1, text.size - 1};
    }
    while (text.size && strchr(" \t\r\f\n", text.data[text.size - 1]) && text.data[text.size - 1]) text.size--;
    return text;
}

static struct slice unquote(struct slice text)
{
    text = trim(text);
    if (text.size < 2 || text.data[0] != '"' || text.data[text.size - 1] != '"') return text;
    return (struct slice){text.data + 1, text.size - 2};
}

// The next "key SEPARATOR value" line, both trimmed; lines without separator are skipped.
static bool next_pair(struct slice *text, char separator, struct slice *key, struct slice *value)
{
    struct slice line;
    while (next_line(text, &line)) {
        const uint8_t *at = memchr(line.data, separator, line.size);
        if (!at) continue;
        *key = unquote((struct slice){line.data, (size_t)(at - line.data)});
        *value = unquote((struct slice){at + 1, (size_t)(line.data + line.size - at - 1)});
        return true;
    }
    return false;
}

bool linux_lsb_release(const struct minidump *dump, struct lsb_release *release)
{
    struct slice text, key, value, none = {(const uint8_t *)"", 0};
    if (!minidump_stream(dump, LINUX_LSB_RELEASE, &text)) return false;
    *release = (struct lsb_release){none, none, none, none};
    while (next_pair(&text, '=', &key, &value)) {
        if (slice_is(key, "DISTRIB_ID") || slice_is(key, "ID")) release->id = value;
        else if (slice_is(key, "DISTRIB_RELEASE") || slice_is(key, "VERSION_ID")) release->release = value;
        else if (slice_is(key, "DISTRIB_CODENAME") || slice_is(key, "VERSION_CODENAME")) release->codename = value;
        else if (slice_is(key, "DISTRIB_DESCRIPTION") || slice_is(key, "PRETTY_NAME")) release->description = value;
    }
    return true;
}

// The value of the first line with this key in a "key: value" stream.
static bool find_value(const struct minidump *dump, uint32_t type, const char *wanted, struct slice *value)
{
    struct slice text, key;
    if (!minidump_stream(dump, type, &text)) return false;
    while (next_pair(&text, ':', &key, value)) {
        if (slice_is(key, wanted)) return true;
    }
    *value = (struct slice){(const uint8_t *)"", 0};
    return true;
}

// A status without a readable Pid line counts as process 0, as for rust-minidump.
bool linux_pid(const struct minidump *dump, uint32_t *pid)
{
    struct slice value;
    if (!find_value(dump, LINUX_PROC_STATUS, "Pid", &value)) return false;
    struct cursor at = {value.data, value.data + value.size};
    if (value.size == 0 || !take_decimal(&at, pid) || at.at != at.end) *pid = 0;
    return true;
}

bool linux_microcode(const struct minidump *dump, uint64_t *version)
{
    struct slice value;
    if (!find_value(dump, LINUX_CPU_INFO, "microcode", &value) || value.size == 0) return false;
    struct cursor at = {value.data, value.data + value.size};
    return take_word(&at, "0x") && take_hex(&at, 16, version) && at.at == at.end;
}

// "start-end permissions offset major:minor inode [path]"
static bool is_mapping(struct slice line)
{
    struct cursor at = {line.data, line.data + line.size};
    uint64_t number;
    if (!take_hex(&at, 16, &number) || !take_word(&at, "-") || !take_hex(&at, 16, &number)) return false;
    if (!take_space(&at)) return false;
    for (int i = 0; i < 4; i++, at.at++) {
        if (at.at == at.end || !*at.at || !strchr("rwxsp-", *at.at)) return false;
    }
    return take_space(&at) && take_hex(&at, 16, &number) && take_space(&at) && take_hex(&at, 8, &number) &&
           take_word(&at, ":") && take_hex(&at, 8, &number) && take_space(&at) && at.at < at.end &&
           *at.at >= '0' && *at.at <= '9';
}

// One mapping a line; smaps adds attribute lines, which begin with a capital. A line that is neither may be the last
// one of a stream that was cut off.
bool linux_map_count(const struct minidump *dump, uint64_t *count, size_t *unreadable)
{
    struct slice text, line;
    if (!minidump_stream(dump, LINUX_MAPS, &text)) return false;
    *count = *unreadable = 0;
    while (next_line(&text, &line)) {
        if (line.size == 0 || (line.data[0] >= 'A' && line.data[0] <= 'Z')) continue;
        if (is_mapping(line)) ++*count;
        else ++*unreadable;
    }
    return true;
}

// The next column of a limits line: columns are two spaces or more apart.
static bool next_column(struct slice *line, struct slice *column)
{
    while (line->size >= 2 && line->data[0] == ' ' && line->data[1] == ' ') {
        *line = (struct slice){line->data + 2, line->size - 2};
    }
    size_t n = 0;
    while (n < line->size && !(n + 1 < line->size && line->data[n] == ' ' && line->data[n + 1] == ' ')) n++;
    *column = trim((struct slice){line->data, n});
    *line = (struct slice){line->data + n, line->size - n};
    return n > 0;
}

bool limit_number(struct slice text, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (text.data[i] < '0' || digit > 9 || *number > (UINT64_MAX - digit) / 10) {
            *number = 0;
            return false;
        }
        *number = *number * 10 + digit;
    }
    return text.size > 0;
}

static bool is_limit_value(struct slice text)
{
    uint64_t ignored;
    return slice_is(text, "unlimited") || limit_number(text, &ignored);
}

bool linux_limits(const struct minidump *dump, limit_user use, void *context, size_t *unreadable)
{
    struct slice text, line;
    bool header = true;
    *unreadable = 0;
    if (!minidump_stream(dump, LINUX_LIMITS, &text)) return false;
    while (next_line(&text, &line)) {
        struct process_limit limit;
        if (line.size == 0) continue;
        if (header) {
            header = false;
            continue;
        }
        if (!next_column(&line, &limit.name) || !next_column(&line, &limit.soft) || !next_column(&line, &limit.hard)) {
            ++*unreadable;
            continue;
        }
        *unreadable += !is_limit_value(limit.soft) || !is_limit_value(limit.hard);
        if (!next_column(&line, &limit.unit)) limit.unit = (struct slice){(const uint8_t *)"n/a", 3};
        use(context, &limit);
    }
    return true;
}

static void ignore_limit(void *context, const struct process_limit *limit)
{
    (void)context;
    (void)limit;
}

void linux_count_unreadable(struct minidump *dump)
{
    uint64_t ignored;
    linux_map_count(dump, &ignored, &dump->unreadable[UNREADABLE_MAPPING]);
    linux_limits(dump, ignore_limit, NULL, &dump->unreadable[UNREADABLE_LIMIT]);
}
