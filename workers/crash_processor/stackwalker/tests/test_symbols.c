// Looking addresses up in symbol text: functions, publics, lines, inlined calls, unwind rules.
#include "check.h"
#include "symbols.h"

struct fixture {
    struct budget budget;
    struct slice text;
    struct symbols symbols;
};

static void set_up(struct fixture *fixture, const char *text)
{
    budget_init(&fixture->budget, 1 << 20);
    fixture->text = heap_text(text);
    symbols_init(&fixture->symbols, &fixture->budget, fixture->text);
}

static void tear_down(struct fixture *fixture)
{
    symbols_free(&fixture->symbols);
    budget_release(&fixture->budget);
    CHECK_NUMBER(fixture->budget.bytes_left, BUDGET_MAX_BYTES);
    heap_free(fixture->text);
}

static struct slice name_at(struct fixture *fixture, uint64_t address)
{
    struct function function;
    bool found = symbols_function(&fixture->symbols, address, &function);
    return found ? function.name : (struct slice){(const uint8_t *)"(none)", 6};
}

static struct source source_at(struct fixture *fixture, uint64_t address)
{
    struct function function;
    struct source source = {0};
    if (symbols_function(&fixture->symbols, address, &function))
        symbols_source(&fixture->symbols, &function, address, &source);
    return source;
}

static void an_address_belongs_to_the_function_around_it(void)
{
    struct fixture f;
    set_up(&f, "MODULE Linux x86_64 0 a\nFUNC 2000 10 0 second\nFUNC 1000 100 0 first(int, char)\nFUNC 10f0 40 0 inside\n"
               "FUNC m 3000 1 0 third\r\nFUNC 4000 0 0 empty\n");

    CHECK(!f.symbols.corrupt);
    CHECK_TEXT(name_at(&f, 0xfff), "(none)");
    CHECK_TEXT(name_at(&f, 0x1000), "first(int, char)");
    CHECK_TEXT(name_at(&f, 0x10ff), "first(int, char)");
    CHECK_TEXT(name_at(&f, 0x1110), "(none)");  // "inside" overlaps the first one and is dropped whole
    CHECK_TEXT(name_at(&f, 0x200f), "second");
    CHECK_TEXT(name_at(&f, 0x3000), "third");
    CHECK_TEXT(name_at(&f, 0x4000), "(none)");
    tear_down(&f);
}

static void a_public_reaches_to_the_next_function(void)
{
    struct fixture f;
    set_up(&f, "MODULE Linux x86_64 0 a\nPUBLIC 900 0 early\nPUBLIC m 900 0 later_by_name\nFUNC 1000 10 0 func\n"
               "PUBLIC 1800 4 late\n");

    CHECK_TEXT(name_at(&f, 0x8ff), "(none)");
    CHECK_TEXT(name_at(&f, 0x900), "later_by_name");
    CHECK_TEXT(name_at(&f, 0xfff), "later_by_name");
    CHECK_TEXT(name_at(&f, 0x1010), "(none)");
    CHECK_TEXT(name_at(&f, UINT64_MAX), "late");
    tear_down(&f);
}

static void a_line_is_found_in_its_function(void)
{
    struct fixture f;
    set_up(&f, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nFILE 7 dir/b b.c\nFUNC 1000 100 0 f\n1000 10 42 7\n1010 0 1 0\n"
               "1010 10 43 0\n1030 10 44 9\nFUNC 2000 10 0 g\nFUNC FADE 10 0 h\nFADE 10 5 0\n");

    CHECK_TEXT(source_at(&f, 0x100f).file, "dir/b b.c");
    CHECK_NUMBER(source_at(&f, 0x100f).line, 42);
    CHECK_NUMBER(source_at(&f, 0x100f).address, 0x1000);
    CHECK_NUMBER(source_at(&f, 0x1010).line, 43);
    CHECK(source_at(&f, 0x1020).file.data == NULL);
    CHECK(source_at(&f, 0x1030).file.data == NULL);  // there is no file 9
    CHECK(source_at(&f, 0x2000).file.data == NULL);
    CHECK_NUMBER(source_at(&f, 0xfae0).line, 5);
    tear_down(&f);
}

