// Core's interpreter, unchanged but for its names and its writer of hashes.
#include "replaced.h"

#include <script/interpreter.cpp>
