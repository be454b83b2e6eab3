// The few functions of NCCL that carry messages, looked up in its library when they are first needed: the program also
// starts where the library is missing, and tests put a fake in their place.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

namespace annulus::comm {

/// NCCL's results that mean something here; all others are errors.
inline constexpr int nccl_success = 0;
inline constexpr int nccl_in_progress = 7;

/// Communicators of NCCL are handles, and so are streams. Each returns one of NCCL's results.
struct NcclFunctions {
  using Handle = void*;
  using Id = std::array<char, 128>;

  std::function<int(Id*)> make_id;
  /// Without blocking: the communicator can be used when its state is success.
  std::function<int(Handle*, int ranks, const Id&, int rank)> init;
  /// What has become of what was asked for: success, in progress, or what failed.
  std::function<int(Handle, int* state)> state;
  std::function<int()> begin_group;
  std::function<int()> end_group;
  std::function<int(const void*, std::size_t bytes, int peer, Handle, void* stream)> send;
  std::function<int(void*, std::size_t bytes, int peer, Handle, void* stream)> receive;
  std::function<int(Handle)> finalize;
  std::function<int(Handle)> destroy;
  std::function<int(Handle)> abort;
  std::function<std::string(int result)> name_of;
  std::string version;  ///< "2.28.9"
};

/// Why this process has no NCCL: the build, or the library that was not found; empty where it has.
std::string why_no_nccl();

/// Those of the library. Throws Error(usage) with why_no_nccl().
const NcclFunctions& nccl_library();

}  // namespace annulus::comm
