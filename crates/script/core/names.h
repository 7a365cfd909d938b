// Names for the second interpreter.
//
// Core's script/interpreter.cpp is compiled once more in this crate, and the kernel library has its
// own. A program may link both. Every name with external linkage that interpreter.h declares gets a
// prefix here, so no symbol of one can stand in for a symbol of the other. Every source file of
// this crate that includes interpreter.h includes this file first. A test reads the symbols of the
// compiled objects and finds what is missing here.
//
// HashWriter is one of ours, with a buffer (hash_writer.h).
//
// CheckTapTweak is a member of XOnlyPubKey. Under its new name the class has a function that this
// crate defines (shim.cpp); tweak.cpp, which does not include this file, calls Core's.
#ifndef BLOCKMILL_SCRIPT_NAMES_H
#define BLOCKMILL_SCRIPT_NAMES_H

#include "hash_writer.h"

#define CheckTapTweak BlockmillCheckTapTweak

#define BaseSignatureChecker BlockmillBaseSignatureChecker
#define DeferringSignatureChecker BlockmillDeferringSignatureChecker
#define GenericTransactionSignatureChecker BlockmillGenericTransactionSignatureChecker
#define HashWriter BlockmillHashWriter
#define PrecomputedTransactionData BlockmillPrecomputedTransactionData
#define ScriptExecutionData BlockmillScriptExecutionData
#define SigHashCache BlockmillSigHashCache
#define SigVersion BlockmillSigVersion

#define CastToBool BlockmillCastToBool
#define CheckSignatureEncoding BlockmillCheckSignatureEncoding
#define ComputeTapbranchHash BlockmillComputeTapbranchHash
#define ComputeTapleafHash BlockmillComputeTapleafHash
#define ComputeTaprootMerkleRoot BlockmillComputeTaprootMerkleRoot
#define CountWitnessSigOps BlockmillCountWitnessSigOps
#define EvalScript BlockmillEvalScript
#define FindAndDelete BlockmillFindAndDelete
#define GetScriptFlagNames BlockmillGetScriptFlagNames
#define HASHER_TAPBRANCH BLOCKMILL_HASHER_TAPBRANCH
#define HASHER_TAPLEAF BLOCKMILL_HASHER_TAPLEAF
#define HASHER_TAPSIGHASH BLOCKMILL_HASHER_TAPSIGHASH
#define ScriptFlagNamesToEnum BlockmillScriptFlagNamesToEnum
#define SignatureHash BlockmillSignatureHash
#define SignatureHashSchnorr BlockmillSignatureHashSchnorr
#define VerifyScript BlockmillVerifyScript

#endif // BLOCKMILL_SCRIPT_NAMES_H
