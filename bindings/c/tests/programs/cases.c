/* Validates the blocks of a file of cases, each with its coins, and compares the verdicts.
 * crates/validate/tests/it/cases.rs has the format. */
#include <blockmill.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *token;
static size_t token_room;

/* The next word of the input; NULL at its end. */
static char *word(void) {
    size_t length = 0;
    int byte = getchar();
    while (byte == ' ' || byte == '\n') {
        byte = getchar();
    }
    while (byte != EOF && byte != ' ' && byte != '\n') {
        if (length + 1 >= token_room) {
            token_room = token_room ? 2 * token_room : 1024;
            token = realloc(token, token_room);
            if (token == NULL) {
                exit(2);
            }
        }
        token[length++] = (char)byte;
        byte = getchar();
    }
    if (length == 0) {
        return NULL;
    }
    token[length] = 0;
    return token;
}

static long long number(void) {
    char *text = word();
    if (text == NULL) {
        exit(2);
    }
    return strtoll(text, NULL, 10);
}

static void expect(const char *name) {
    char *text = word();
    if (text == NULL || strcmp(text, name) != 0) {
        fprintf(stderr, "expected %s, found %s\n", name, text ? text : "the end");
        exit(2);
    }
}

static int digit(char character) {
    return character <= '9' ? character - '0' : character - 'a' + 10;
}

/* Bytes in hex; a single minus for none. The caller frees them. */
static uint8_t *bytes(size_t *length) {
    char *text = word();
    if (text == NULL) {
        exit(2);
    }
    *length = strcmp(text, "-") == 0 ? 0 : strlen(text) / 2;
    uint8_t *found = malloc(*length > 0 ? *length : 1);
    if (found == NULL) {
        exit(2);
    }
    for (size_t index = 0; index < *length; index++) {
        found[index] = (uint8_t)(16 * digit(text[2 * index]) + digit(text[2 * index + 1]));
    }
    return found;
}

static void must(int status) {
    if (status != BLOCKMILL_OK) {
        fprintf(stderr, "%s\n", blockmill_last_error());
        exit(2);
    }
}

static blockmill_context *read_context(void) {
    expect("height");
    blockmill_context *context = blockmill_context_new("regtest", (uint32_t)number());
    expect("bits");
    must(blockmill_context_set_bits(context, (uint32_t)number()));
    expect("parent_time");
    must(blockmill_context_set_parent_time(context, (uint32_t)number()));
    expect("median");
    must(blockmill_context_set_median_time_past(context, (uint32_t)number()));
    expect("now");
    must(blockmill_context_set_clock(context, number()));
    expect("work");
    must(blockmill_context_set_proof_of_work(context, (int)number()));
    expect("times");
    uint32_t count = (uint32_t)number();
    for (uint32_t height = 0; height < count; height++) {
        must(blockmill_context_set_median_time_at(context, height, (uint32_t)number()));
    }
    return context;
}

static blockmill_coins *read_coins(void) {
    blockmill_coins *coins = blockmill_coins_new();
    expect("coins");
    size_t count = (size_t)number();
    for (size_t index = 0; index < count; index++) {
        size_t length;
        uint8_t *txid = bytes(&length);
        uint32_t vout = (uint32_t)number();
        long long value = number();
        uint32_t height = (uint32_t)number();
        int is_coinbase = (int)number();
        uint8_t *script = bytes(&length);
        must(blockmill_coins_add(coins, txid, vout, value, height, is_coinbase, script, length));
        free(script);
        free(txid);
    }
    if (blockmill_coins_count(coins) != count) {
        exit(2);
    }
    return coins;
}

int main(int count, char **arguments) {
    int signatures = count > 1 ? atoi(arguments[1]) : BLOCKMILL_SIGNATURES_ONE_BY_ONE;
    blockmill_validator *validator = blockmill_validator_new(count > 2 ? (size_t)atoi(arguments[2]) : 1, signatures);
    blockmill_verdict *verdict = blockmill_verdict_new();
    int cases = 0, wrong = 0;
    while (word() != NULL) {
        char name[100];
        snprintf(name, sizeof name, "%s", word());
        blockmill_context *context = read_context();
        blockmill_coins *coins = read_coins();
        size_t length;
        expect("block");
        uint8_t *block = bytes(&length);
        int status = blockmill_validate_block(validator, block, length, coins, context, verdict);
        const char *found = status == BLOCKMILL_OK        ? "valid"
                            : status == BLOCKMILL_INVALID ? blockmill_verdict_reason(verdict)
                            : status == BLOCKMILL_DOES_NOT_DECODE
                                ? "malformed"
                                : blockmill_last_error();
        expect("verdict");
        char *wanted = word();
        int is_same = wanted != NULL && strcmp(wanted, found) == 0;
        long long transaction = number(), input = number();
        is_same = is_same && transaction == blockmill_verdict_transaction(verdict) &&
                  input == blockmill_verdict_input(verdict) &&
                  blockmill_verdict_is_valid(verdict) == (status == BLOCKMILL_OK);
        if (!is_same) {
            fprintf(stderr, "%s: found %s\n", name, found);
            wrong++;
        }
        cases++;
        free(block);
        blockmill_coins_free(coins);
        blockmill_context_free(context);
    }
    blockmill_verdict_free(verdict);
    blockmill_validator_free(validator);
    free(token);
    printf("%d cases, %d wrong\n", cases, wrong);
    return wrong == 0 ? 0 : 1;
}
