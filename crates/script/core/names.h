// Names of our own for Core's source. Every file of this crate's C++ is compiled with this file
// before it.
//
// A program may link Core's kernel library, or another copy of libsecp256k1, beside this crate.
// Two definitions of one name would be an error of the linker, or one would stand in for the
// other, depending on the order of the libraries. So every name with external linkage gets a
// prefix. A test reads the symbols of the compiled objects and finds what is missing here.
#ifndef BLOCKMILL_SCRIPT_NAMES_H
#define BLOCKMILL_SCRIPT_NAMES_H

#include "secp256k1_names.h"

// Interpreter.
#define BaseSignatureChecker BlockmillBaseSignatureChecker
#define CastToBool BlockmillCastToBool
#define CheckSignatureEncoding BlockmillCheckSignatureEncoding
#define ComputeTapbranchHash BlockmillComputeTapbranchHash
#define ComputeTapleafHash BlockmillComputeTapleafHash
#define ComputeTaprootMerkleRoot BlockmillComputeTaprootMerkleRoot
#define CountWitnessSigOps BlockmillCountWitnessSigOps
#define DeferringSignatureChecker BlockmillDeferringSignatureChecker
#define EvalScript BlockmillEvalScript
#define FindAndDelete BlockmillFindAndDelete
#define GenericTransactionSignatureChecker BlockmillGenericTransactionSignatureChecker
#define GetScriptFlagNames BlockmillGetScriptFlagNames
#define HASHER_TAPBRANCH BLOCKMILL_HASHER_TAPBRANCH
#define HASHER_TAPLEAF BLOCKMILL_HASHER_TAPLEAF
#define HASHER_TAPSIGHASH BLOCKMILL_HASHER_TAPSIGHASH
#define PrecomputedTransactionData BlockmillPrecomputedTransactionData
#define ScriptExecutionData BlockmillScriptExecutionData
#define ScriptFlagNamesToEnum BlockmillScriptFlagNamesToEnum
#define SigHashCache BlockmillSigHashCache
#define SignatureHash BlockmillSignatureHash
#define SignatureHashSchnorr BlockmillSignatureHashSchnorr
#define SigVersion BlockmillSigVersion
#define VerifyScript BlockmillVerifyScript

// Scripts.
#define CheckMinimalPush BlockmillCheckMinimalPush
#define CScript BlockmillCScript
#define CScriptID BlockmillCScriptID
#define CScriptNum BlockmillCScriptNum
#define CScriptWitness BlockmillCScriptWitness
#define GetOpName BlockmillGetOpName
#define GetScriptOp BlockmillGetScriptOp
#define IsOpSuccess BlockmillIsOpSuccess
#define scriptnum_error blockmill_scriptnum_error

// Transactions.
#define CMutableTransaction BlockmillCMutableTransaction
#define COutPoint BlockmillCOutPoint
#define CTransaction BlockmillCTransaction
#define CTxIn BlockmillCTxIn
#define CTxOut BlockmillCTxOut
#define transaction_identifier blockmill_transaction_identifier
#define TransactionSerParams BlockmillTransactionSerParams

// Keys.
#define CExtPubKey BlockmillCExtPubKey
#define CPubKey BlockmillCPubKey
#define ecdsa_signature_parse_der_lax blockmill_ecdsa_signature_parse_der_lax
#define EllSwiftPubKey BlockmillEllSwiftPubKey
#define XOnlyPubKey BlockmillXOnlyPubKey

// Hashes.
#define BIP32Hash BlockmillBIP32Hash
#define CHMAC_SHA512 BlockmillCHMAC_SHA512
#define CRIPEMD160 BlockmillCRIPEMD160
#define CSHA1 BlockmillCSHA1
#define CSHA256 BlockmillCSHA256
#define CSHA512 BlockmillCSHA512
#define HashWriter BlockmillCoreHashWriter
#define MurmurHash3 BlockmillMurmurHash3
#define sha256_arm_shani blockmill_sha256_arm_shani
#define sha256_sse4 blockmill_sha256_sse4
#define sha256_x86_shani blockmill_sha256_x86_shani
#define SHA256AutoDetect BlockmillSHA256AutoDetect
#define SHA256D64 BlockmillSHA256D64
#define sha256d64_arm_shani blockmill_sha256d64_arm_shani
#define sha256d64_avx2 blockmill_sha256d64_avx2
#define sha256d64_sse41 blockmill_sha256d64_sse41
#define sha256d64_x86_shani blockmill_sha256d64_x86_shani
#define SHA256Uint256 BlockmillSHA256Uint256
#define TaggedHash BlockmillTaggedHash

// Numbers, bytes, streams.
#define base_blob blockmill_base_blob
#define HexDigit BlockmillHexDigit
#define HexStr BlockmillHexStr
#define memory_cleanse blockmill_memory_cleanse
#define ParamsStream BlockmillParamsStream
#define prevector blockmill_prevector
#define ReadCompactSize BlockmillReadCompactSize
#define SizeComputer BlockmillSizeComputer
#define SpanReader BlockmillSpanReader
#define tinyformat blockmill_tinyformat
#define uint160 blockmill_uint160
#define uint256 blockmill_uint256
#define WriteCompactSize BlockmillWriteCompactSize

#endif // BLOCKMILL_SCRIPT_NAMES_H
