//! Script verification by Bitcoin Core's interpreter, with signature checks put off and verified many at a time.
