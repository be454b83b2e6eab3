// `annulus train`: trains the attention layer on a regression target by plain gradient descent.
#include <bit>
#include <cmath>
#include <cstdio>

#include "annulus/app/job/checkpoint.hpp"
#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/app/summary/summary.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/print.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/report/progress.hpp"
#include "annulus/report/text.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/fingerprint.hpp"

namespace annulus::app {
namespace {

class Training {
 public:
  Training(const Job& job, const std::string& command_line, const comm::Communicator& comm)
      : job_(job),
        command_line_(command_line),
        comm_(comm),
        settings_(*job.run.settings.train),
        layer_(*job.layer, *job.strategy, comm),
        result_(store::output_plan(store::target_of(job.run.settings.output),
                                   training_specs(layer_.problem(), settings_.steps + 1, job.run.settings.output.type)),
                comm) {
    core::memory_ledger().reset_peak();
    x_ = load_rows(job, layer_, job.run.settings.layer->x, comm);
    target_ = load_rows(job, layer_, settings_.target, comm);
    note_data();
    comm::on_root(comm, [&] { newest_ = look_up_checkpoint(training_); });
    if (auto saved = load_checkpoint(training_, comm)) {
      state_ = std::move(*saved);
      say(fmt::format("goes on from {} after step {}", settings_.checkpoint, state_.steps_done()));
    } else {
      state_.weights = load_weights(job, layer_.problem(), comm);
    }
    comm::on_root(comm, [&] { check_previous(training_); });
  }

  /// Does the remaining steps. Returns 0, or 75 if it stopped on request before the last step.
  int run() {
    const Index first = state_.steps_done();
    const double all = double(settings_.steps);
    report::ProgressLine line(comm_.is_root(), {all, "step"}, double(first) / all);
    while (state_.steps_done() < settings_.steps) {
      step(line);
      const bool stop = asked_to_stop();
      const Index done = state_.steps_done();
      if (stop || done % settings_.save_every == 0 || done == settings_.steps) save();
      if (stop && done < settings_.steps) {
        line.clear();
        say(fmt::format("stopped on request after step {}, saved in {}; run again to continue", done,
                        settings_.checkpoint));
        return stopped_status;
      }
    }
    line.clear();
    finish(first);
    return 0;
  }

 private:
  /// Adds fingerprints of the data to training_. By these, a later launch checks that it has the same data.
  void note_data() {
    const auto add = [&](const std::string& key, const std::string& dataset, std::uint64_t fingerprint) {
      const std::string attribute = "fingerprint_" + key.substr(key.find('.') + 1);
      training_.data.push_back({key, dataset, attribute, fmt::format("{:016x}", fingerprint)});
    };
    add("layer.x", job_.run.settings.layer->x, fingerprint_of(x_, layer_, comm_));
    add("train.target", settings_.target, fingerprint_of(target_, layer_, comm_));
    const auto& documents = job_.run.settings.input.documents;
    if (documents) add("input.documents", *documents, store::fingerprint(job_.problem.documents));
    if (const auto& lengths = job_.run.settings.input.lengths) {
      const pattern::Documents& cut = job_.problem.documents;
      std::vector<Index> rows(cut.begin(), cut.end());
      rows.insert(rows.end(), cut.gaps.begin(), cut.gaps.end());
      add("input.lengths", *lengths, store::fingerprint(rows));
    }
    if (const auto& coordinates = job_.run.settings.input.coordinates) {
      std::vector<Index> bits;
      for (const double number : job_.input->coordinates()) bits.push_back(std::bit_cast<Index>(number));
      add("input.coordinates", *coordinates, store::fingerprint(bits));
    }
  }

  /// True if any rank was asked to stop. The same on every rank.
  bool asked_to_stop() const {
    const comm::Scope scope(fmt::format("the agreement after step {}", state_.steps_done()));
    return comm_.max(Index(stop_requested())) != 0;
  }
  void say(const std::string& text) const {
    if (comm_.is_root()) std::fprintf(stderr, "annulus: %s\n", text.c_str());
  }

  /// Runs the layer forward and returns the loss; y is replaced by the gradient of the loss.
  double forward_loss(layer::ForwardResult& forward) const {
    forward = layer_.forward(state_.weights, x_);
    return layer_.loss(forward.y, target_);
  }

