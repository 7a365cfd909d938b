// EvalScript alone, for the tests: no program that does not call it links this object.
#include "shim.h"

#include <algorithm>

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
    BlockmillAsk ask, void* context, uint8_t* stack, size_t room, BlockmillEval* result) noexcept
{
    static const World world;
    BlockmillRun run{.ask = ask, .context = context, .limits = {~uint64_t{0}, ~uint64_t{0}}};
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

} // extern "C"
