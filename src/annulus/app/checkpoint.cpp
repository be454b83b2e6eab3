#include "annulus/app/checkpoint.hpp"

#include <filesystem>

#include "annulus/app/record.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/root.hpp"

namespace annulus::app {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;

/// What every checkpoint has, whoever made it.
struct FoundCheckpoint {
  Index steps;       ///< done
  io::RunFile made;  ///< with these settings
};

FoundCheckpoint look_at_checkpoint(const std::string& file, const Job& job) {
  try {
    const std::vector<Index> losses = io::look_at_dataset(file, "loss").extents;
    if (losses.size() != 1) {
      fail(ErrorKind::failure, "{}: dataset loss has {} axes, expected one, with a number per step", file,
           losses.size());
    }
    const std::string settings = io::read_text_dataset(file, "/run/settings");
    return {losses[0], io::parse_run_file(settings, file + ":/run/settings", {})};
  } catch (const std::exception& error) {  // another HDF5 file, or none, or of another version: it names the file
    fail(ErrorKind::failure,
         "{}train.checkpoint: the file that is there is no checkpoint: {}; expected one of this training, or none",
         job.run.where("train.checkpoint"), error.what());
  }
}

/// Throws unless the file is a checkpoint of this training; returns the steps done. On rank 0.
Index check_checkpoint(const std::string& file, const Job& job, const layer::LayerProblem& problem) {
  const auto check = [&](const std::string& name, const std::vector<Index>& extents, DType type) {
    const io::DatasetInfo here = io::look_at_dataset(file, name);
    if (here.extents == extents && here.type == type) return;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) of a checkpoint of {}", file, name,
         core::name_of(here.type), fmt::join(here.extents, ", "), core::name_of(type), fmt::join(extents, ", "),
         job.run.name);
  };
  const FoundCheckpoint found = look_at_checkpoint(file, job);
  const Index steps = found.steps;
  check("loss", {steps}, DType::float64);
  const std::vector<std::string> changes = io::differences(found.made.settings, job.run.settings);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: this checkpoint was made with other settings than {} has now: {}", file, job.run.name,
         fmt::join(changes, "; "));
  }
  for (const io::TensorSpec& weight : weight_specs("", problem)) check(weight.name, weight.extents, weight.type);
  if (steps > job.run.settings.train->steps) {
    fail(ErrorKind::usage, "{}train.steps is {}, and {} has {} steps done", job.run.where("train.steps"),
         job.run.settings.train->steps, file, steps);
  }
  return steps;
}

}  // namespace

std::optional<TrainingState> load_checkpoint(const Job& job, const layer::LayerProblem& problem,
                                             const comm::Communicator& comm) {
  const comm::Place place("the reading of the checkpoint");
  const std::string& file = job.run.settings.train->checkpoint;
  const Index steps = io::numbers_from_root(comm, [&] {
                        const comm::Blocked inside("the look at " + file);
                        const bool there = std::filesystem::exists(file);
                        return std::vector<Index>{there ? check_checkpoint(file, job, problem) : -1};
                      }).at(0);
  if (steps < 0) return std::nullopt;
  TrainingState state;
  state.losses.resize(std::size_t(steps));
  const io::Rectangle all{{0, steps}, {0, 1}};
  io::read_checked_parts(file, DType::float64, {{"loss", all, all, state.losses.data()}}, comm);
  state.weights = load_weights(file, problem, comm);
  return state;
}

void save_training(const io::OutputPlace& place, const Job& job, const layer::LayerProblem& problem,
                   const TrainingState& state, const std::vector<io::Column>& columns, const std::string& command_line,
                   const comm::Communicator& comm) {
  const comm::Place here("the writing of " + place.file);
  std::vector<io::TensorSpec> specs = weight_specs("", problem);
  specs.push_back({"loss", DType::float64, {state.steps_done()}, "step"});
  io::ResultFile file(place, specs, comm);
  write_weights("", state.weights, problem, comm, file);
  const io::Rectangle losses{{0, state.steps_done()}, {0, 1}};
  file.write_parts(
      {{"loss", comm.is_root() ? losses : io::Rectangle{}, losses, const_cast<double*>(state.losses.data())}});
  file.finish({io::resolved_text(job.run.settings), columns, provenance(command_line, comm)});
}

}  // namespace annulus::app
