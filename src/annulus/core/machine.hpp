// The numbers about a machine that a plan needs: how fast a rank computes, copies and sends messages. They come from a
// machine file, a calibration or the built-in default.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::core {

/// A rate of the kernel, for heads of at most head_dim numbers.
struct KernelRate {
  Index head_dim = 256;
  double seconds_per_gflop = 1;  ///< time of one rank while all ranks of its node compute
};

/// Latency of a message, and its time per byte (1 / bandwidth), while all ranks send at once.
struct Link {
  double seconds_per_message = 0;
  double seconds_per_byte = 0;
};

struct Machine {
  std::string source = "built-in default";  ///< where the numbers come from, for the user
  std::vector<KernelRate> kernel;           ///< ascending head_dim; the last rate serves all larger heads
  double float64_factor = 2;                ///< time of float64 arithmetic / time of float32
  double half_factor = 1.1;                 ///< time with float16 or bfloat16 tensors / with float32
  /// Time with products of the named precision / with products of float32, whatever type the tensors have.
  double bfloat16_factor = 1.1, three_bfloat16_factor = 1.1, six_bfloat16_factor = 1;
  double single_factor = 1;  ///< time of a rank alone on its node / time by the rates above
  Link inside_node;
  Link between_nodes;
  double overlap = 0.6;                    ///< share of a transfer's time that compute can hide, 0 ... 1
  double seconds_per_copied_byte = 1e-9;   ///< to collect rows for a message
  double seconds_per_call = 5e-6;          ///< to prepare and start the kernel's work on one pair and one block of keys
  double seconds_per_row = 1e-7;           ///< to pack a row of one head for one pair, and for its running softmax
  double seconds_per_communicator = 5e-5;  ///< to make and free a communicator with all ranks
  Link window = {5e-4, 1e-9};              ///< to make, fill and free an MPI window; seconds_per_message is per window
  double seconds_per_interval = 1e-5;      ///< to plan, collect and start work, per interval of rows
  double read_rate = 1e9;  ///< bytes per second that a rank reads from an uncached file while all ranks read
  Index ranks_per_node = 1;
  double memory_per_rank = 0;  ///< bytes
  std::string memory_source;   ///< what sets memory_per_rank, for messages; empty: `source`
  double window_per_rank = std::numeric_limits<double>::infinity();  ///< bytes of MPI windows that a rank may have
  std::string window_source;                                         ///< where MPI windows have their memory, for users

  /// Returns what sets memory_per_rank, for messages.
  const std::string& why_this_memory() const { return memory_source.empty() ? source : memory_source; }
  /// Returns the seconds that one rank needs for a GFLOP of attention.
  double seconds_per_gflop(Index head_dim, DType type, Precision precision) const;
  /// Sets bfloat16_factor and the two factors after it to values that are typical of this process' instruction set.
  void take_own_products();
};

/// Typical numbers of a present-day cluster: a rank is one core at 30 to 60 GFLOP/s, a node has 16 ranks of 4 GiB each.
Machine default_machine();

}  // namespace annulus::core
