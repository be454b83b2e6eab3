// This rank's rows on their way from the input into memory, and from there into the result.
#pragma once

#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::app {

/// A buffer's bytes as the host sees them: the buffer itself, or (GPU builds) a copy.
class HostSide {
 public:
  HostSide(void* device, Index bytes);
  explicit HostSide(const core::Buffer& buffer) : HostSide(buffer.data(), buffer.bytes()) {}

  void* data() { return copy_.empty() ? device_ : copy_.data(); }
  void to_device();
  void from_device();

 private:
  void* device_;
  Index bytes_;
  std::vector<std::byte> copy_;
};

/// Datasets of the result: out, lse, and with compute.backward dq, dk, dv; with the input's order of axes.
std::vector<io::TensorSpec> result_tensors(const Job& job);

// All of these are collective and throw the same Error on every rank.

/// q and kv, read or generated.
strategies::Tensors load_inputs(const Job& job, const comm::Communicator& comm);
/// dout, and dlse where there is one, read or generated.
void load_gradients(const Job& job, const comm::Communicator& comm, strategies::Tensors& tensors);

/// out and lse, which have to be numbers; returns what the lse tells.
LseFindings write_outputs(const Job& job, const comm::Communicator& comm, const strategies::Tensors& tensors,
                          const io::ResultFile& file);
/// dq, dk and dv, which have to be numbers.
void write_gradients(const Job& job, const comm::Communicator& comm, const strategies::Tensors& tensors,
                     const io::ResultFile& file);

}  // namespace annulus::app
