// What a fuzz target provides. Built with clang and -DSLIP_FUZZ=ON, libFuzzer drives the first function;
// otherwise driver.cpp does, starting from the seeds. Only slip::Error may come out of the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

/// Inputs that are good, or nearly so, to start from.
std::vector<std::string> fuzz_seeds();

/// Stops the process on the spot, so that the driver can keep the input.
inline void fuzz_check(bool holds) {
  if (!holds) __builtin_trap();
}
