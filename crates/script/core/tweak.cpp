// Core's own check of a taproot commitment, for ordinary runs.
#include <pubkey.h>

#include "tweak.h"

bool BlockmillCoreTapTweak(
    const XOnlyPubKey& output, const XOnlyPubKey& internal, const uint256& merkle_root, bool parity)
{
    return output.CheckTapTweak(internal, merkle_root, parity);
}
