#include "annulus/app/job/checkpoint.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/print.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/store/fingerprint.hpp"
#include "annulus/verify/result.hpp"

namespace annulus::app {
namespace {

using core::ErrorKind;
using core::fail;

store::TensorSpec loss_spec(Index losses) { return {"loss", core::DType::float64, {losses}, "step"}; }

std::string previous_of(const std::string& checkpoint) { return runfile::follow_links(checkpoint) + ".previous"; }

constexpr const char* state_attribute = "fingerprint_state";

/// A fingerprint of every bit of weights and losses, 16 hexadecimal digits. Collective.
std::string state_fingerprint(const TrainingState& state, const layer::LayerProblem& layer,
                              const comm::Communicator& comm) {
  const comm::Scope scope("the fingerprint of the weights");
  std::vector<Index> losses(state.losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = std::bit_cast<Index>(state.losses[i]);
  return fmt::format("{:016x}", fingerprint_of(state.weights, layer, comm) + store::fingerprint(losses));
}

/// Throws if the numbers read are not those that were saved. Accepts files of older versions, which have no
/// fingerprint.
void check_state(const std::string& file, const TrainingState& state, const TrainingJob& training,
                 const comm::Communicator& comm) {
  const std::string found = state_fingerprint(state, *training.request.layer, comm);
  comm::on_root(comm, [&] {
    const std::optional<std::string> saved = store::read_text_attribute(file, state_attribute);
    if (!saved || *saved == found) return;
    const std::string before = previous_of(training.request.run.settings.train->checkpoint);
    const bool has_another = before != file && store::exists(before);
    fail(ErrorKind::failure,
         "{}: is damaged: its weights and losses are not those that were saved (fingerprint {}, expected {}); {}remove "
         "it to train anew",
         file, found, *saved, has_another ? "put the checkpoint before, " + before + ", in its place, or " : "");
  });
}

/// What every checkpoint file has, even that of another training.
struct FoundCheckpoint {
  Index steps;            ///< steps that are done
  runfile::RunFile made;  ///< settings with which the checkpoint was made
};

FoundCheckpoint look_at_checkpoint(const std::string& file, const Request& request) {
  try {
    const std::vector<Index> losses = store::look_at_dataset(file, "loss").extents;
    if (losses.size() != 1) {
      fail(ErrorKind::failure, "{}: dataset loss has {} axes, expected one, with a number per step", file,
           losses.size());
    }
    const std::string settings = store::read_text_dataset(file, "/run/settings");
    return {losses[0], runfile::parse_run_file(settings, file + ":/run/settings", {})};
  } catch (const std::exception& error) {  // the file is not HDF5, is no checkpoint, or has another version
    fail(ErrorKind::failure,
         "{}train.checkpoint: the file that is there is no checkpoint: {}; expected one of this training, or none",
         request.run.where("train.checkpoint"), error.what());
  }
}

/// Throws if the weights in `file` were trained on data with other fingerprints than those of `training`. Call it on
/// rank 0.
void check_data(const std::string& file, const TrainingJob& training) {
  const Request& request = training.request;
  for (const TrainingData& data : training.data) {
    const std::optional<std::string> before = store::read_text_attribute(file, data.attribute);
    if (before && *before != data.fingerprint) {
      fail(ErrorKind::failure,
           "{}train.checkpoint: {} was trained on other numbers than those of dataset {} of {} (fingerprint {}, now "
           "{}); give the input that it was trained on, or a checkpoint of another name to train anew",
           request.run.where("train.checkpoint"), file, data.dataset, *request.run.settings.input.file, *before,
           data.fingerprint);
    }
  }
}

/// Throws unless the file is a checkpoint of this training; returns the number of steps done. Call it on rank 0.
Index check_checkpoint(const std::string& file, const TrainingJob& training) {
  const Request& request = training.request;
  const std::string why = "of a checkpoint of " + request.run.name;
  const auto [steps, made] = look_at_checkpoint(file, request);
  verify::check_datasets(file, {loss_spec(steps)}, why);
  // Some keys may differ: keys that a training ignores, and the type of its final result. If the file has the
  // fingerprint of a dataset, the dataset's name may differ, because check_data() compares the numbers. If the file has
  // the fingerprints of all datasets, input.file may differ, too.
  std::vector<std::string_view> excused{"compute.backward", "layer.dy", "output.type"};
  bool known = true;
  for (const TrainingData& data : training.data) {
    if (store::read_text_attribute(file, data.attribute)) {
      excused.push_back(data.key);
    } else {
      known = false;
    }
  }
  if (known) excused.push_back("input.file");
  const std::vector<std::string> changes = runfile::differences(made.settings, request.run.settings, excused);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: this checkpoint was made with other settings than {} has now: {}", file,
         request.run.name, fmt::join(changes, "; "));
  }
  check_data(file, training);  // after the settings, which may tell why numbers differ: input.lengths changes x
  verify::check_datasets(file, weight_specs("", *training.request.layer), why);
  if (steps > request.run.settings.train->steps) {
    refuse(request.run, "train.steps", " is {}, and {} has {} steps done", request.run.settings.train->steps, file,
           steps);
  }
  if (!known) {
    core::print_to_stderr(
        "annulus: warning: {} does not tell what numbers it was trained on: an older version made it. Make sure "
        "that {} has the same\n",
        file, *request.run.settings.input.file);
  }
  return steps;
}

/// Says why a checkpoint cannot be read; empty if it can be read.
std::string why_unreadable(const std::string& file, const TrainingJob& training) {
  try {
    look_at_checkpoint(file, training.request);
    return "";
  } catch (const core::Error& error) {
    return error.what();
  }
}

/// Returns the checkpoint to continue from: `named` or, if `named` cannot be read, the previous checkpoint. Empty if
/// `named` does not exist: annulus never removes this file, so nothing was saved, or a user has removed it to begin
/// anew. Call it on rank 0.
std::string newest(const std::string& named, const TrainingJob& training) {
  const std::string before = previous_of(named);
  if (!store::exists(named)) return "";
  if (!store::exists(before)) return named;
  const std::string why = why_unreadable(named, training);
  if (why.empty()) return named;
  core::print_to_stderr("annulus: warning: going on from the checkpoint before, {}: {}\n", before, why);
  return before;
}

}  // namespace

