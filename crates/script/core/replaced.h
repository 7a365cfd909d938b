// The two parts of Core that the interpreter has ours for. Its source includes this file first.
//
// HashWriter is one of ours, with a buffer (hash_writer.h).
//
// CheckTapTweak is a member of XOnlyPubKey. Under its new name the class has a function that this
// crate defines (shim.cpp); tweak.cpp, which does not include this file, calls Core's.
#ifndef BLOCKMILL_SCRIPT_REPLACED_H
#define BLOCKMILL_SCRIPT_REPLACED_H

#include "hash_writer.h"

#undef HashWriter
#define HashWriter BlockmillHashWriter

#define CheckTapTweak BlockmillCheckTapTweak

#endif // BLOCKMILL_SCRIPT_REPLACED_H
