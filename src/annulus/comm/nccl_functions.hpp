// The few functions of NCCL that carry messages. They are looked up in NCCL's library at first use, so that the program
// also starts without the library, and so that tests can replace the functions.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <string>

namespace annulus::comm {

/// The results of NCCL that we distinguish; all others are errors.
inline constexpr int nccl_success = 0;
inline constexpr int nccl_in_progress = 7;

/// A Handle is an ncclComm_t, a stream is a cudaStream_t. Each function that returns int returns one of NCCL's results.
struct NcclFunctions {
  using Handle = void*;
  using Id = std::array<char, 128>;

  std::function<int(Id*)> make_id;
  /// Does not block. The communicator can be used as soon as its state is success.
  std::function<int(Handle*, int ranks, const Id&, int rank)> init;
  /// Sets `state` to the result of the last call on the communicator: success, in progress, or an error.
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

/// Returns why this process has no NCCL (for example: its library was not found); empty if it has NCCL.
std::string why_no_nccl();

/// Returns the functions of NCCL's library. If there are none, throws Error(usage) with the text of why_no_nccl().
const NcclFunctions& nccl_library();

}  // namespace annulus::comm
