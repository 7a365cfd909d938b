/* Blockmill for C: Bitcoin blocks and transactions validated with the coins that they spend, by every
 * rule and every script, without a store.
 *
 * - Handles are opaque. A function that makes one returns NULL if it cannot, and every handle goes to
 *   its `_free` once; NULL may go there, too.
 * - A status is BLOCKMILL_OK, BLOCKMILL_INVALID, or an error below zero, whose text is
 *   blockmill_last_error(). An error says nothing about the block.
 * - Hashes and ids are 32 bytes in the order in which blocks have them: the reverse of what is printed.
 * - Pointers that a function gets are read during the call alone. Where a length is 0, NULL will do.
 * - Different threads may use different handles. A validator may be shared, and serves one call after
 *   another. Other handles may be read by several threads while none changes them.
 */
#ifndef BLOCKMILL_H
#define BLOCKMILL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. Within a version functions and constants are only added. */
#define BLOCKMILL_INTERFACE 0

/* The call has done its work; a block or a transaction is valid. */
#define BLOCKMILL_OK 0
/* The block or the transaction breaks a rule. The verdict says which, and where. */
#define BLOCKMILL_INVALID 1
/* An argument cannot be used. */
#define BLOCKMILL_BAD_ARGUMENT (-1)
/* A block, a transaction or undo data does not decode. */
#define BLOCKMILL_DOES_NOT_DECODE (-2)
/* A relative lock needs a median time past that is not known. */
#define BLOCKMILL_UNKNOWN_TIME (-3)
/* The script verifier failed. */
#define BLOCKMILL_VERIFIER_FAILED (-4)
/* A fault of this library. */
#define BLOCKMILL_FAULT (-5)

/* Signatures are verified by libsecp256k1, one by one. */
#define BLOCKMILL_SIGNATURES_ONE_BY_ONE 0
/* Many at a time, in lanes: of vector registers where the machine has them. */
#define BLOCKMILL_SIGNATURES_LANES 1
/* What this library would choose by itself: many at a time. */
#define BLOCKMILL_SIGNATURES_FASTEST 2

/* What a refusal says of the block's hash. There is no refusal. */
#define BLOCKMILL_KIND_NONE 0
/* The block is invalid, and so are its descendants. */
#define BLOCKMILL_KIND_CONSENSUS 1
/* The header itself is invalid. */
#define BLOCKMILL_KIND_HEADER 2
/* Nobody has mined this header. */
#define BLOCKMILL_KIND_NO_WORK 3
/* Another content under the same header may be valid. */
#define BLOCKMILL_KIND_MUTATED 4
/* The header's time is too far in the future: it may become valid. */
#define BLOCKMILL_KIND_TIME_FUTURE 5

/* Flags of scripts, with the bits of Bitcoin Core's kernel library. */
#define BLOCKMILL_FLAG_P2SH 1
#define BLOCKMILL_FLAG_DERSIG 4
#define BLOCKMILL_FLAG_NULLDUMMY 16
#define BLOCKMILL_FLAG_CHECKLOCKTIMEVERIFY 512
#define BLOCKMILL_FLAG_CHECKSEQUENCEVERIFY 1024
#define BLOCKMILL_FLAG_WITNESS 2048
#define BLOCKMILL_FLAG_TAPROOT 131072
/* All rules of scripts that hold in new blocks. */
#define BLOCKMILL_FLAGS_ALL 134677

/* Kinds of signature checks. ECDSA: key is a compressed public key, message the hash that is signed. */
#define BLOCKMILL_CHECK_ECDSA 0
/* BIP 340: key[1] to key[32] are the x-only public key, message is what is signed. */
#define BLOCKMILL_CHECK_SCHNORR 1
/* BIP 341: r is the x coordinate of the tweaked point and message[0] the parity of its y coordinate, 0 or
 * 1 (no point has another one); key[1] to key[32] are the internal key, and s is the tweak. */
#define BLOCKMILL_CHECK_TWEAK 2

typedef struct blockmill_validator blockmill_validator;
typedef struct blockmill_coins blockmill_coins;
typedef struct blockmill_context blockmill_context;
typedef struct blockmill_verdict blockmill_verdict;

/* A signature and what it signs. Numbers are in big endian. */
typedef struct {
    uint8_t kind;
    uint8_t key[33];
    uint8_t r[32];
    uint8_t s[32];
    uint8_t message[32];
} blockmill_check;

/* BLOCKMILL_INTERFACE of the library. */
uint32_t blockmill_interface(void);
/* The library's version, as "0.1.0". */
const char *blockmill_version(void);
/* The text of the last error on this thread, until the next one; empty if there was none. */
const char *blockmill_last_error(void);

/* A validator with this many threads, the caller's included: 1,024 at most, and 0 counts as 1.
 * `signatures` is one of BLOCKMILL_SIGNATURES. */
blockmill_validator *blockmill_validator_new(size_t threads, int signatures);
void blockmill_validator_free(blockmill_validator *validator);

/* A coin that the block itself creates must equal that output, and only a later transaction can spend it.
 * Every other coin has a lower height than the block. Else it is missing.
 *
 * Coins by outpoint: those that are there before the block. Coins that the block itself creates are not
 * needed. */
