// The C interface of the shim, and the checker behind it. src/ffi.rs has the same declarations.
#ifndef BLOCKMILL_SCRIPT_SHIM_H
#define BLOCKMILL_SCRIPT_SHIM_H

#include "replaced.h"

#include <primitives/transaction.h>
#include <pubkey.h>
#include <script/interpreter.h>
#include <uint256.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

extern "C" {

// `Check` of the crate secp256k1-lanes: numbers in big endian.
struct BlockmillCheck {
    uint8_t kind;
    uint8_t key[33];
    uint8_t r[32];
    uint8_t s[32];
    uint8_t message[32];
};

enum BlockmillKind : uint8_t { BLOCKMILL_ECDSA = 0, BLOCKMILL_SCHNORR = 1, BLOCKMILL_TWEAK = 2 };

// What a recording run is told about a check.
enum BlockmillAnswer : int32_t { BLOCKMILL_INVALID = 0, BLOCKMILL_VALID = 1, BLOCKMILL_STOP = 2 };

typedef int32_t (*BlockmillAsk)(void* context, const BlockmillCheck* check);

// Which keys probably sign where `needed` of `keys` must: a bit for each, the first key's the
// lowest. Zero: no guess.
typedef uint16_t (*BlockmillGuess)(void* context, uint8_t needed, uint8_t keys);

struct BlockmillSpent {
    int64_t value;
    const uint8_t* script;
    size_t length;
};

// What a recording run may do.
struct BlockmillLimits {
    // Bytes hashed, copied and searched for signature hashes.
    uint64_t hashed;
    // Bytes of a transaction, as legacy signature hashes have it, beyond which none of its legacy
    // checks is deferred.
    uint64_t legacy;
};

// The keys of a script `needed key ... key keys CHECKMULTISIG` with which a signature was valid, as
// in BlockmillGuess.
struct BlockmillSigners {
    uint8_t needed;
    uint8_t keys;
    uint16_t signers;
};

// What a run did.
struct BlockmillReport {
    // Signature checks and taproot commitments.
    uint64_t asked;
    // Bytes hashed, copied and searched for signature hashes; an estimate.
    uint64_t hashed;
    // Bytes of the scripts.
    uint64_t script;
    // The last multisig script; zero if there was none.
    BlockmillSigners signers;
};

enum BlockmillEnd : int32_t {
    BLOCKMILL_FAILED = 0,
    BLOCKMILL_PASSED = 1,
    // A recording run was stopped. Nothing is known of the script.
    BLOCKMILL_STOPPED = 2,
    // An exception. Nothing is known of the script.
    BLOCKMILL_ERROR = 3,
};

struct BlockmillTransaction;

} // extern "C"

static_assert(sizeof(BlockmillCheck) == 130 && alignof(BlockmillCheck) == 1);

// One run of an input's scripts.
struct BlockmillRun {
    // Null in an ordinary run: libsecp256k1 answers.
    BlockmillAsk ask{nullptr};
    BlockmillGuess guess{nullptr};
    void* context{nullptr};
    BlockmillLimits limits{};
    BlockmillReport report{};
    bool stopped{false};

    // Ends a recording run. EvalScript catches what is thrown and fails, the shim catches it
    // elsewhere.
    [[noreturn]] void Stop();
    // Counts what a signature hash hashes, before it does.
    void Hash(uint64_t bytes);
    // Whether the key of a multisig script, whose bit this is, probably did not sign.
    bool DidNotSign(const BlockmillSigners& key) const;
    void Signed(const BlockmillSigners& key);
    bool Ask(const BlockmillCheck& check);
};

using BlockmillGenericChecker = GenericTransactionSignatureChecker<CMutableTransaction>;

// Core's checker, except that a recording run asks for the answers.
class BlockmillChecker final : public BlockmillGenericChecker
{
    BlockmillRun& m_run;
    const uint64_t m_legacy_bytes;
    const uint64_t m_output_bytes;
    // The script code that Core keeps the state of a hash for, for each kind of hash type. It is
    // compared byte by byte: codes can be made that any hash without a key confuses.
    mutable std::array<std::optional<CScript>, 6> m_hashed{};

public:
    BlockmillChecker(
        const CMutableTransaction& tx, unsigned int input, const CAmount& amount,
        const PrecomputedTransactionData& data, uint64_t legacy_bytes, BlockmillRun& run);

    bool CheckECDSASignature(
        const std::vector<unsigned char>& sig, const std::vector<unsigned char>& key,
        const CScript& code, SigVersion version) const override;

protected:
    bool VerifyECDSASignature(
        const std::vector<unsigned char>& sig, const CPubKey& key,
        const uint256& hash) const override;
    bool VerifySchnorrSignature(
        std::span<const unsigned char> sig, const XOnlyPubKey& key,
        const uint256& hash) const override;
};

// Makes a run the one whose taproot commitments are checked on this thread.
class BlockmillCurrentRun
{
    BlockmillRun* m_outer;

public:
    explicit BlockmillCurrentRun(BlockmillRun& run);
    ~BlockmillCurrentRun();
    BlockmillCurrentRun(const BlockmillCurrentRun&) = delete;
    BlockmillCurrentRun& operator=(const BlockmillCurrentRun&) = delete;
};

uint64_t BlockmillLegacyBytes(const CMutableTransaction& tx);

#endif // BLOCKMILL_SCRIPT_SHIM_H
