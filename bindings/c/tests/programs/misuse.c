/* Arguments that cannot be used, and signatures alone. */
#include <blockmill.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, blockmill_last_error());              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* The layout is that of the library. */
typedef char check_has_130_bytes[sizeof(blockmill_check) == 130 ? 1 : -1];

static void handles(void) {
    const uint8_t bytes[32] = {0};
    CHECK(strcmp(blockmill_last_error(), "") == 0);
    CHECK(blockmill_validator_new(1, 77) == NULL);
    CHECK(strstr(blockmill_last_error(), "77") != NULL);
    CHECK(blockmill_validator_new((size_t)-1, BLOCKMILL_SIGNATURES_LANES) == NULL);
    CHECK(blockmill_context_new(NULL, 1) == NULL);
    CHECK(blockmill_context_new("bitcoin", 0) == NULL);
    CHECK(blockmill_context_new("bitcoin", 1u << 31) == NULL);
    CHECK(blockmill_context_new("b\xff tcoin", 1) == NULL);
    CHECK(blockmill_coins_from_undo(bytes, 0) == NULL);
    CHECK(blockmill_coins_from_undo(NULL, 5) == NULL);
    CHECK(blockmill_coins_from_undo(bytes, 32) == NULL);
    CHECK(blockmill_coins_from_undo(bytes, (size_t)-1) == NULL);

    blockmill_coins *coins = blockmill_coins_new();
    blockmill_coins *ordered = blockmill_coins_new_in_order();
    CHECK(blockmill_coins_add(NULL, bytes, 0, 0, 1, 0, NULL, 0) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_add(coins, NULL, 0, 0, 1, 0, NULL, 0) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_add(coins, bytes, 0, 0, 1, 0, NULL, 1) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_add(coins, bytes, 0, 0, 1u << 31, 0, NULL, 0) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_add(ordered, bytes, 0, 0, 1, 0, NULL, 0) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_push(coins, 0, 1, 0, NULL, 0) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_coins_push(ordered, -1, 0, 1, bytes, 32) == BLOCKMILL_OK);
    CHECK(blockmill_coins_add(coins, bytes, 0, INT64_MAX, 1, 0, NULL, 0) == BLOCKMILL_OK);
    CHECK(blockmill_coins_count(coins) == 1 && blockmill_coins_count(ordered) == 1);
    CHECK(blockmill_coins_count(NULL) == 0);

    blockmill_context *context = blockmill_context_new("regtest", 1);
    CHECK(blockmill_context_set_bits(NULL, 1) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_context_set_signet_challenge(context, bytes, 32) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_context_set_script_flags(context, 1u << 30) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_context_set_script_flags(context, BLOCKMILL_FLAG_WITNESS) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_context_set_script_flags(context, BLOCKMILL_FLAGS_ALL) == BLOCKMILL_OK);
    CHECK(blockmill_context_set_clock(context, INT64_MAX) == BLOCKMILL_OK);
    CHECK(blockmill_context_set_bip30(context, 0) == BLOCKMILL_OK);

    blockmill_validator *validator = blockmill_validator_new(0, BLOCKMILL_SIGNATURES_ONE_BY_ONE);
    blockmill_verdict *verdict = blockmill_verdict_new();
    CHECK(blockmill_validate_block(NULL, bytes, 32, coins, context, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_validate_block(validator, NULL, 32, coins, context, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_validate_block(validator, bytes, 32, NULL, context, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_validate_block(validator, bytes, 32, coins, NULL, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_validate_block(validator, bytes, 32, coins, context, NULL) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_validate_block(validator, bytes, 32, coins, context, verdict) == BLOCKMILL_DOES_NOT_DECODE);
    CHECK(blockmill_verify_transaction(validator, bytes, 32, coins, 1u << 30, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_verify_transaction(validator, bytes, 32, coins, 0, verdict) == BLOCKMILL_DOES_NOT_DECODE);
    CHECK(blockmill_verdict_is_valid(verdict) == 0 && blockmill_verdict_is_valid(NULL) == 0);
    CHECK(strcmp(blockmill_verdict_reason(verdict), "") == 0 && strcmp(blockmill_verdict_reason(NULL), "") == 0);
    CHECK(blockmill_verdict_transaction(verdict) == -1 && blockmill_verdict_input(NULL) == -1);
    CHECK(blockmill_verdict_kind(verdict) == BLOCKMILL_KIND_NONE);
    CHECK(blockmill_verify_signatures(validator, NULL, 1, NULL) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_verify_signatures(validator, NULL, 0, NULL) == BLOCKMILL_OK);

    blockmill_verdict_free(verdict);
    blockmill_validator_free(validator);
    blockmill_context_free(context);
    blockmill_coins_free(ordered);
    blockmill_coins_free(coins);
    blockmill_verdict_free(NULL);
    blockmill_validator_free(NULL);
    blockmill_context_free(NULL);
    blockmill_coins_free(NULL);
}

/* A transaction of version 1 with one input and one output, without signatures. */
static void transactions(void) {
    uint8_t transaction[61] = {1, 0, 0, 0, 1};
    memset(transaction + 5, 7, 32);
    transaction[46] = 1;
    blockmill_validator *validator = blockmill_validator_new(1, BLOCKMILL_SIGNATURES_LANES);
    blockmill_verdict *verdict = blockmill_verdict_new();
    blockmill_coins *coins = blockmill_coins_new();
    const uint8_t always[] = {0x51}, never[] = {0x6a};
    size_t length = 60;
    CHECK(blockmill_verify_transaction(validator, transaction, length, coins, 0, verdict) == BLOCKMILL_INVALID);
    CHECK(strcmp(blockmill_verdict_reason(verdict), "bad-txns-inputs-missingorspent") == 0);
    CHECK(blockmill_verdict_input(verdict) == 0 && blockmill_verdict_transaction(verdict) == -1);
    CHECK(blockmill_coins_add(coins, transaction + 5, 0, 1, 1, 0, always, 1) == BLOCKMILL_OK);
    CHECK(blockmill_verify_transaction(validator, transaction, length, coins, 0, verdict) == BLOCKMILL_OK);
    CHECK(blockmill_verdict_is_valid(verdict) == 1);
    CHECK(blockmill_verify_transaction(validator, transaction, 61, coins, 0, verdict) == BLOCKMILL_DOES_NOT_DECODE);
    CHECK(blockmill_verdict_is_valid(verdict) == 0);
    CHECK(blockmill_verify_transaction(validator, transaction, length, coins, 0, verdict) == BLOCKMILL_OK);
    /* An error leaves nothing of an earlier call. */
    CHECK(blockmill_verify_transaction(NULL, transaction, length, coins, 0, verdict) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_verdict_is_valid(verdict) == 0);
    CHECK(blockmill_coins_add(coins, transaction + 5, 0, 1, 1, 0, never, 1) == BLOCKMILL_OK);
    CHECK(blockmill_verify_transaction(validator, transaction, length, coins, 0, verdict) == BLOCKMILL_INVALID);
    CHECK(strcmp(blockmill_verdict_reason(verdict), "block-script-verify-flag-failed") == 0);
    CHECK(blockmill_verdict_kind(verdict) == BLOCKMILL_KIND_CONSENSUS);
    blockmill_coins_free(coins);
    blockmill_verdict_free(verdict);
    blockmill_validator_free(validator);
}

static void hex(const char *text, uint8_t *into) {
    for (; *text; text += 2) {
        unsigned byte;
        sscanf(text, "%2x", &byte);
        *into++ = (uint8_t)byte;
    }
}

/* The first test vector of BIP 340, and the same with another message. */
static void signatures(int way) {
    enum { COUNT = 40 };
    blockmill_check checks[COUNT];
    uint8_t holds[COUNT + 1];
    memset(checks, 0, sizeof checks);
    memset(holds, 9, sizeof holds);
    for (int index = 0; index < COUNT; index++) {
        checks[index].kind = BLOCKMILL_CHECK_SCHNORR;
        hex("F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9", checks[index].key + 1);
        hex("E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215", checks[index].r);
        hex("25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0", checks[index].s);
        checks[index].message[31] = (uint8_t)(index % 3);
    }
    blockmill_validator *validator = blockmill_validator_new(1, way);
    CHECK(blockmill_verify_signatures(validator, checks, COUNT, holds) == BLOCKMILL_OK);
    for (int index = 0; index < COUNT; index++) {
        CHECK(holds[index] == (index % 3 == 0));
    }
    CHECK(holds[COUNT] == 9);
    checks[3].kind = 200;
    CHECK(blockmill_verify_signatures(validator, checks, COUNT, holds) == BLOCKMILL_BAD_ARGUMENT);
    CHECK(blockmill_verify_signatures(validator, checks, COUNT, NULL) == BLOCKMILL_BAD_ARGUMENT);
    blockmill_validator_free(validator);
}

/* 3 G is G tweaked by 2, and has an even y. No other byte stands for that, and none does harm. */
static void parities(int way) {
    enum { COUNT = 300 };
    static blockmill_check checks[COUNT];
    uint8_t holds[COUNT];
    memset(checks, 0, sizeof checks);
    for (int index = 0; index < COUNT; index++) {
        checks[index].kind = BLOCKMILL_CHECK_TWEAK;
        checks[index].key[0] = (uint8_t)index;
        hex("79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798", checks[index].key + 1);
        hex("F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9", checks[index].r);
        checks[index].s[31] = 2;
        memset(checks[index].message + 1, index, 31);
    }
    blockmill_validator *validator = blockmill_validator_new(1, way);
    const uint8_t bytes[] = {0, 1, 2, 3, 0x80, 0xff};
    for (size_t number = 0; number < sizeof bytes; number++) {
        for (int index = 0; index < COUNT; index++) {
            checks[index].message[0] = bytes[number];
        }
        CHECK(blockmill_verify_signatures(validator, checks, COUNT, holds) == BLOCKMILL_OK);
        for (int index = 0; index < COUNT; index++) {
            CHECK(holds[index] == (bytes[number] == 0));
        }
    }
    for (int index = 0; index < COUNT; index++) {
        checks[index].message[0] = 0;
    }
    CHECK(blockmill_verify_signatures(validator, checks, COUNT, holds) == BLOCKMILL_OK && holds[0] == 1);
    blockmill_validator_free(validator);
}

int main(void) {
    CHECK(blockmill_interface() == BLOCKMILL_INTERFACE);
    CHECK(strlen(blockmill_version()) >= 5);
    handles();
    transactions();
    signatures(BLOCKMILL_SIGNATURES_ONE_BY_ONE);
    signatures(BLOCKMILL_SIGNATURES_LANES);
    signatures(BLOCKMILL_SIGNATURES_FASTEST);
    parities(BLOCKMILL_SIGNATURES_ONE_BY_ONE);
    parities(BLOCKMILL_SIGNATURES_LANES);
    parities(BLOCKMILL_SIGNATURES_FASTEST);
    return 0;
}