blockmill_coins *blockmill_coins_new(void);
/* Coins in block order: one for each input of each transaction except the coinbase. */
blockmill_coins *blockmill_coins_new_in_order(void);
/* The same, from undo data in Bitcoin Core's form. */
blockmill_coins *blockmill_coins_from_undo(const uint8_t *undo, size_t length);
/* Adds a coin by outpoint, in place of an earlier one of the same outpoint. `value` is in satoshi, `height`
 * that of the block that made it, below 2^31, `is_coinbase` whether that was in its coinbase. */
int blockmill_coins_add(blockmill_coins *coins, const uint8_t *txid, uint32_t vout, int64_t value,
                        uint32_t height, int is_coinbase, const uint8_t *script, size_t length);
/* Adds the coin of the next input in block order. Height 0 is an unknown height, and such a coin counts as
 * mature. */
int blockmill_coins_push(blockmill_coins *coins, int64_t value, uint32_t height, int is_coinbase,
                         const uint8_t *script, size_t length);
/* Number of coins. */
size_t blockmill_coins_count(const blockmill_coins *coins);
void blockmill_coins_free(blockmill_coins *coins);

/* Where a block stands: on a network ("bitcoin", "testnet3", "testnet4", "signet", "regtest"), at a
 * height. What is not set is not known, and a rule that needs it is left out. */
blockmill_context *blockmill_context_new(const char *network, uint32_t height);
/* The script that signs the blocks of a signet, if it is not the public one. */
int blockmill_context_set_signet_challenge(blockmill_context *context, const uint8_t *script, size_t length);
/* The target in compact form that the header must have. */
int blockmill_context_set_bits(blockmill_context *context, uint32_t bits);
/* The time in the parent's header. */
int blockmill_context_set_parent_time(blockmill_context *context, uint32_t time);
/* The median time past of the parent. Without it no relative lock is checked. */
int blockmill_context_set_median_time_past(blockmill_context *context, uint32_t time);
/* The clock, in seconds since 1970. */
int blockmill_context_set_clock(blockmill_context *context, int64_t now);
/* The median time past of the ancestor at a height. A relative lock by time needs that of the height
 * before its coin's. */
int blockmill_context_set_median_time_at(blockmill_context *context, uint32_t height, uint32_t time);
/* Whether the block must not make coins that are there (BIP 30): 1 or 0. If it is not set, the
 * network's rule holds. It shows with coins by outpoint alone. */
int blockmill_context_set_bip30(blockmill_context *context, int is_enforced);
/* Flags of the scripts, instead of those of height and hash. */
int blockmill_context_set_script_flags(blockmill_context *context, uint32_t flags);
/* Whether the proof of work is checked, and on signet the block's signature: 1, as at first, or 0. */
int blockmill_context_set_proof_of_work(blockmill_context *context, int is_checked);
void blockmill_context_free(blockmill_context *context);

/* A verdict for blockmill_validate_block and blockmill_verify_transaction to fill. */
blockmill_verdict *blockmill_verdict_new(void);
/* Whether the last call found its block or transaction valid: 1 or 0. */
int blockmill_verdict_is_valid(const blockmill_verdict *verdict);
/* Bitcoin Core's reject reason, until the next call with this verdict; empty if it is valid. */
const char *blockmill_verdict_reason(const blockmill_verdict *verdict);
/* One of BLOCKMILL_KIND. */
int blockmill_verdict_kind(const blockmill_verdict *verdict);
/* The transaction that breaks the rule, by its index in the block, and its input; -1 for none. */
int64_t blockmill_verdict_transaction(const blockmill_verdict *verdict);
int64_t blockmill_verdict_input(const blockmill_verdict *verdict);
/* Of a valid block: fees in satoshi, cost of signature operations, weight, transactions, and inputs
 * but the coinbase's. */
int64_t blockmill_verdict_fees(const blockmill_verdict *verdict);
uint64_t blockmill_verdict_sigops_cost(const blockmill_verdict *verdict);
uint64_t blockmill_verdict_weight(const blockmill_verdict *verdict);
uint64_t blockmill_verdict_transactions(const blockmill_verdict *verdict);
uint64_t blockmill_verdict_inputs(const blockmill_verdict *verdict);
void blockmill_verdict_free(blockmill_verdict *verdict);

/* Validates a block: BLOCKMILL_OK, BLOCKMILL_INVALID, or an error; bytes after the block are one
 * (BLOCKMILL_DOES_NOT_DECODE). The verdict says the rest. */
int blockmill_validate_block(blockmill_validator *validator, const uint8_t *block, size_t length,
                             const blockmill_coins *coins, const blockmill_context *context,
                             blockmill_verdict *verdict);
/* Runs the scripts of a transaction, which is serialized with its witnesses. `flags` are of
 * BLOCKMILL_FLAG. Coins in order are those of its inputs. No other rule is checked. */
int blockmill_verify_transaction(blockmill_validator *validator, const uint8_t *transaction, size_t length,
                                 const blockmill_coins *coins, uint32_t flags, blockmill_verdict *verdict);
/* Verifies signatures, many at a time if the validator has lanes: `holds` gets a 1 or a 0 for each. */
int blockmill_verify_signatures(blockmill_validator *validator, const blockmill_check *checks, size_t count,
                                uint8_t *holds);

#ifdef __cplusplus
}
#endif

#endif