void check_previous(const TrainingJob& training) {
  const runfile::RunFile& run = training.request.run;
  const std::string& named = run.settings.train->checkpoint;
  const std::string before = previous_of(named);
  if (!store::is_taken(before)) return;
  const auto refuse_it = [&](const std::string& why) {
    fail(ErrorKind::failure,
         "{}train.checkpoint: {} is not of this training, which would replace it, because it keeps the checkpoint "
         "before the newest under that name: {}. Give one of the two another name, or remove {}",
         run.where("train.checkpoint"), before, why, before);
  };
  if (!store::exists(named)) refuse_it(fmt::format("there is no {}", named));
  if (!why_unreadable(named, training).empty()) return;  // load_checkpoint() has taken `before`, and checked it
  try {
    check_checkpoint(before, training);
  } catch (const core::Error& error) {
    refuse_it(error.what());
  }
}

std::optional<store::FileState> look_up_checkpoint(const TrainingJob& training) {
  const std::string& file = training.request.run.settings.train->checkpoint;
  if (!store::exists(file)) return std::nullopt;
  return store::state_of(file);
}

void check_not_replaced(const TrainingJob& training, const std::optional<store::FileState>& last) {
  const std::optional<store::FileState> now = look_up_checkpoint(training);
  if (!now && !last) return;
  // Another training's save changes inode and time. On a network's file system one of the two may change by itself.
  if (now && last && (now->inode == last->inode || now->modified == last->modified)) return;
  fail(ErrorKind::failure,
       "{}train.checkpoint: another program has made, replaced or removed {} since this training read or saved it: is "
       "there another training with this checkpoint? Give each training one of its own. Steps since the last save are "
       "lost",
       training.request.run.where("train.checkpoint"), training.request.run.settings.train->checkpoint);
}

