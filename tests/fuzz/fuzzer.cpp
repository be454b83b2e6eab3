// The functions that libFuzzer calls.
#include <memory>

#include "annulus/comm/runtime.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static annulus::comm::Runtime* const runtime =
      new annulus::comm::Runtime(*argc, *argv);  // for as long as the process
  return runtime == nullptr ? 1 : 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  annulus::fuzz::fuzz_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
