// From settings to a job: the problem, the strategy and who holds which rows. Shared by `run`, `run --dry-run` and
// `plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/io/run_file.hpp"
#include "annulus/io/tensor_file.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {

using core::Index;

/// A checked run file with everything that follows from it.
struct Job {
  io::RunFile run;
  std::optional<io::TensorFile> input;  ///< empty: the tensors are generated
  strategies::Problem problem;
  const strategies::Strategy* strategy = nullptr;
  bool chosen = false;  ///< by `auto`
  std::string reason;   ///< why `auto` chose it
  pattern::Partition partition;
};

/// Reads and checks the run file and the input's shapes; strategy and partition stay open. Collective. Throws as
/// make_job().
Job read_job(const std::string& run_file, const std::vector<std::string>& overrides, const comm::Communicator& comm);

/// Reads and checks the run file and the input's shapes for `ranks` ranks; collective. Throws the same Error on every
/// rank: usage for the run file, failure for the input file.
Job make_job(const std::string& run_file, const std::vector<std::string>& overrides, int ranks,
             const comm::Communicator& comm);

/// "longnet, causal, 2 pairs (2048, 1) (all, 4)".
std::string describe_pattern(const strategies::Problem& problem);
/// "1 x 65536 rows, 8 heads of 64 (2 key/value heads), float32".
std::string describe_shape(const strategies::Problem& problem);
/// What a reproducible problem is promised, and how it is computed.
std::string describe_reproducible(const strategies::Problem& problem);
/// "1.5 GiB".
std::string describe_bytes(double bytes);

}  // namespace annulus::app