void keep_previous(const TrainingJob& training) {
  const std::string& checkpoint = training.request.run.settings.train->checkpoint;
  const std::string now = runfile::follow_links(checkpoint), before = previous_of(checkpoint);
  const comm::BlockingScope inside("the keeping of " + now);
  // An unreadable file must not replace the previous checkpoint.
  if (!store::exists(now) || !why_unreadable(now, training).empty()) return;
  // A hard link gives the file a second name, NAME.previous. The file keeps NAME until a new checkpoint takes NAME.
  store::remove_leftovers(before);  // left by a process that was killed between link and rename
  const std::string second = store::temporary_name(before);
  if (link(now.c_str(), second.c_str()) == 0 && rename(second.c_str(), before.c_str()) != 0) unlink(second.c_str());
  unlink(second.c_str());  // because rename() does nothing if both names belong to one file
}

void remove_previous(const std::string& checkpoint) {
  const comm::BlockingScope inside("the removal of " + previous_of(checkpoint));
  unlink(previous_of(checkpoint).c_str());
}

std::optional<TrainingState> load_checkpoint(const TrainingJob& training, const comm::Communicator& comm) {
  const comm::Scope scope("the reading of the checkpoint");
  const std::string file =
      comm::from_root(comm, [&] { return newest(training.request.run.settings.train->checkpoint, training); });
  if (file.empty()) return std::nullopt;
  const store::FileState identity = store::agreed_state(file, comm);
  const Index steps =
      comm::numbers_from_root(comm, [&] { return std::vector<Index>{check_checkpoint(file, training)}; }).at(0);
  const store::InspectedFile seen =
      verify::inspected_file(file, identity, training_specs(*training.request.layer, steps));
  TrainingState state;
  state.losses.resize(std::size_t(steps));
  const core::Rectangle all{{0, steps}, {0, 1}};
  store::read_parts(seen, {{"loss", all, all, state.losses.data()}}, comm);
  state.weights = load_weights(seen, *training.request.layer, comm);
  check_state(file, state, training, comm);
  return state;
}

std::vector<store::TensorSpec> training_specs(const layer::LayerProblem& problem, Index losses,
                                              std::optional<core::DType> type) {
  std::vector<store::TensorSpec> specs = weight_specs("", problem, type);
  specs.push_back(loss_spec(losses));
  return specs;
}

void save_training(store::OutputFile& file, const TrainingJob& training, const TrainingState& state,
                   const std::vector<store::Column>& columns, const std::string& command_line,
                   const comm::Communicator& comm) {
  const runfile::TrainSettings& settings = *training.request.run.settings.train;
  // A result has one more loss than it has steps: the loss of the weights after the last step.
  const Index steps = std::min(state.steps_done(), settings.steps);
  // The input's weights are finite. So if steps were done, a step has made the number that is not finite.
  const std::string causes =
      state.steps_done() == 0
          ? fmt::format("on rank {}, {}", comm.rank(), causes_of_no_number(training.request.problem))
          : fmt::format("after step {}: train.rate, {}, is too large for it", steps, settings.rate);
  write_weights("", state.weights, *training.request.layer, causes, comm, &file);
  const core::Rectangle losses{{0, state.steps_done()}, {0, 1}};
  file.write_parts(
      {{"loss", comm.is_root() ? losses : core::Rectangle{}, losses, const_cast<double*>(state.losses.data())}},
      [](const std::string&) -> store::RankOf { return [](const store::OneNumber&) { return 0; }; });
  const std::string title = fmt::format("weights of an attention layer after {} steps of gradient descent: {}", steps,
                                        describe_pattern(training.request.problem));
  store::Record record{runfile::resolved_text(training.request.run.settings), columns, provenance(command_line, comm),
                       identity(title)};
  for (const TrainingData& data : training.data) record.attributes.emplace_back(data.attribute, data.fingerprint);
  if (steps == state.steps_done()) {  // a checkpoint: its numbers have the same bits as in memory
    record.attributes.emplace_back(state_attribute, state_fingerprint(state, *training.request.layer, comm));
  }
  file.publish(record);
}

}  // namespace annulus::app
