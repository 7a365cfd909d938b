// A C interface to Core's interpreter, with a checker that can put signature checks off.
//
// Nothing is thrown across the interface.
#include "shim.h"
#include "tweak.h"

#include <crypto/sha256.h>
#include <secp256k1.h>
#include <secp256k1_extrakeys.h>
#include <secp256k1_schnorrsig.h>
#include <streams.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

// In pubkey.cpp, with external linkage, in no header.
int ecdsa_signature_parse_der_lax(
    secp256k1_ecdsa_signature* sig, const unsigned char* input, size_t inputlen);

// `ScriptFlags` of the crate blockmill-rules, and NULLFAIL in src/recorder.rs.
static_assert(script_verify_flags{SCRIPT_VERIFY_P2SH}.as_int() == 1 << 0);
static_assert(script_verify_flags{SCRIPT_VERIFY_DERSIG}.as_int() == 1 << 2);
static_assert(script_verify_flags{SCRIPT_VERIFY_NULLDUMMY}.as_int() == 1 << 4);
static_assert(script_verify_flags{SCRIPT_VERIFY_CHECKLOCKTIMEVERIFY}.as_int() == 1 << 9);
static_assert(script_verify_flags{SCRIPT_VERIFY_CHECKSEQUENCEVERIFY}.as_int() == 1 << 10);
static_assert(script_verify_flags{SCRIPT_VERIFY_WITNESS}.as_int() == 1 << 11);
static_assert(script_verify_flags{SCRIPT_VERIFY_NULLFAIL}.as_int() == 1 << 14);
static_assert(script_verify_flags{SCRIPT_VERIFY_TAPROOT}.as_int() == 1 << 17);