  /// Prints the loss on stdout after 0 to 10, 20, 30, ... 100, 200, ... steps; the result file has all losses.
  void show_loss(double loss, report::ProgressLine& line) const {
    const Index step = state_.steps_done();
    Index unit = 1;
    while (10 * unit <= step) unit *= 10;
    line.show(double(step) / double(settings_.steps), fmt::format("step {}, loss {:.6g}", step, loss));
    if (!comm_.is_root() || step % unit != 0) return;
    line.clear();
    print_loss(loss);
  }
  void print_loss(double loss) const {
    if (!comm_.is_root()) return;
    core::print("step {}  loss {:.17g}\n", state_.steps_done(), loss);
    core::flush_stdout();
  }

  void step(report::ProgressLine& line) {
    double loss = 0;
    report::run_pass(comm_, fmt::format("step {}", state_.steps_done() + 1), [&] {
      layer::ForwardResult forward;
      loss = forward_loss(forward);
      require_finite(loss);
      require_meaningful_gradients(forward.saved);
      layer::BackwardResult backward =
          layer_.backward(state_.weights, x_, std::move(forward.saved), forward.y, {}, layer::InputGradient::unwanted);
      layer::descend(layer_.problem(), settings_.rate, backward.gradients, state_.weights);
      return backward.metrics;
    });
    warn_of_underflow(loss, line);
    show_loss(loss, line);
    state_.losses.push_back(loss);
  }

  /// Throws an AgreedError if the loss is not finite. `loss` must be the same number on every rank.
  void require_finite(double loss) const {
    if (std::isfinite(loss)) return;
    const std::string cause = state_.steps_done() == 0
                                  ? "look for large numbers in x, the target and the weights"
                                  : fmt::format("train.rate, {}, is too large for it", settings_.rate);
    throw comm::AgreedError(core::ErrorKind::failure,
                            fmt::format("the loss is {} after step {}: {}", loss, state_.steps_done(), cause));
  }

  /// Throws an AgreedError if scores are so large that gradients would be rounding errors, as `run` does. Looks only at
  /// the lse, because larger tensors, q and k, would have to be copied from a GPU in every step. If scores overflow,
  /// the loss is not finite, and require_finite() throws.
  void require_meaningful_gradients(const strategies::Tensors& saved) const {
    HostSide lse(saved.lse);
    lse.from_device();
    const Index count = saved.lse.bytes() / Index(core::bytes_of(core::lse_type(job_.problem.type)));
    report::LseFindings findings = own_lse_findings(job_, lse.data(), count, 0);
    findings.largest = comm_.max(findings.largest);
    try {
      check_gradients_mean_something(job_, findings);
    } catch (const comm::AgreedError& error) {
      if (state_.steps_done() == 0) throw;
      throw comm::AgreedError(error.kind(), fmt::format("after step {}: {}; or train.rate, {}, is too large",
                                                        state_.steps_done(), error.what(), settings_.rate));
    }
  }

  /// Warns once if typical numbers of dy = (y - target) / N (N: how many numbers y has) are too small for float16,
  /// whose smallest number is 2^-24.
  void warn_of_underflow(double loss, report::ProgressLine& line) {
    const core::Shape& s = layer_.problem().attention.shape;
    const Index missing = pattern::count_in_gaps(layer_.problem().attention.documents, {{0, s.sequence}});
    const double numbers = double(s.batch) * double(s.sequence - missing) * double(layer_.problem().width);
    const double typical = std::sqrt(2 * loss) / numbers;  // root mean square of dy
    if (warned_ || layer_.problem().attention.type != core::DType::float16 || loss == 0 || typical > 0x1p-24) return;
    warned_ = true;
    line.clear();
    say(fmt::format(
        "warning: the gradient of the loss has numbers near {:.1e}, which float16 cannot hold (its smallest "
        "number is 6e-8): this training hardly changes the weights; use bfloat16 or float32",
        typical));
  }

  void save() {
    const comm::Scope doing("the writing of " + settings_.checkpoint);
    comm::on_root(comm_, [&] {
      check_not_replaced(training_, newest_);
      keep_previous(training_);
    });
    store::OutputTarget where = store::target_of(job_.run.settings.output);
    where.file = settings_.checkpoint;
    where.overwrite = true;
    store::OutputFile file(store::output_plan(where, training_specs(layer_.problem(), state_.steps_done())), comm_);
    save_training(file, training_, state_, {}, command_line_, comm_);
    comm::on_root(comm_, [&] { newest_ = look_up_checkpoint(training_); });
  }

