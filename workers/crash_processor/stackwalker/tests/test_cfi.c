// STACK CFI rules: parsing, and the postfix expressions.
#include "cfi.h"
#include "check.h"

static const uint64_t words[] = {0x1111, 0x2222, 0x3333, 0x4444};

// rsp = 0x1000 (where `words` lie), rbp = 0x1010, rbx = 7, rip = 0x400000; all others 0.
static struct registers callee_registers(const struct cpu *cpu)
{
    struct registers registers = {.valid = (UINT32_C(1) << cpu->n_registers) - 1};
    registers.value[cpu->sp] = 0x1000;
    registers.value[cpu->bp] = 0x1010;
    registers.value[3] = 7;
    registers.value[cpu->ip] = 0x400000;
    return registers;
}

static bool run(const struct cpu *cpu, const char *text, struct registers *caller)
{
    struct slice line = heap_text(text), bytes = heap_slice(words, sizeof words);
    struct memory memory = {0x1000, bytes};
    struct cfi_rules rules = {.cpu = cpu};
    struct registers callee = callee_registers(cpu);
    bool ok = cfi_add(&rules, line) && cfi_evaluate(&rules, &memory, &callee, caller);
    heap_free(line);
    heap_free(bytes);
    return ok;
}

// The value of an expression, as the caller's r12; UINT64_MAX when it has none.
static uint64_t value_of(const char *expression)
{
    char text[256];
    struct registers caller;
    snprintf(text, sizeof text, ".cfa: $rsp 16 + .ra: 1 $r12: %s", expression);
    if (!run(&cpu_amd64, text, &caller) || !(caller.valid >> 12 & 1)) return UINT64_MAX;
    return caller.value[12];
}

static void the_usual_rules_give_the_caller(void)
{
    struct registers caller;
    CHECK(run(&cpu_amd64, ".cfa: $rsp 16 + .ra: .cfa 8 - ^ $rbp: .cfa 16 - ^", &caller));

    CHECK_NUMBER(caller.value[cpu_amd64.sp], 0x1010);
    CHECK_NUMBER(caller.value[cpu_amd64.ip], 0x2222);
    CHECK_NUMBER(caller.value[cpu_amd64.bp], 0x1111);
    CHECK_NUMBER(caller.value[3], 7);  // rbx is kept
    CHECK(caller.valid >> 3 & 1);
    CHECK(!(caller.valid & 1));  // rax is not
}

static void every_operator_works(void)
{
    CHECK_NUMBER(value_of("3 4 +"), 7);
    CHECK_NUMBER(value_of("10 4 -"), 6);
    CHECK_NUMBER(value_of("3 4 *"), 12);
    CHECK_NUMBER(value_of("13 4 /"), 3);
    CHECK_NUMBER(value_of("13 4 %"), 1);
    CHECK_NUMBER(value_of("23 8 @"), 16);
    CHECK_NUMBER(value_of("4104 ^"), 0x2222);
    CHECK_NUMBER(value_of(".cfa"), 0x1010);
    CHECK_NUMBER(value_of("$rbx"), 7);
    CHECK_NUMBER(value_of("rbx"), 7);
    CHECK_NUMBER(value_of("-8 20 +"), 12);
    CHECK_NUMBER(value_of("+5"), 5);
    CHECK_NUMBER(value_of("9223372036854775807"), INT64_MAX);
    CHECK_NUMBER(value_of("-9223372036854775808"), UINT64_C(1) << 63);
}

static void what_cannot_be_computed_is_unknown(void)
{
    static const char *const bad[] = {
        "1 0 /",     "1 0 %",    "8 0 @",  "8 3 @",   "+",      "1 +",        "1 2", "4128 ^",
        "4089 ^",    "0 8 - ^",  "^",      ".undef",  "$xmm0",  "bogus",      "12x", "-",
        "$",         "9223372036854775808",           "-9223372036854775809", "1 2 3 + + +",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (value_of(bad[i]) == UINT64_MAX) continue;
        fprintf(stderr, "\"%s\" has the value %" PRIu64 "\n", bad[i], value_of(bad[i]));
        check_failures++;
    }
}

