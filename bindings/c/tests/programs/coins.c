/* Coins that a block cannot spend: of the block itself, and of heights that are not below it. And bytes
 * after a block. */
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

/* Blocks of regtest at this height. The first transaction after the coinbase spends output 0 of aa..aa,
 * the second the output of the first; in the other block they have changed places. */
enum { HEIGHT = 200, LENGTH = 269 };
static const char *const GOOD =
    "040000000707070707070707070707070707070707070707070707070707070707070707d02e62dd4650e792ae1983129e751b18"
    "14394ce9d50e83e407b0785a1558a8da004e7253ffff7f2003000000030100000001000000000000000000000000000000000000"
    "0000000000000000000000000000ffffffff0502c8000000ffffffff0100f90295000000000151000000000200000001aaaaaaaa"
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0000000000ffffffff018403000000000000015100000000"
    "02000000010b03f90af75cff29bc06c2b70362862ec1c83b351346b8a47f674836e63d10c10000000000ffffffff012003000000"
    "000000015100000000";
static const char *const BAD =
    "040000000707070707070707070707070707070707070707070707070707070707070707b2ddee3aad72a4652eaf287384fa91d8"
    "9e754f8f42bef1fe0173633dab40125c004e7253ffff7f2000000000030100000001000000000000000000000000000000000000"
    "0000000000000000000000000000ffffffff0502c8000000ffffffff0100f902950000000001510000000002000000010b03f90a"
    "f75cff29bc06c2b70362862ec1c83b351346b8a47f674836e63d10c10000000000ffffffff012003000000000000015100000000"
    "0200000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0000000000ffffffff018403000000"
    "000000015100000000";

static const uint8_t ANYONE[] = {0x51};

static void hex(const char *text, uint8_t *into) {
    for (; *text; text += 2) {
        unsigned byte;
        sscanf(text, "%2x", &byte);
        *into++ = (uint8_t)byte;
    }
}

static blockmill_validator *validator;
static blockmill_verdict *verdict;

/* The status, and the transaction at fault. */
static int validate(const char *text, blockmill_coins *coins, int64_t *transaction) {
    uint8_t block[LENGTH + 1] = {0};
    hex(text, block);
    blockmill_context *context = blockmill_context_new("regtest", HEIGHT);
    int status = blockmill_validate_block(validator, block, LENGTH, coins, context, verdict);
    *transaction = blockmill_verdict_transaction(verdict);
    if (status == BLOCKMILL_INVALID) {
        CHECK(strcmp(blockmill_verdict_reason(verdict), "bad-txns-inputs-missingorspent") == 0);
    }
    CHECK(blockmill_verdict_is_valid(verdict) == (status == BLOCKMILL_OK));
    /* One byte more is not the block's. */
    CHECK(blockmill_validate_block(validator, block, LENGTH + 1, coins, context, verdict) ==
          BLOCKMILL_DOES_NOT_DECODE);
    CHECK(blockmill_verdict_is_valid(verdict) == 0);
    CHECK(blockmill_validate_block(validator, block, LENGTH - 1, coins, context, verdict) ==
          BLOCKMILL_DOES_NOT_DECODE);
    blockmill_context_free(context);
    blockmill_coins_free(coins);
    return status;
}

static void push(blockmill_coins *coins, int64_t value, uint32_t height) {
    CHECK(blockmill_coins_push(coins, value, height, 0, ANYONE, sizeof ANYONE) == BLOCKMILL_OK);
}

int main(void) {
    const uint32_t heights[] = {0, 1, 150, HEIGHT - 1, HEIGHT, HEIGHT + 1, (1u << 31) - 1};
    uint8_t outside[32];
    memset(outside, 0xaa, sizeof outside);
    validator = blockmill_validator_new(1, BLOCKMILL_SIGNATURES_ONE_BY_ONE);
    verdict = blockmill_verdict_new();
    for (size_t index = 0; index < sizeof heights / sizeof *heights; index++) {
        uint32_t height = heights[index];
        int64_t transaction;
        int is_lower = height < HEIGHT;
        /* The coin that the block makes itself: as it makes it, or without a height. */
        blockmill_coins *coins = blockmill_coins_new_in_order();
        push(coins, 1000, 50);
        push(coins, 900, height);
        int is_own = height == HEIGHT || height == 0;
        CHECK(validate(GOOD, coins, &transaction) == (is_own ? BLOCKMILL_OK : BLOCKMILL_INVALID));
        CHECK(transaction == (is_own ? -1 : 2));
        /* It is not there yet, whatever its height. */
        coins = blockmill_coins_new_in_order();
        push(coins, 900, height);
        push(coins, 1000, 50);
        CHECK(validate(BAD, coins, &transaction) == BLOCKMILL_INVALID && transaction == 1);
        /* The other coin is of a lower height. */
        coins = blockmill_coins_new_in_order();
        push(coins, 1000, height);
        push(coins, 900, HEIGHT);
        CHECK(validate(GOOD, coins, &transaction) == (is_lower ? BLOCKMILL_OK : BLOCKMILL_INVALID));
        CHECK(transaction == (is_lower ? -1 : 1));
        coins = blockmill_coins_new();
        CHECK(blockmill_coins_add(coins, outside, 0, 1000, height, 0, ANYONE, sizeof ANYONE) == BLOCKMILL_OK);
        CHECK(validate(GOOD, coins, &transaction) == (is_lower ? BLOCKMILL_OK : BLOCKMILL_INVALID));
        CHECK(transaction == (is_lower ? -1 : 1));
        coins = blockmill_coins_new();
        CHECK(blockmill_coins_add(coins, outside, 0, 1000, 50, 0, ANYONE, sizeof ANYONE) == BLOCKMILL_OK);
        CHECK(validate(BAD, coins, &transaction) == BLOCKMILL_INVALID && transaction == 1);
    }
    blockmill_verdict_free(verdict);
    blockmill_validator_free(validator);
    return 0;
}
