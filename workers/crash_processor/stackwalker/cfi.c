#include "cfi.h"

#include "symbol_text.h"

enum { SLOT_CFA = CPU_MAX_REGISTERS, SLOT_RA = CPU_MAX_REGISTERS + 1 };

bool memory_read(const struct memory *memory, uint64_t address, unsigned width, uint64_t *value)
{
    struct slice part;
    if (address < memory->base || !slice_sub(memory->bytes, address - memory->base, width, &part)) return false;
    *value = little_endian(part.data, width);
    return true;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

// The next word of a line, or false at its end.
static bool next_token(struct cursor *line, struct slice *token)
{
    while (line->at < line->end && is_blank(*line->at)) line->at++;
    const uint8_t *start = line->at;
    while (line->at < line->end && !is_blank(*line->at)) line->at++;
    *token = (struct slice){start, (size_t)(line->at - start)};
    return token->size > 0;
}

// The slot of "REG" in "REG:"; -1 for a register this CPU does not have, whose rule is read and dropped.
static int slot_of(const struct cpu *cpu, struct slice name)
{
    if (slice_is(name, ".cfa")) return SLOT_CFA;
    if (slice_is(name, ".ra")) return SLOT_RA;
    if (name.size && name.data[0] == '$') name = (struct slice){name.data + 1, name.size - 1};
    return cpu_register(cpu, name);
}

bool cfi_add(struct cfi_rules *rules, struct slice line)
{
    struct cursor at = {line.data, line.data + line.size};
    struct slice token, expression = {0};
    bool have_register = false;
    int slot = -1;
    for (;;) {
        bool more = next_token(&at, &token);
        if (more && token.data[token.size - 1] != ':') {
            if (!have_register) return false;
            if (!expression.data) expression.data = token.data;
            expression.size = (size_t)(token.data + token.size - expression.data);
            continue;
        }
        if (have_register || !more) {  // the end of a rule
            if (!expression.data) return false;
            if (slot >= 0) rules->expressions[slot] = expression;
        }
        if (!more) return true;
        have_register = true;
        slot = slot_of(rules->cpu, (struct slice){token.data, token.size - 1});
        expression = (struct slice){0};
    }
}

struct operands {
    uint64_t value[CFI_STACK_DEPTH];
    unsigned count;
};

static bool push(struct operands *operands, uint64_t value)
{
    if (operands->count == CFI_STACK_DEPTH) return false;
    operands->value[operands->count++] = value;
    return true;
}

static bool apply_binary(struct operands *operands, uint8_t operation)
{
    if (operands->count < 2) return false;
    uint64_t right = operands->value[--operands->count];
    uint64_t *left = &operands->value[operands->count - 1];
    switch (operation) {
    case '+': *left += right; return true;
    case '-': *left -= right; return true;
    case '*': *left *= right; return true;
    case '/':
        if (right == 0) return false;
        *left /= right;
        return true;
    case '%':
        if (right == 0) return false;
        *left %= right;
        return true;
    default:  // '@'
        if (right == 0 || (right & (right - 1)) != 0) return false;
        *left &= ~(right - 1);
        return true;
    }
}

// A signed decimal that fits 64 bits.
static bool parse_number(struct slice token, uint64_t *value)
{
    bool negative = token.data[0] == '-';
    size_t i = negative || token.data[0] == '+';
    uint64_t limit = negative ? UINT64_C(1) << 63 : INT64_MAX, sum = 0;
    if (i == token.size) return false;
    for (; i < token.size; i++) {
        if (token.data[i] < '0' || token.data[i] > '9') return false;
        unsigned digit = (unsigned)(token.data[i] - '0');
        if (sum > (limit - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *value = negative ? 0 - sum : sum;
    return true;
}

static bool push_register(struct operands *operands, const struct cpu *cpu, const struct registers *callee,
                          struct slice name)
{
    int place = cpu_register(cpu, name);
    return place >= 0 && (callee->valid >> place & 1) && push(operands, callee->value[place]);
}

struct evaluation {
    const struct cpu *cpu;
    const struct memory *memory;
    const struct registers *callee;
    const uint64_t *cfa;  // NULL while it is being computed itself
};

static bool apply_token(const struct evaluation *evaluation, struct operands *operands, struct slice token)
{
    uint64_t number;
    if (token.size == 1 && memchr("+-*/%@", token.data[0], 6)) return apply_binary(operands, token.data[0]);
    if (slice_is(token, "^")) {
        if (operands->count == 0) return false;
        uint64_t *top = &operands->value[operands->count - 1];
        return memory_read(evaluation->memory, *top, evaluation->cpu->width, top);
    }
    if (slice_is(token, ".cfa")) return evaluation->cfa && push(operands, *evaluation->cfa);
    if (slice_is(token, ".undef")) return false;
    const uint8_t *dollar = memchr(token.data, '$', token.size);
    if (dollar) {
        struct slice name = {dollar + 1, (size_t)(token.data + token.size - dollar - 1)};
        return push_register(operands, evaluation->cpu, evaluation->callee, name);
    }
    if (parse_number(token, &number)) return push(operands, number);
    return push_register(operands, evaluation->cpu, evaluation->callee, token);
}

static bool evaluate(const struct evaluation *evaluation, struct slice expression, uint64_t *value)
{
    struct operands operands = {.count = 0};
    struct cursor at = {expression.data, expression.data + expression.size};
    struct slice token;
    while (next_token(&at, &token)) {
        if (!apply_token(evaluation, &operands, token)) return false;
    }
    *value = operands.value[0];
    return operands.count == 1;
}

static bool fits(const struct cpu *cpu, uint64_t value)
{
    return cpu->width == 8 || value <= UINT32_MAX;
}

bool cfi_evaluate(const struct cfi_rules *rules, const struct memory *memory, const struct registers *callee,
                  struct registers *caller)
{
    const struct cpu *cpu = rules->cpu;
    struct slice cfa_rule = rules->expressions[SLOT_CFA], ra_rule = rules->expressions[SLOT_RA];
    if (!cfa_rule.data || !ra_rule.data) return false;
    struct evaluation evaluation = {cpu, memory, callee, NULL};
    uint64_t cfa, ra;
    if (!evaluate(&evaluation, cfa_rule, &cfa)) return false;
    evaluation.cfa = &cfa;
    if (!evaluate(&evaluation, ra_rule, &ra) || !fits(cpu, cfa) || !fits(cpu, ra)) return false;

    *caller = *callee;
    caller->valid = (callee->valid & cpu->callee_saved) | UINT32_C(1) << cpu->sp | UINT32_C(1) << cpu->ip;
    caller->value[cpu->sp] = cfa;
    caller->value[cpu->ip] = ra;
    for (unsigned i = 0; i < cpu->n_registers; i++) {
        if (!rules->expressions[i].data) continue;
        uint64_t value;
        if (!evaluate(&evaluation, rules->expressions[i], &value)) {
            caller->valid &= ~(UINT32_C(1) << i);
        } else if (fits(cpu, value)) {
            caller->value[i] = value;
            caller->valid |= UINT32_C(1) << i;
        }
    }
    return true;
}