static void an_expression_too_deep_fails(void)
{
    char text[2048] = "";
    for (int i = 0; i < CFI_STACK_DEPTH + 1; i++) strcat(text, "1 ");
    for (int i = 0; i < CFI_STACK_DEPTH; i++) strcat(text, "+ ");
    struct cfi_rules rules = {.cpu = &cpu_amd64};
    char line[4096];
    snprintf(line, sizeof line, ".cfa: %s .ra: 1", text);
    struct registers callee = callee_registers(&cpu_amd64), caller;
    struct memory none = {0, {(const uint8_t *)"", 0}};

    CHECK(cfi_add(&rules, (struct slice){(const uint8_t *)line, strlen(line)}));
    CHECK(!cfi_evaluate(&rules, &none, &callee, &caller));
}

static void address_and_return_address_are_needed(void)
{
    struct registers caller;
    CHECK(!run(&cpu_amd64, ".cfa: $rsp 16 +", &caller));
    CHECK(!run(&cpu_amd64, ".ra: 5", &caller));
    CHECK(!run(&cpu_amd64, ".cfa: .cfa 8 + .ra: 5", &caller));
    CHECK(!run(&cpu_amd64, ".cfa: $rsp 8 + .ra: .undef", &caller));
}

static void a_failing_rule_forgets_only_its_register(void)
{
    struct registers caller;
    CHECK(run(&cpu_amd64, ".cfa: $rsp 8 + .ra: 5 $rbx: .undef $xmm0: 1", &caller));

    CHECK(!(caller.valid >> 3 & 1));
    CHECK(caller.valid >> cpu_amd64.bp & 1);
}

static void malformed_lines_are_refused(void)
{
    static const char *const bad[] = {"", "   ", "5 .cfa: 1", ".cfa:", ".cfa: .ra: 1", ".cfa: 1 .ra:"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct slice line = heap_text(bad[i]);
        struct cfi_rules rules = {.cpu = &cpu_amd64};
        CHECK(!cfi_add(&rules, line));
        heap_free(line);
    }
}

static void a_later_line_replaces_a_rule(void)
{
    struct cfi_rules rules = {.cpu = &cpu_amd64};
    struct slice first = heap_text(".cfa: 1 .ra: 2"), second = heap_text(".cfa: 3");
    CHECK(cfi_add(&rules, first) && cfi_add(&rules, second));
    struct registers callee = callee_registers(&cpu_amd64), caller;
    struct memory none = {0, {(const uint8_t *)"", 0}};

    CHECK(cfi_evaluate(&rules, &none, &callee, &caller));
    CHECK_NUMBER(caller.value[cpu_amd64.sp], 3);
    CHECK_NUMBER(caller.value[cpu_amd64.ip], 2);
    heap_free(first);
    heap_free(second);
}

static void values_of_a_32_bit_cpu_must_fit(void)
{
    struct registers caller;
    CHECK(run(&cpu_x86, ".cfa: $esp 8 + .ra: .cfa 4 - ^", &caller));
    CHECK_NUMBER(caller.value[cpu_x86.ip], 0);  // the upper half of the first word
    CHECK(!run(&cpu_x86, ".cfa: 4294967296 .ra: 5", &caller));
}

int main(void)
{
    the_usual_rules_give_the_caller();
    every_operator_works();
    what_cannot_be_computed_is_unknown();
    an_expression_too_deep_fails();
    address_and_return_address_are_needed();
    a_failing_rule_forgets_only_its_register();
    malformed_lines_are_refused();
    a_later_line_replaces_a_rule();
    values_of_a_32_bit_cpu_must_fit();
    CHECK_DONE();
}
