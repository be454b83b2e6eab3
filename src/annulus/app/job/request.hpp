// A run file, and everything that follows from it and does not depend on the number of ranks.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "annulus/kernels/backend_description.hpp"
#include "annulus/layer/weights.hpp"
#include "annulus/runfile/run_file.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/store/result_layout.hpp"
#include "annulus/strategies/slices.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {

using core::Index;

/// The purpose for which a run file is read.
/// run     the tensors that `run` reads must exist
/// plan    the strategy does not matter: `plan` shows all strategies, and which one `auto` would choose
/// verify  another launch has made the result
/// train   the target must exist, too, and both passes are computed
enum class Purpose { run, plan, verify, train };

/// The run file and the options of the command line that belong to it.
struct RunFileArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< the values of --set
};

/// A checked run file, and what follows from it and from the files that it names.
struct Request {
  runfile::RunFile run;
  std::optional<store::InputFile> input;  ///< tensors of attention, or of the layer; empty: tensors are generated
  strategies::Problem problem;            ///< attention; for a layer, the attention inside it
  std::optional<layer::LayerProblem> layer;
  std::vector<store::TensorSpec> results;  ///< datasets that `run` writes
  /// Sink logits, one for each query head; empty: the attention has none.
  const std::vector<double>& sink() const {
    static const std::vector<double> none;
    return input ? input->sink() : none;
  }
  /// Set if this is one slice of a larger request. Then `problem` is the slice's problem, but `results` are the
  /// datasets of the whole request.
  std::optional<strategies::Slice> slice;

  /// Extents of the tensors in files. With input.lengths, `problem` has one batch entry instead: all entries end to
  /// end. But if the lengths apply only to k and v, `problem` has all entries, and Problem::key_ranges is set.
  core::Shape file_shape() const { return input ? input->shape() : problem.shape; }
  /// Number of rows of q, which may differ from the rows of k.
  Index query_rows() const { return input ? input->query_rows() : run.settings.input.generate->query_rows(); }
  bool has_own_queries() const { return query_rows() != file_shape().sequence; }
  bool is_end_to_end() const {
    return run.settings.input.lengths.has_value() && !run.settings.input.has_lengths_of_keys();
  }

  /// Files other than input.file that contain parts of its datasets.
  const std::map<std::string, store::FileState>& other_input_files() const {
    static const std::map<std::string, store::FileState> none;
    return input ? input->inspected().others : none;
  }

  /// The order of axes in the input and in the result.
  core::AxisOrder order() const { return input ? input->order() : core::AxisOrder::bshd; }
};

/// Reads the run file, and checks it and the shapes of the input. Collective. Throws the same Error on every rank:
/// usage for the run file, failure for the input file.
Request read_request(const RunFileArguments& words, Purpose purpose, const comm::Communicator& comm);
/// The same for a run file that every rank has read already.
Request make_request(runfile::RunFile run, Purpose purpose, const comm::Communicator& comm);

/// Returns what the run needs from its back end.
kernels::WantedOfBackend wanted_of(const runfile::Settings& settings, const strategies::Problem& problem);

/// The strategy that the run file names; nullptr for `auto`. Throws Error(usage) if no strategy has this name.
const strategies::Strategy* named_strategy(const runfile::RunFile& run);

}  // namespace annulus::app
