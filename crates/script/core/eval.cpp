// EvalScript and the writer of hashes alone, for the tests: no program that does not call them
// links this object.
#include "shim.h"

#include <algorithm>
#include <span>

namespace {

// Two inputs and an output. The second hash types need more than one.
CMutableTransaction TestTransaction()
{
    CMutableTransaction tx;
    tx.version = 2;
    tx.vin.resize(2);
    tx.vout.resize(1);
    tx.vout[0].nValue = 4000;
    for (CTxIn& in : tx.vin) in.scriptWitness.stack.push_back({1});
    return tx;
}

struct World {
    const CMutableTransaction tx{TestTransaction()};
    PrecomputedTransactionData data;

    World()
    {
        const CScript taproot = CScript() << OP_1 << std::vector<unsigned char>(32, 5);
        data.Init(tx, {CTxOut(5000, taproot), CTxOut(7000, CScript() << OP_1)}, true);
    }
};

} // namespace

extern "C" {

struct BlockmillEval {
    // Out: what EvalScript returned, and its error.
    int32_t passed;
    int32_t error;
    int32_t stopped;
    // Out: bytes of the stack that it left, with lengths before the elements; at most `room` are
    // written.
    size_t length;
};

// `version`: 0 base, 1 witness 0, 3 tapscript. Input 0 is run.
void blockmill_script_eval(
    const uint8_t* script, size_t length, int32_t version, uint64_t flags, int64_t weight,
    BlockmillAsk ask, BlockmillGuess guess, void* context, uint8_t* stack, size_t room,
    BlockmillEval* result) noexcept
{
    static const World world;
    BlockmillRun run{.ask = ask, .guess = guess, .context = context, .limits = {~uint64_t{0}, ~uint64_t{0}}};
    ScriptExecutionData data;
    data.m_tapleaf_hash_init = data.m_codeseparator_pos_init = true;
    data.m_annex_init = data.m_validation_weight_left_init = true;
    data.m_tapleaf_hash = uint256::ONE;
    data.m_codeseparator_pos = 0xffffffff;
    data.m_annex_present = false;
    data.m_validation_weight_left = weight;
    std::vector<std::vector<unsigned char>> elements;
    ScriptError error = SCRIPT_ERR_UNKNOWN_ERROR;
    const CScript code(script, script + length);
    const uint64_t legacy = BlockmillLegacyBytes(world.tx);
    const BlockmillChecker checker{world.tx, 0, 5000, world.data, legacy, run};
    const BlockmillCurrentRun current{run};
    result->passed = EvalScript(
        elements, code, script_verify_flags::from_int(flags), checker,
        static_cast<SigVersion>(version), data, &error);
    result->error = error;
    result->stopped = run.stopped;
    std::vector<unsigned char> bytes;
    for (const auto& element : elements) {
        bytes.push_back(element.size() & 0xff);
        bytes.push_back(element.size() >> 8);
        bytes.insert(bytes.end(), element.begin(), element.end());
    }
    result->length = bytes.size();
    std::copy_n(bytes.begin(), std::min(room, bytes.size()), stack);
}

// Hashes that a writer comes to which is given bytes in pieces. An odd number among `pieces` says
// that the writer is copied before; half of it is the length.
void blockmill_script_hash(
    const uint8_t* bytes, const size_t* pieces, size_t count, uint8_t* twice, uint8_t* once) noexcept
{
    HashWriter writer;
    for (const size_t piece : std::span{pieces, count}) {
        if (piece % 2 == 1) {
            HashWriter other;
            other << uint64_t{1};
            other = writer;
            const HashWriter copy{other};
            writer << uint64_t{2};
            writer = copy;
        }
        writer.write(std::as_bytes(std::span{bytes, piece / 2}));
        bytes += piece / 2;
    }
    const uint256 hash_once = HashWriter{writer}.GetSHA256();
    const uint256 hash_twice = writer.GetHash();
    std::copy(hash_once.begin(), hash_once.end(), once);
    std::copy(hash_twice.begin(), hash_twice.end(), twice);
}

} // extern "C"