  /// Computes the loss after the last step and completes the result file. `first` is the number of steps that earlier
  /// launches did.
  void finish(Index first) {
    double loss = 0;
    const report::Pass last = report::run_pass(comm_, "the forward pass after the last step", [&] {
      layer::ForwardResult forward;
      loss = forward_loss(forward);
      return forward.metrics;
    });
    require_finite(loss);
    print_loss(loss);
    state_.losses.push_back(loss);
    const comm::Scope doing("the writing of the result");
    const Index predicted =
        layer::predict_memory(layer_.problem(), *job_.strategy, layer_.partition(), comm_.rank()).training;
    save_training(
        result_, training_, state_,
        {report::per_rank({"peak_bytes", "bytes", "peak of tensors and buffers"}, double(last.peak_bytes), comm_),
         report::per_rank({"predicted_peak_bytes", "bytes", "peak of tensors and buffers, as planned"},
                          double(predicted), comm_),
         report::per_rank({"steps_here", "1", "steps of the last launch"}, double(settings_.steps - first), comm_),
         report::per_rank({"rows", "1", "rows of the sequence"}, double(layer_.rows().count()), comm_)},
        command_line_, comm_);
    comm::on_root(comm_, [&] { remove_previous(settings_.checkpoint); });
    if (!comm_.is_root()) return;
    if (const auto* library = kernels::library_of(job_.problem.backend); library != nullptr)
      report::print_line(core::name_of(library->backend), library->describe());
    report::print_line("result", job_.run.settings.output.file);
  }

  const Job& job_;
  const std::string& command_line_;
  const comm::Communicator& comm_;
  const runfile::TrainSettings& settings_;
  layer::Layer layer_;
  store::OutputFile result_;  // made before the first step, to reserve its name and space on the disk
  TrainingJob training_{job_, {}};
  core::Buffer x_, target_;
  TrainingState state_;
  std::optional<store::FileState> newest_;  // the checkpoint that was read or saved last; only on rank 0
  bool warned_ = false;
};

/// Continues from the checkpoint, if it exists, otherwise begins with the input's weights. Saves a checkpoint every
/// train.save_every steps, at the end, and when asked to stop (SIGUSR1, SIGTERM). Returns 75 if it stopped before the
/// last step, otherwise 0. Prints some of the losses. Writes the weights and all losses, including the loss after the
/// last step, to the result file.
int train(const RunFileArguments& words, const comm::Communicator& comm, const std::string& command_line) {
  watch_for_stop(20);  // after SIGTERM, ranks wait 20 s for one another: soon after that, the batch system kills them
  const Job job = make_job({words, Purpose::train}, comm);
  comm::agree(comm, [&] {
    check_memory_limit(job);
    core::require_device();
  });
  if (comm.is_root() && !job.why_too_large.empty())
    std::fprintf(stderr, "annulus: warning: %s\n", job.why_too_large.c_str());
  const runfile::Settings& settings = job.run.settings;
  comm::on_root(comm, [&] { store::check_can_be_made(runfile::follow_links(settings.train->checkpoint), true); });
  if (comm.is_root()) {
    core::print("annulus train {}\n", job.run.name);
    report::print_line("attention", describe_pattern(job.problem));
    report::print_line("tensors", describe_shape(job));
    report::print_line("layer", describe_layer(job));
    report::print_line("strategy",
                       fmt::format("{} on {}", describe_strategy(job), core::how_many(comm.size(), "rank")));
  }
  choose_links(settings.distribution, comm);
  return Training(job, command_line, comm).run();
}

}  // namespace

Verb train_verb() {
  const auto words = std::make_shared<RunFileArguments>();
  return {.name = "train",
          .does = "Train the attention layer of a run file by gradient descent; resumable",
          .example = "mpirun -n 2 annulus train my.yaml --set train.steps=100",
          .options = {run_file(words->file, "The run file with sections layer and train"),
                      overrides(words->overrides, "Override a key of the run file (repeatable)")},
          .run = [words](const comm::Communicator& comm,
                         const std::string& command_line) { return train(*words, comm, command_line); },
          .when_ended = "steps since the last checkpoint are lost, run again to continue"};
}

}  // namespace annulus::app
