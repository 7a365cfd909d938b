#ifndef BLOCKMILL_SCRIPT_TWEAK_H
#define BLOCKMILL_SCRIPT_TWEAK_H

class XOnlyPubKey;
class uint256;

bool BlockmillCoreTapTweak(
    const XOnlyPubKey& output, const XOnlyPubKey& internal, const uint256& merkle_root, bool parity);

#endif // BLOCKMILL_SCRIPT_TWEAK_H
