// From a run file to what it asks for, whatever the number of ranks.
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

/// What a run file is read for.
///   run     the tensors that `run` reads have to be there
///   plan    no matter which strategy it names: `plan` shows all, and what `auto` would take
///   verify  a result that another launch made
///   train   the target has to be there, too, and both passes are made
enum class Purpose { run, plan, verify, train };

/// A run file as the command line names it.
struct RunFileArguments {
  std::string file;
  std::vector<std::string> overrides;  ///< of --set
};

/// A checked run file with everything that follows from it and from the files that it names.
struct Request {
  runfile::RunFile run;
  std::optional<store::TensorFile> input;       ///< empty: the tensors are generated, or a layer makes them
  std::optional<store::LayerFile> layer_input;  ///< of a run file with a section layer
  strategies::Problem problem;                  ///< with a section layer its attention
  std::optional<layer::LayerProblem> layer;
  std::vector<store::TensorSpec> results;  ///< datasets of the result of `run`
  /// Sink logits of all heads; empty: none.
  const std::vector<double>& sink() const {
    static const std::vector<double> none;
    return input ? input->sink() : none;
  }
  /// Set where this is one slice of a larger request: `problem` is then the slice alone, `results` the whole request's.
  std::optional<strategies::Slice> slice;

  /// Extents of the tensors in files. With input.lengths `problem` has their batch entries end to end, as one.
  core::Shape file_shape() const { return input ? input->shape() : layer_input ? layer_input->shape() : problem.shape; }
  /// Rows of q, and whether they are other ones than those of k.
  Index query_rows() const {
    if (input) return input->query_rows();
    return layer_input ? layer_input->query_rows() : run.settings.input.generate->query_rows();
  }
  bool has_own_queries() const { return query_rows() != file_shape().sequence; }
  bool is_end_to_end() const { return run.settings.input.lengths.has_value(); }

  /// Files beside input.file that its datasets are made of.
  const std::map<std::string, store::FileState>& other_input_files() const {
    static const std::map<std::string, store::FileState> none;
    return input ? input->inspected().others : layer_input ? layer_input->inspected().others : none;
  }

  /// The order of axes in the input and in the result.
  core::AxisOrder order() const { return input ? input->order() : core::AxisOrder::bshd; }
};

/// Reads and checks the run file and the shapes of the input; collective. Throws the same Error on every rank: usage
/// for the run file, failure for the input file.
Request read_request(const RunFileArguments& words, Purpose purpose, const comm::Communicator& comm);
/// The same of a run file that every rank has read.
Request make_request(runfile::RunFile run, Purpose purpose, const comm::Communicator& comm);

/// What the run wants of its back end.
kernels::WantedOfBackend wanted_of(const runfile::Settings& settings, const strategies::Problem& problem);

/// The strategy of this name, nullptr for `auto`. Throws Error(usage) where there is no such strategy.
const strategies::Strategy* named_strategy(const runfile::RunFile& run);

}  // namespace annulus::app
