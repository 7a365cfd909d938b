# Core's kernel library without debug information, which is a quarter of its build: the same code, -O2.
set(APPEND_CFLAGS "-g0" CACHE STRING "")
set(APPEND_CXXFLAGS "-g0" CACHE STRING "")
