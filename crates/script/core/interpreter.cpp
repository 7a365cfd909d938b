// Core's interpreter, unchanged but for its names.
#include "names.h"

#include <script/interpreter.cpp>