namespace {

// Before main, or while the library is loaded: Core's hashes choose the instructions of this
// processor. Nothing else may happen here, since the process belongs to whoever loads the library.
[[maybe_unused]] const bool START = (SHA256AutoDetect(), true);

struct Stopped {
};

// Items of witnesses that count as many. In Core's form each takes 24 bytes, however short it is:
// those of a block can take 94 MB, and where Core copies them twice that. No script that is valid
// looks at so many.
constexpr size_t MANY_ITEMS = 20'000;

// Held by the thread that has many in Core's form.
std::mutex many_items;

thread_local BlockmillRun* current_run = nullptr;

// Whether this is a native witness program that Taproot rules apply to.
bool IsTaproot(const CScript& script)
{
    return script.size() == 34 && script[0] == OP_1 && script[1] == 32;
}

bool IsZero(const uint8_t (&number)[32])
{
    return std::all_of(std::begin(number), std::end(number), [](uint8_t byte) { return byte == 0; });
}

// The index of a key in `needed key ... key keys CHECKMULTISIG`. None for other scripts, and for a
// key that is not in it.
std::optional<BlockmillSigners> IndexOfKey(const CScript& code, const std::vector<unsigned char>& key)
{
    if (code.size() < 3 || code.back() != OP_CHECKMULTISIG) return {};
    const unsigned char needed = code[0], keys = code[code.size() - 2];
    if (needed < OP_1 || keys < needed || keys > OP_16) return {};
    auto at = code.begin() + 1;
    for (int index = 0; index <= keys - OP_1; index++) {
        // Two opcodes follow the last key.
        const size_t left = code.end() - at;
        const size_t length = *at;
        if (left < length + 3) return {};
        if (std::equal(at + 1, at + 1 + length, key.begin(), key.end())) {
            const uint8_t first = OP_1 - 1;
            return BlockmillSigners{
                static_cast<uint8_t>(needed - first), static_cast<uint8_t>(keys - first),
                static_cast<uint16_t>(1 << index)};
        }
        at += 1 + length;
    }
    return {};
}

// As CPubKey::Verify reads a signature and a key. False: it would refuse them before it verifies.
bool EcdsaCheck(
    BlockmillCheck& check, const std::vector<unsigned char>& sig, const CPubKey& key,
    const uint256& hash)
{
    const secp256k1_context* context = secp256k1_context_static;
    check.kind = BLOCKMILL_ECDSA;
    if (key.size() == CPubKey::COMPRESSED_SIZE) {
        // Whether x is on the curve is a part of the check that is deferred.
        std::memcpy(check.key, key.data(), sizeof(check.key));
    } else {
        secp256k1_pubkey point;
        if (!secp256k1_ec_pubkey_parse(context, &point, key.data(), key.size())) return false;
        size_t length = sizeof(check.key);
        secp256k1_ec_pubkey_serialize(context, check.key, &length, &point, SECP256K1_EC_COMPRESSED);
    }
    secp256k1_ecdsa_signature parsed;
    if (!ecdsa_signature_parse_der_lax(&parsed, sig.data(), sig.size())) return false;
    secp256k1_ecdsa_signature_normalize(context, &parsed, &parsed);
    unsigned char numbers[64];
    secp256k1_ecdsa_signature_serialize_compact(context, numbers, &parsed);
    std::memcpy(check.r, numbers, 32);
    std::memcpy(check.s, numbers + 32, 32);
    std::memcpy(check.message, hash.begin(), 32);
    // Too large a number was parsed to zero. libsecp256k1 refuses zero before any arithmetic.
    return !IsZero(check.r) && !IsZero(check.s);
}

// A transaction whose witnesses have many items, in parts.
struct ManyItems {
    // Without them.
    std::vector<uint8_t> rest;
    // Each as it is serialized.
    std::vector<std::vector<uint8_t>> witnesses;
};

// None: they have few, or Core would not read the transaction.
std::optional<ManyItems> InParts(std::span<const uint8_t> bytes)
try {
    // Each item takes a byte. The marker and the flag of witnesses come after the version.
    if (bytes.size() < MANY_ITEMS || bytes[4] != 0 || bytes[5] != 1) return {};
    SpanReader reader{bytes.subspan(6)};
    std::vector<CTxIn> inputs;
    std::vector<CTxOut> outputs;
    reader >> inputs >> outputs;
    auto at = bytes.end() - reader.size();
    ManyItems parts{.rest{bytes.begin(), bytes.begin() + 4}, .witnesses{}};
    parts.rest.insert(parts.rest.end(), bytes.begin() + 6, at);
    uint64_t all = 0;
    for (size_t input = 0; input < inputs.size(); input++) {
        const uint64_t items = ReadCompactSize(reader);
        all += items;
        for (uint64_t item = 0; item < items; item++) reader.ignore(ReadCompactSize(reader));
        const auto end = bytes.end() - reader.size();
        parts.witnesses.emplace_back(at, end);
        at = end;
    }
    if (all <= MANY_ITEMS || reader.size() != 4) return {};
    parts.rest.insert(parts.rest.end(), at, bytes.end());
    return parts;
} catch (...) {
    return {};
}

} // namespace

struct BlockmillTransaction {
    CMutableTransaction tx;
    PrecomputedTransactionData data;
    // Empty where `data` has them.
    std::vector<CTxOut> spent;
    // The witnesses as they are serialized, where they have many items; else empty. `tx` then has an
    // empty item for each: signature hashes depend on whether there is a witness, not on what it is.
    std::vector<std::vector<uint8_t>> witnesses;
    uint64_t legacy_bytes;

    BlockmillTransaction(SpanReader& reader, const TransactionSerParams& form)
        : tx(deserialize, form, reader), legacy_bytes(BlockmillLegacyBytes(tx))
    {
    }

    void SetWitnesses(std::vector<std::vector<uint8_t>>&& serialized)
    {
        witnesses = std::move(serialized);
        for (size_t input = 0; input < tx.vin.size(); input++) {
            const bool is_empty = witnesses[input].front() == 0;
            tx.vin[input].scriptWitness.stack.resize(is_empty ? 0 : 1);
        }
    }