static void inlined_calls_are_told_innermost_first(void)
{
    struct fixture f;
    set_up(&f, "MODULE Linux x86_64 0 a\nFILE 0 a.c\nFILE 1 b.c\nINLINE_ORIGIN 0 outer()\nINLINE_ORIGIN 1 inner()\n"
               "FUNC 1000 100 0 f\nINLINE 1 20 1 1 1010 10\nINLINE 0 10 0 0 1000 8 1008 30\n1000 100 30 1\n");
    struct source source = source_at(&f, 0x1018);

    CHECK_TEXT(source.file, "a.c");
    CHECK_NUMBER(source.line, 10);
    CHECK_NUMBER(source.n_inlines, 2);
    CHECK_TEXT(source.inlines[0].function, "inner()");
    CHECK_NUMBER(source.inlines[0].line, 30);
    CHECK_TEXT(source.inlines[1].function, "outer()");
    CHECK_NUMBER(source.inlines[1].line, 20);
    CHECK_TEXT(source.inlines[1].file, "b.c");
    CHECK_NUMBER(source_at(&f, 0x1004).n_inlines, 1);
    CHECK_NUMBER(source_at(&f, 0x1040).n_inlines, 0);
    CHECK_NUMBER(source_at(&f, 0x1040).line, 30);
    tear_down(&f);
}

struct collected {
    char text[256];
};

static bool collect(void *context, struct slice rules)
{
    struct collected *collected = context;
    size_t used = strlen(collected->text);
    snprintf(collected->text + used, sizeof collected->text - used, "%.*s;", (int)rules.size, (const char *)rules.data);
    return true;
}

static const char *rules_at(struct fixture *fixture, uint64_t address, struct collected *collected)
{
    collected->text[0] = 0;
    return symbols_rules(&fixture->symbols, address, collect, collected) ? collected->text : "(none)";
}

static void rules_grow_up_to_the_address(void)
{
    struct fixture f;
    struct collected c;
    set_up(&f, "MODULE Linux x86_64 0 a\nSTACK CFI INIT 1000 100 .cfa: 1\nSTACK CFI 1001 .cfa: 2\nSTACK CFI 1004 .cfa: 3\n"
               "STACK CFI INIT 2000 10 .cfa: 4\nSTACK CFI 2008 c: 1\nSTACK CFI 2004 b: 1\nSTACK CFI 2004 a: 1\n");

    CHECK(strcmp(rules_at(&f, 0x1000, &c), ".cfa: 1;") == 0);
    CHECK(strcmp(rules_at(&f, 0x1003, &c), ".cfa: 1;.cfa: 2;") == 0);
    CHECK(strcmp(rules_at(&f, 0x10ff, &c), ".cfa: 1;.cfa: 2;.cfa: 3;") == 0);
    CHECK(strcmp(rules_at(&f, 0x1100, &c), "(none)") == 0);
    CHECK(strcmp(rules_at(&f, 0x2004, &c), ".cfa: 4;a: 1;b: 1;") == 0);  // unsorted deltas are sorted
    tear_down(&f);
}

static void corrupt_texts_are_refused(void)
{
    static const char *const bad[] = {
        "", "MODULE a b c d", "FUNC 1000\n", "FUNC x 10 0 f\n", "FUNC 1000 10 0\n", "PUBLIC 5\n",
        "STACK CFI INIT 10 .cfa: 1\n", "FILE a.c\n", "INFO x\nMODULE Linux x86_64 0 a\n",
        "FUNC 11112222333344445 10 0 f\n", "FILE 4294967296 a.c\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct fixture f;
        set_up(&f, bad[i]);
        if (!f.symbols.corrupt) fprintf(stderr, "not refused: %s\n", bad[i]);
        CHECK(f.symbols.corrupt);
        tear_down(&f);
    }
}

static void records_are_found_at_any_alignment(void)
{
    for (size_t padding = 0; padding < 40; padding++) {
        char text[256];
        struct fixture f;
        snprintf(text, sizeof text, "MODULE Linux x86_64 0 %.*s\nFUNC 1000 10 0 f\n1000 10 3 0\nPUBLIC 2000 0 p\n",
                 (int)padding + 1, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        set_up(&f, text);
        CHECK_TEXT(name_at(&f, 0x1001), "f");
        CHECK_TEXT(name_at(&f, 0x2000), "p");
        tear_down(&f);
    }
}

int main(void)
{
    an_address_belongs_to_the_function_around_it();
    a_public_reaches_to_the_next_function();
    a_line_is_found_in_its_function();
    inlined_calls_are_told_innermost_first();
    rules_grow_up_to_the_address();
    corrupt_texts_are_refused();
    records_are_found_at_any_alignment();
    CHECK_DONE();
}
