// CPU and operating system of a dump.
#include <stdio.h>

#include "minidump.h"

enum { SYSTEM_INFO = 7 };

// Systems whose dumps Breakpad and Windows write; the others have no words of their own for crashes.
static const struct {
    uint32_t platform;
    enum os os;
    const char *name;
} systems[] = {
    {2, OS_WINDOWS, "Windows NT"},  {3, OS_WINDOWS, "Windows NT"}, {0x8101, OS_MAC, "Mac OS X"},
    {0x8102, OS_IOS, "iOS"},        {0x8201, OS_LINUX, "Linux"},   {0x8202, OS_OTHER, "Solaris"},
    {0x8203, OS_ANDROID, "Android"}, {0x8204, OS_OTHER, "PS3"},    {0x8205, OS_OTHER, "NaCl"},
};

static void read_os(struct minidump *dump, uint32_t platform)
{
    enum { ROOM = 24 };
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if (systems[i].platform != platform) continue;
        dump->os = systems[i].os;
        dump->os_name = systems[i].name;
        return;
    }
    char *name = budget_alloc(dump->budget, ROOM);
    if (name) snprintf(name, ROOM, "0x0x%06x", platform);  // so written by rust-minidump
    dump->os = OS_OTHER;
    dump->os_name = name;
}

static const struct cpu *cpu_of(uint16_t architecture)
{
    switch (architecture) {
    case 0:
    case 10: return &cpu_x86;
    case 9: return &cpu_amd64;
    default: return NULL;
    }
}

static const char *unsupported_cpu(uint16_t architecture)
{
    switch (architecture) {
    case 5: return "a dump of CPU arm; amd64 and x86 are supported";
    case 12:
    case 0x8003: return "a dump of CPU arm64; amd64 and x86 are supported";
    case 3:
    case 0x8002: return "a dump of CPU ppc; amd64 and x86 are supported";
    case 1:
    case 0x8004: return "a dump of CPU mips; amd64 and x86 are supported";
    case 0x8001: return "a dump of CPU sparc; amd64 and x86 are supported";
    default: return "a dump of an unknown CPU; amd64 and x86 are supported";
    }
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct slice trim(struct slice text)
{
    while (text.size && is_space(text.data[0])) text = (struct slice){text.data + 1, text.size - 1};
    while (text.size && is_space(text.data[text.size - 1])) text.size--;
    return text;
}

// Breakpad on Linux leaves the version at 0.0.0 and writes "Linux VERSION BUILD... ARCH [Linux/GNU]" as the build.
static void version_from_uname(struct minidump *dump, struct slice uname)
{
    const uint8_t *end = uname.data + uname.size;
    const uint8_t *version = memchr(uname.data, ' ', uname.size);
    if (!version) return;
    version++;
    const uint8_t *stop = memchr(version, ' ', (size_t)(end - version));
    if (!stop) stop = end;
    struct slice number = {version, (size_t)(stop - version)};
    if (slice_is(number, "0.0.0")) return;
    const uint8_t *build = stop < end ? stop + 1 : end;
    for (int drop = 1; drop && build < end; drop--) {  // the last word, and one more before "Linux/GNU"
        const uint8_t *word = end;
        while (word > build && word[-1] != ' ') word--;
        if (slice_is((struct slice){word, (size_t)(end - word)}, "Linux/GNU")) drop++;
        end = word > build ? word - 1 : build;
    }
    dump->os_version = number;
    dump->os_build = (struct slice){build, (size_t)(end - build)};
}

static void read_version(struct minidump *dump, struct slice stream)
{
    enum { ROOM = 40 };
    char *version = budget_alloc(dump->budget, ROOM);
    if (!version) return;
    int size = snprintf(version, ROOM, "%u.%u.%u", u32_at(stream, 8), u32_at(stream, 12), u32_at(stream, 16));
    dump->os_version = (struct slice){(const uint8_t *)version, (size_t)size};
    struct slice build;
    if (u32_at(stream, 24) == 0) return;
    if (!minidump_string(dump, u32_at(stream, 24), &build)) dump->unreadable[UNREADABLE_SYSTEM_VERSION]++;
    if (!build.data) return;
    struct slice trimmed = trim(build);
    if (trimmed.size) dump->os_build = trimmed;
    if (dump->os == OS_LINUX && slice_is(dump->os_version, "0.0.0")) version_from_uname(dump, build);
}

// "family 6 model 45 stepping 7", on x86 with the vendor's 12 letters before it.
static void read_cpu_info(struct minidump *dump, struct slice stream)
{
    enum { ROOM = 96 };
    char *info = budget_alloc(dump->budget, ROOM);
    if (!info) return;
    size_t n = 0;
    if (dump->cpu == &cpu_x86) {
        for (size_t i = 32; i < 44; i++) n += put_utf8((uint8_t *)info + n, stream.data[i]);
        info[n++] = ' ';
    }
    unsigned revision = u16_at(stream, 4);
    n += (size_t)snprintf(info + n, ROOM - n, "family %u model %u stepping %u", u16_at(stream, 2), revision >> 8,
                          revision & 0xff);
    dump->cpu_info = (struct slice){(const uint8_t *)info, n};
}

const char *minidump_read_system(struct minidump *dump)
{
    struct slice stream;
    if (!minidump_stream(dump, SYSTEM_INFO, &stream) || stream.size < 56) return "it has no system information";
    dump->architecture = u16_at(stream, 0);
    dump->n_cpus = stream.data[6];
    read_os(dump, u32_at(stream, 20));
    dump->cpu = cpu_of(dump->architecture);
    if (!dump->cpu) return unsupported_cpu(dump->architecture);
    read_version(dump, stream);
    read_cpu_info(dump, stream);
    return NULL;
}
