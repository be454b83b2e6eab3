// From settings to a job: the problem, the strategy and who holds which rows. Shared by `run`, `run --dry-run` and
// `plan`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/core/machine.hpp"
#include "annulus/io/layer_file.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/io/tensor_file.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {

using core::Index;

/// A checked run file with everything that follows from it.
struct Job {
  io::RunFile run;
  std::optional<io::TensorFile> input;  ///< empty: the tensors are generated, or a layer makes them
  std::optional<io::LayerFile> layer;   ///< of a run file with a section layer; `problem` is its attention
  strategies::Problem problem;
  core::Machine machine;  ///< that `auto` goes by
  const strategies::Strategy* strategy = nullptr;
  bool chosen = false;  ///< by `auto`
  std::string reason;   ///< why `auto` chose it
  pattern::Partition partition;
  std::string lesser_tiles;  ///< why some rank could use a better instruction set than it does; empty: none could
};

/// What a job is for: it decides which datasets are looked at.
enum class Purpose { run, train };

/// Reads and checks the run file and the input's shapes; all that depends on the number of ranks stays open.
/// Collective. Throws as make_job().
Job read_job(const std::string& run_file, const std::vector<std::string>& overrides, const comm::Communicator& comm,
             Purpose purpose = Purpose::run);

/// Puts in what depends on the number of ranks and is no decision: the machine, of `file` or else of the run file or
/// the nodes at hand, and the groups of `hybrid`. What `auto` says of the job then is what it does in a run.
/// Collective.
void complete(Job& job, int ranks, const std::optional<std::string>& file, const comm::Communicator& comm);

/// Reads and checks the run file and the input's shapes for `ranks` ranks; collective. Throws the same Error on every
/// rank: usage for the run file, failure for the input file.
Job make_job(const std::string& run_file, const std::vector<std::string>& overrides, int ranks,
             const comm::Communicator& comm, Purpose purpose = Purpose::run);

/// "longnet, causal, 2 pairs (2048, 1) (all, 4)".
std::string describe_pattern(const strategies::Problem& problem);
/// "1 x 65536 rows, 8 heads of 64 (2 key/value heads), float32".
std::string describe_shape(const strategies::Problem& problem);
/// The same of a job, and how the input's axes lie: "..., float32 (axes bshd)".
std::string describe_tensors(const Job& job);
/// What the user should know of the problem, a line each: segments longer than everything that they cut.
std::vector<std::string> notes_on(const strategies::Problem& problem);
/// What a reproducible problem is promised, and how it is computed.
std::string describe_reproducible(const strategies::Problem& problem);
/// "1.5 GiB".
std::string describe_bytes(double bytes);

}  // namespace annulus::app