    const CTxOut& Spent(size_t input) const
    {
        return spent.empty() ? data.m_spent_outputs[input] : spent[input];
    }
};

void BlockmillRun::Stop()
{
    stopped = true;
    throw Stopped{};
}

void BlockmillRun::Hash(uint64_t bytes)
{
    report.hashed += bytes;
    if (ask != nullptr && report.hashed > limits.hashed) Stop();
}

bool BlockmillRun::DidNotSign(const BlockmillSigners& key) const
{
    if (ask == nullptr) return false;
    const uint16_t expected = guess(context, key.needed, key.keys);
    return expected != 0 && (expected & key.signers) == 0;
}

void BlockmillRun::Signed(const BlockmillSigners& key)
{
    const bool same = report.signers.needed == key.needed && report.signers.keys == key.keys;
    const uint16_t before = same ? report.signers.signers : 0;
    report.signers = key;
    report.signers.signers |= before;
}

bool BlockmillRun::Ask(const BlockmillCheck& check)
{
    switch (ask(context, &check)) {
    case BLOCKMILL_INVALID: return false;
    case BLOCKMILL_VALID: return true;
    default: Stop();
    }
}

BlockmillChecker::BlockmillChecker(
    const CMutableTransaction& tx, unsigned int input, const CAmount& amount,
    const PrecomputedTransactionData& data, uint64_t legacy_bytes, BlockmillRun& run)
    : BlockmillGenericChecker(&tx, input, amount, data, MissingDataBehavior::FAIL),
      m_run(run),
      m_legacy_bytes(legacy_bytes),
      m_output_bytes(input < tx.vout.size() ? tx.vout[input].scriptPubKey.size() : 0)
{
}

bool BlockmillChecker::CheckECDSASignature(
    const std::vector<unsigned char>& sig, const std::vector<unsigned char>& key,
    const CScript& code, SigVersion version) const
{
    std::optional<BlockmillSigners> signer;
    if (!sig.empty()) {
        signer = IndexOfKey(code, key);
        if (signer && m_run.DidNotSign(*signer)) {
            m_run.report.asked++;
            return false;
        }
        const bool legacy = version != SigVersion::WITNESS_V0;
        if (legacy && m_run.ask != nullptr && m_legacy_bytes > m_run.limits.legacy) m_run.Stop();
        const int type = sig.back();
        const bool single = (type & 0x1f) == SIGHASH_SINGLE;
        const bool none = (type & 0x1f) == SIGHASH_NONE;
        const size_t kind = (type & SIGHASH_ANYONECANPAY ? 3 : 0) + (single ? 2 : 0) + (none ? 1 : 0);
        // The code is copied for each check. A legacy one is also searched for the signature, and
        // twice for separators.
        uint64_t bytes = legacy ? 4 * code.size() : code.size();
        if (m_hashed[kind] != code) {
            m_hashed[kind] = code;
            bytes += legacy ? m_legacy_bytes : single ? m_output_bytes : 0;
        }
        m_run.Hash(bytes);
    }
    const bool valid = BlockmillGenericChecker::CheckECDSASignature(sig, key, code, version);
    if (valid && signer) m_run.Signed(*signer);
    return valid;
}

bool BlockmillChecker::VerifyECDSASignature(
    const std::vector<unsigned char>& sig, const CPubKey& key, const uint256& hash) const
{
    m_run.report.asked++;
    if (m_run.ask == nullptr) return BlockmillGenericChecker::VerifyECDSASignature(sig, key, hash);
    BlockmillCheck check;
    return EcdsaCheck(check, sig, key, hash) && m_run.Ask(check);
}

