/* Validates a block with its undo data: validate_block NETWORK HEIGHT BLOCK UNDO
 *
 *     cc validate_block.c $(pkg-config --cflags --libs blockmill) -o validate_block
 */
#include <blockmill.h>
#include <stdio.h>
#include <stdlib.h>

/* The bytes of a file; NULL if it cannot be read. */
static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long size = -1;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
    }
    if (size >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = malloc(size > 0 ? (size_t)size : 1);
    }
    if (bytes != NULL && fread(bytes, 1, (size_t)size, file) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    *length = size > 0 ? (size_t)size : 0;
    return bytes;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: validate_block NETWORK HEIGHT BLOCK UNDO\n");
        return 2;
    }
    size_t block_length, undo_length;
    uint8_t *block = read_file(arguments[3], &block_length);
    uint8_t *undo = read_file(arguments[4], &undo_length);
    if (block == NULL || undo == NULL) {
        fprintf(stderr, "%s or %s cannot be read\n", arguments[3], arguments[4]);
        free(block);
        free(undo);
        return 3;
    }
    blockmill_validator *validator = blockmill_validator_new(1, BLOCKMILL_SIGNATURES_FASTEST);
    blockmill_context *context = blockmill_context_new(arguments[1], (uint32_t)strtoul(arguments[2], NULL, 10));
    blockmill_coins *coins = blockmill_coins_from_undo(undo, undo_length);
    blockmill_verdict *verdict = blockmill_verdict_new();

    /* A NULL among them is an error here. */
    int status = blockmill_validate_block(validator, block, block_length, coins, context, verdict);
    if (status == BLOCKMILL_OK) {
        printf("valid: %llu inputs, %lld satoshi of fees\n", (unsigned long long)blockmill_verdict_inputs(verdict),
               (long long)blockmill_verdict_fees(verdict));
    } else if (status == BLOCKMILL_INVALID) {
        printf("invalid: %s, transaction %lld, input %lld\n", blockmill_verdict_reason(verdict),
               (long long)blockmill_verdict_transaction(verdict), (long long)blockmill_verdict_input(verdict));
    } else {
        fprintf(stderr, "no verdict: %s\n", blockmill_last_error());
    }

    blockmill_verdict_free(verdict);
    blockmill_coins_free(coins);
    blockmill_context_free(context);
    blockmill_validator_free(validator);
    free(undo);
    free(block);
    return status == BLOCKMILL_OK ? 0 : status == BLOCKMILL_INVALID ? 1 : 3;
}
