// Allocations that fail inside Core's interpreter: an error each time, never a verdict, and the next call has
// the right one.
#include <blockmill.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <new>

// Allocations until one fails, and whether all after it do. Below zero none does.
static long left = -1;
static bool for_good = false;

void *operator new(std::size_t size) {
    if (left == 0) {
        if (!for_good) {
            left = -1;
        }
        throw std::bad_alloc();
    }
    if (left > 0) {
        left--;
    }
    if (void *found = std::malloc(size > 0 ? size : 1)) {
        return found;
    }
    throw std::bad_alloc();
}

void operator delete(void *pointer) noexcept { std::free(pointer); }

void operator delete(void *pointer, std::size_t) noexcept { std::free(pointer); }

static int verify(blockmill_validator *validator, bool passes, blockmill_verdict *verdict) {
    // A transaction of version 1 with one input and one output.
    uint8_t transaction[60] = {1, 0, 0, 0, 1};
    std::memset(transaction + 5, 7, 32);
    transaction[46] = 1;
    // OP_1 OP_DUP OP_DUP OP_HASH160 OP_SHA256 OP_2DROP OP_DROP, an addition, and what decides.
    const uint8_t last = passes ? 0x51 : 0x6a;
    const uint8_t script[] = {0x51, 0x76, 0x76, 0xa9, 0xa8, 0x6d, 0x75, 0x51, 0x51, 0x93, 0x75, last};
    blockmill_coins *coins = blockmill_coins_new_in_order();
    blockmill_coins_push(coins, 1, 1, 0, script, sizeof script);
    const int status = blockmill_verify_transaction(validator, transaction, sizeof transaction, coins,
                                                    BLOCKMILL_FLAGS_ALL, verdict);
    blockmill_coins_free(coins);
    return status;
}

int main() {
    int failed = 0, wrong = 0;
    for (int way : {BLOCKMILL_SIGNATURES_ONE_BY_ONE, BLOCKMILL_SIGNATURES_LANES}) {
        blockmill_validator *validator = blockmill_validator_new(1, way);
        blockmill_verdict *verdict = blockmill_verdict_new();
        for (bool passes : {true, false}) {
            const int expected = passes ? BLOCKMILL_OK : BLOCKMILL_INVALID;
            for (bool rest : {false, true}) {
                for (long number = 0; number < 200; number++) {
                    left = number;
                    for_good = rest;
                    const int status = verify(validator, passes, verdict);
                    left = -1;
                    failed += status == BLOCKMILL_VERIFIER_FAILED;
                    if (status != expected && status != BLOCKMILL_VERIFIER_FAILED) {
                        std::fprintf(stderr, "way %d, allocation %ld: status %d\n", way, number, status);
                        wrong++;
                    }
                    if (verify(validator, passes, verdict) != expected) {
                        std::fprintf(stderr, "way %d, after allocation %ld: a wrong status\n", way, number);
                        wrong++;
                    }
                }
            }
        }
        blockmill_verdict_free(verdict);
        blockmill_validator_free(validator);
    }
    std::printf("%d allocations failed\n", failed);
    return wrong == 0 && failed > 20 ? 0 : 1;
}