bool BlockmillChecker::VerifySchnorrSignature(
    std::span<const unsigned char> sig, const XOnlyPubKey& key, const uint256& hash) const
{
    m_run.report.asked++;
    if (m_run.ask == nullptr) return BlockmillGenericChecker::VerifySchnorrSignature(sig, key, hash);
    BlockmillCheck check;
    check.kind = BLOCKMILL_SCHNORR;
    check.key[0] = 2;
    std::memcpy(check.key + 1, key.data(), 32);
    std::memcpy(check.r, sig.data(), 32);
    std::memcpy(check.s, sig.data() + 32, 32);
    std::memcpy(check.message, hash.begin(), 32);
    return m_run.Ask(check);
}

// XOnlyPubKey::CheckTapTweak of the interpreter.
bool XOnlyPubKey::BlockmillCheckTapTweak(
    const XOnlyPubKey& internal, const uint256& merkle_root, bool parity) const
{
    BlockmillRun* run = current_run;
    if (run != nullptr) run->report.asked++;
    if (run == nullptr || run->ask == nullptr) {
        return BlockmillCoreTapTweak(*this, internal, merkle_root, parity);
    }
    const uint256 tweak = internal.ComputeTapTweakHash(&merkle_root);
    BlockmillCheck check{};
    check.kind = BLOCKMILL_TWEAK;
    check.key[0] = 2;
    std::memcpy(check.key + 1, internal.data(), 32);
    std::memcpy(check.r, data(), 32);
    std::memcpy(check.s, tweak.begin(), 32);
    check.message[0] = parity;
    return run->Ask(check);
}

BlockmillCurrentRun::BlockmillCurrentRun(BlockmillRun& run) : m_outer(current_run) { current_run = &run; }

BlockmillCurrentRun::~BlockmillCurrentRun() { current_run = m_outer; }

// Bytes of the transaction as a legacy signature hash has it, without the script of the input.
uint64_t BlockmillLegacyBytes(const CMutableTransaction& tx)
{
    uint64_t bytes = 18 + 41 * tx.vin.size();
    for (const CTxOut& output : tx.vout) bytes += 9 + output.scriptPubKey.size();
    return bytes;
}

namespace {

BlockmillEnd RunScripts(
    const BlockmillTransaction& transaction, size_t input, uint64_t flags, BlockmillRun& run) noexcept
{
    try {
        const CTxIn& in = transaction.tx.vin[input];
        const CTxOut& spent = transaction.Spent(input);
        std::unique_lock lock{many_items, std::defer_lock};
        CScriptWitness read;
        if (!transaction.witnesses.empty()) {
            SpanReader count{transaction.witnesses[input]}, reader{transaction.witnesses[input]};
            const uint64_t items = ReadCompactSize(count);
            if (items > MANY_ITEMS) lock.lock();
            // A vector that grows has its items twice for a while.
            read.stack.reserve(items);
            reader >> read.stack;
        }
        const CScriptWitness& witness = transaction.witnesses.empty() ? in.scriptWitness : read;
        run.report.script = in.scriptSig.size() + spent.scriptPubKey.size();
        for (const auto& element : witness.stack) run.report.script += element.size();
        // A checker of its own for each run: it keeps states of hashes.
        const BlockmillChecker checker{
            transaction.tx, static_cast<unsigned int>(input), spent.nValue,
            transaction.data, transaction.legacy_bytes, run};
        const BlockmillCurrentRun current{run};
        ScriptError error = SCRIPT_ERR_UNKNOWN_ERROR;
        const bool passed = VerifyScript(
            in.scriptSig, spent.scriptPubKey, &witness,
            script_verify_flags::from_int(flags), checker, &error);
        if (run.stopped) return BLOCKMILL_STOPPED;
        if (passed) return BLOCKMILL_PASSED;
        // EvalScript catches every exception, that of a failed allocation included, and says so with
        // this error. No rule of scripts has it. Core aborts there, in a handler for the whole
        // process, which is not a library's to set.
        return error == SCRIPT_ERR_UNKNOWN_ERROR ? BLOCKMILL_ERROR : BLOCKMILL_FAILED;
    } catch (...) {
        return run.stopped ? BLOCKMILL_STOPPED : BLOCKMILL_ERROR;
    }
}

} // namespace

extern "C" {

// Null: the bytes are no transaction, or it has another number of inputs.
BlockmillTransaction* blockmill_script_prepare(
    const uint8_t* bytes, size_t length, const BlockmillSpent* spent, size_t count) noexcept
{
    try {
        SpanReader reader{std::span{bytes, length}};
        auto parts = InParts({bytes, length});
        if (parts) reader = SpanReader{parts->rest};
        auto transaction = std::make_unique<BlockmillTransaction>(
            reader, parts ? TX_NO_WITNESS : TX_WITH_WITNESS);
        if (!reader.empty() || transaction->tx.vin.size() != count) return nullptr;
        if (parts) transaction->SetWitnesses(std::move(parts->witnesses));
        std::vector<CTxOut> outputs;
        outputs.reserve(count);
        bool taproot = false;
        for (const BlockmillSpent& output : std::span{spent, count}) {
            outputs.emplace_back(output.value, CScript(output.script, output.script + output.length));
            taproot |= IsTaproot(outputs.back().scriptPubKey);
        }
        // Core hashes the amounts and scripts of all spent outputs if it is given them. Only inputs
        // that spend Taproot outputs need that.
        if (taproot) {
            transaction->data.Init(transaction->tx, std::move(outputs));
        } else {
            transaction->data.Init(transaction->tx, {});
            transaction->spent = std::move(outputs);
        }
        return transaction.release();
    } catch (...) {
        return nullptr;
    }
}

void blockmill_script_free(BlockmillTransaction* transaction) noexcept { delete transaction; }

// An ordinary run.
int32_t blockmill_script_run(
    const BlockmillTransaction* transaction, size_t input, uint64_t flags,
    BlockmillReport* report) noexcept
{
    BlockmillRun run;
    const BlockmillEnd end = RunScripts(*transaction, input, flags, run);
    *report = run.report;
    return end;
}

// A recording run: `ask` answers, and `guess` guesses.
int32_t blockmill_script_record(
    const BlockmillTransaction* transaction, size_t input, uint64_t flags,
    const BlockmillLimits* limits, BlockmillAsk ask, BlockmillGuess guess, void* context,
    BlockmillReport* report) noexcept
{
    BlockmillRun run{.ask = ask, .guess = guess, .context = context, .limits = *limits};
    const BlockmillEnd end = RunScripts(*transaction, input, flags, run);
    *report = run.report;
    return end;
}

// What libsecp256k1 says: 1 for valid.
int32_t blockmill_script_check(const BlockmillCheck* check) noexcept
{
    const secp256k1_context* context = secp256k1_context_static;
    unsigned char signature[64];
    std::memcpy(signature, check->r, 32);
    std::memcpy(signature + 32, check->s, 32);
    if (check->kind == BLOCKMILL_ECDSA) {
        secp256k1_pubkey key;
        secp256k1_ecdsa_signature parsed;
        return secp256k1_ec_pubkey_parse(context, &key, check->key, sizeof(check->key)) &&
               secp256k1_ecdsa_signature_parse_compact(context, &parsed, signature) &&
               secp256k1_ecdsa_verify(context, &parsed, check->message, &key);
    }
    secp256k1_xonly_pubkey key;
    if (!secp256k1_xonly_pubkey_parse(context, &key, check->key + 1)) return 0;
    if (check->kind == BLOCKMILL_SCHNORR) {
        return secp256k1_schnorrsig_verify(context, signature, check->message, 32, &key);
    }
    // No point has another parity than 0 or 1.
    const int parity = check->message[0];
    return secp256k1_xonly_pubkey_tweak_add_check(context, check->r, parity, &key, check->s);
}

} // extern "C"
