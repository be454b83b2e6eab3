#include "annulus/app/job/request.hpp"

#include <cmath>
#include <filesystem>
#include <utility>

#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/comm/guard.hpp"
#include "annulus/comm/last_events.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/runfile/run_file_checks.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/strategies/problem_checks.hpp"

namespace annulus::app {
namespace {

using strategies::Problem;

/// Makes the score rule of attention.softcap, attention.bias and input.coordinates.
kernels::ScoreRule make_rule(const runfile::Settings& settings, const Request& request, const Problem& problem) {
  const Index heads = problem.shape.heads;
  kernels::ScoreRule rule;
  rule.cap = settings.attention.softcap.value_or(0);
  if (!settings.attention.bias) return rule;
  const runfile::BiasSettings& bias = *settings.attention.bias;
  rule.slopes = bias.slopes.value_or(kernels::alibi_slopes(heads));
  rule.exempt = bias.exempt;
  if (Index(rule.slopes.size()) != heads) {
    core::fail(request.input && !settings.layer ? core::ErrorKind::failure : core::ErrorKind::usage,
               "{}attention.bias: {} slopes, expected one for each of the {} query heads",
               request.run.where("attention.bias"), rule.slopes.size(), heads);
  }
  if (settings.input.coordinates)
    rule.coordinates = std::make_shared<kernels::Coordinates>(
        request.input->coordinates(), pattern::rows_without_first(problem.documents, rule.exempt));
  return rule;
}

Problem make_problem(const runfile::Settings& settings, const Request& request, Purpose purpose) {
  Problem problem;
  if (request.input) {
    problem.shape = request.input->shape();
    problem.type = request.input->type();
    problem.documents = request.input->documents();
    problem.key_ranges = request.input->key_ranges();
    if (request.is_end_to_end()) problem.shape.sequence *= std::exchange(problem.shape.batch, 1);
  } else {
    problem.shape = settings.input.generate->shape;
    problem.type = settings.input.generate->type;
    problem.documents = {0, problem.shape.sequence};
  }
  problem.pattern = settings.attention.pattern;
  problem.precision = settings.compute.precision.value_or(core::default_precision(problem.type));
  problem.rule = make_rule(settings, request, problem);
  problem.sink = settings.input.sink.has_value();
  problem.scale = settings.attention.scale.value_or(1 / std::sqrt(double(problem.shape.head_dim)));
  problem.backend = settings.compute.backend.value_or(kernels::default_backend());
  problem.partition = settings.distribution.partition;
  problem.block_size = settings.distribution.block_size.value_or(0);
  problem.reproducible = settings.compute.reproducible;
  problem.gradients = settings.compute.gradients || (settings.train && purpose != Purpose::run);
  const runfile::OutputSettings& output = settings.output;
  problem.statistics = {output.has(runfile::Statistic::entropy), output.has(runfile::Statistic::received),
                        output.has(runfile::Statistic::top) ? output.top_keys : 0};
  return problem;
}

/// Refuses a back end that this process lacks, or whose library cannot compute this problem. `verify` needs no back
/// end.
void check_backend(const runfile::RunFile& run, const Problem& problem, Purpose purpose) {
  if (purpose == Purpose::verify || !run.settings.compute.backend) return;
  const std::string reason = kernels::why_no_backend(problem.backend);
  if (!reason.empty()) {
    refuse(run, "compute.backend", ": {}: {}; expected auto or {}", core::name_of(problem.backend), reason,
           core::name_of(kernels::default_backend()));
  }
  const kernels::LibraryBackend* const library = kernels::library_of(problem.backend);
  if (library == nullptr) return;
  const auto refused = library->refuses(wanted_of(run.settings, problem));
  if (!refused) return;
  refuse(run, refused->key, ": {}; expected another value, or compute.backend: auto", refused->reason);
}

/// Refuses an input.file that exists relative to the working folder, but not relative to the folder of the run file,
/// where relative paths start. The message says what to write.
void check_input_place(const runfile::RunFile& run) {
  namespace fs = std::filesystem;
  const auto& file = run.settings.input.file;
  std::error_code ignored;
  if (!file) return;
  const comm::BlockingScope inside("the look for " + *file);
  if (fs::exists(*file, ignored)) return;
  const fs::path folder = runfile::folder_of_paths(run.name);
  const fs::path written = fs::path(*file).lexically_relative(folder);
  if (written.empty() || !fs::exists(written, ignored)) return;
  core::fail(core::ErrorKind::failure,
             "{}input.file: there is no {}; relative paths start from the folder of the run file, from there write {}",
             run.where("input.file"), *file, fs::relative(written, folder, ignored).string());
}

/// Refuses file names that are too long. A dry run checks this, too.
void check_output_names(const runfile::RunFile& run, Purpose purpose) {
  const runfile::OutputSettings& output = run.settings.output;
  const auto check = [&](const char* key, const std::string& file) {
    const std::string why = store::why_too_long(file);
    if (!why.empty()) refuse(run, key, ": {}: {}", file, why);
  };
  if (output.writes_file()) check("output.file", output.file);
  if (output.report) check("output.report", *output.report);
  if (output.trace) check("output.trace", *output.trace);
  if (purpose == Purpose::train) check("train.checkpoint", run.settings.train->checkpoint);
}

/// Sets Problem::queries from input.query_offset: at which row of k the rows of q begin.
void place_queries(const Request& request, Problem& problem) {
  if (request.run.settings.layer || request.is_end_to_end()) return;  // then q has the rows of k
  const runfile::InputSettings& input = request.run.settings.input;
  const auto found = place_asked_queries(input.query_offset, request.query_rows(), problem);
  if (!found) return;
  core::fail(request.input ? core::ErrorKind::failure : core::ErrorKind::usage, "{}{}: {}",
             request.run.where(found->key), found->key, found->reason);
}

std::vector<std::string> other_input_files(const Request& request) {
  std::vector<std::string> files;
  for (const auto& [file, state] : request.other_input_files()) files.push_back(file);
  return files;
}

/// Makes the layer that contains the request's attention. Throws Error(usage), which names the invalid key and its
/// position in the run file.
layer::LayerProblem make_layer(const Request& request) {
  const runfile::LayerSettings& settings = *request.run.settings.layer;
  layer::LayerProblem problem;
  problem.width = request.input->width();
  problem.attention = request.problem;
  problem.biases = {settings.bq.has_value(), settings.bk.has_value(), settings.bv.has_value(), settings.bo.has_value()};
  problem.rope = settings.rope;
  for (const layer::ShardingEntry& entry : layer::sharding_table) {
    if (entry.name == settings.sharding) problem.sharding = entry.value;
  }
  try {
    layer::check(problem);
  } catch (const core::Error& error) {  // the message begins with the key: "layer.rope: ..."
    const std::string text = error.what();
    core::fail(error.kind(), "{}{}", request.run.where(text.substr(0, text.find(':'))), text);
  }
  return problem;
}

/// The datasets of a result. Attention has out, lse and statistics, and with gradients dq, dk, dv and, if it has sinks,
/// dsink. A layer has y, and with gradients dx and the gradient of every weight, dwq ...
std::vector<store::TensorSpec> datasets_of_result(const Request& request) {
  const bool gradients = request.run.settings.compute.gradients;
  const core::DType type = request.run.settings.output.type.value_or(request.problem.type);
  std::vector<store::TensorSpec> all;
  if (request.layer) {
    const auto add_rows = [&](const char* name) {
      all.push_back(rows_spec(name, *request.layer, type));
      all.back().extents = {request.file_shape().batch, request.file_shape().sequence, request.layer->width};
    };
    add_rows("y");
    if (!gradients) return all;
    add_rows("dx");
    for (const store::TensorSpec& gradient : weight_specs("d", *request.layer, type)) all.push_back(gradient);
    return all;
  }
  const strategies::Statistics& statistics = request.problem.statistics;
  const core::DType type_of_lse = core::lse_type(request.problem.type);
  const auto add = [&](const char* name, store::NumberType stored) {
    all.push_back(store::tensor_spec(name, stored, request.file_shape(), request.order(), request.query_rows(),
                                     statistics.top_keys));
  };
  add("out", type);
  add("lse", type_of_lse);
  if (statistics.entropy) add("entropy", type_of_lse);
  if (statistics.received) add("received", core::DType::float64);
  if (statistics.top_keys > 0) {
    add("top_rows", store::NumberType::int64());
    add("top_weights", type_of_lse);
  }
  if (!gradients) return all;
  for (const char* name : {"dq", "dk", "dv"}) add(name, type);
  if (request.problem.sink) all.push_back({"dsink", type_of_lse, {request.file_shape().heads}, "head"});
  return all;
}

/// Checks what can be checked before any tensor file is opened.
void check_settings(const runfile::RunFile& run, Purpose purpose) {
  if (run.settings.layer && run.settings.compute.reproducible) {
    refuse(run, "compute.reproducible",
           ": a layer cannot give the same bits for every number of ranks: gradients of weights are summed rank by "
           "rank, and matrix products in the order of the machine's BLAS; expected false");
  }
  if (const auto& backend = run.settings.compute.backend;
      backend && !core::why_no_fixed_order(*backend).empty() && run.settings.compute.reproducible) {
    refuse(run, "compute.reproducible", ": true with compute.backend {}: {}; expected false, or another back end",
           core::name_of(*backend), core::why_no_fixed_order(*backend));
  }
  named_strategy(run);
  if (purpose == Purpose::train && !run.settings.train) refuse(run, "", "train needs the sections layer and train");
  if (purpose == Purpose::train && run.settings.output.trace) {
    refuse(run, "output.trace", ": train makes no trace, expected none; `annulus run` traces a layer");
  }
  if (purpose == Purpose::train && run.settings.output.report) {
    refuse(run, "output.report", ": train makes no report, expected none; its result file has the losses");
  }
  if (purpose == Purpose::verify && !run.settings.output.writes_file()) {
    refuse(run, "output.file", ": none has no result to verify, expected the file of a run");
  }
}

}  // namespace

kernels::WantedOfBackend wanted_of(const runfile::Settings& settings, const Problem& problem) {
  return {problem.type,
          problem.precision,
          problem.statistics.any(),
          settings.input.dlse.has_value(),
          problem.gradients && problem.pattern.output_scale() != 1,
          problem.reproducible,
          problem.rule.any(),
          problem.pattern.is_windows_alone()};
}

const strategies::Strategy* named_strategy(const runfile::RunFile& run) {
  const std::string& name = run.settings.distribution.strategy;
  const strategies::Strategy* strategy = strategies::find(name);
  if (strategy != nullptr || name == "auto") return strategy;
  std::vector<std::string> names{"auto"};
  for (const auto& known : strategies::registry()) names.emplace_back(known->name());
  refuse(run, "distribution.strategy", ": there is no strategy '{}'{}; `annulus list` shows them", name,
         runfile::suggest(name, names));
}

Request read_request(const RunFileArguments& words, Purpose purpose, const comm::Communicator& comm) {
  return make_request(runfile::read_run_file(words.file, words.overrides, comm), purpose, comm);
}

Request make_request(runfile::RunFile run, Purpose purpose, const comm::Communicator& comm) {
  Request request;
  request.run = std::move(run);
  runfile::Settings& settings = request.run.settings;
  comm::set_stall_timeout(settings.distribution.stall_timeout);
  comm::agree(comm, [&] { check_settings(request.run, purpose); });
  comm::on_root(comm, [&] {
    check_input_place(request.run);
    if (purpose == Purpose::run || purpose == Purpose::train) check_output_names(request.run, purpose);
  });
  const bool trains = purpose == Purpose::train;
  if (settings.layer) {
    request.input = store::layer_file(settings, {settings.compute.gradients && !trains, trains}, comm);
  } else if (settings.input.file) {
    request.input = store::tensor_file(settings.input, comm, settings.compute.gradients);
    settings.input.axes = request.order();  // the resolved run file records the order that was found
  }
  comm::agree(comm, [&] {
    runfile::check_output(request.run, other_input_files(request));
    request.problem = make_problem(settings, request, purpose);
    place_queries(request, request.problem);
    check_backend(request.run, request.problem, purpose);
    const auto use = purpose == Purpose::verify ? strategies::Use::look_at : strategies::Use::compute;
    if (const auto found = check(request.problem, use)) refuse(request.run, found->key, ": {}", found->reason);
    if (const auto found = strategies::check_sink(request.problem.precision, request.sink())) {
      core::fail(core::ErrorKind::failure, "{}: dataset {}{}", request.input->inspected().path, *settings.input.sink,
                 found->reason);
    }
    if (settings.layer) request.layer = make_layer(request);
    request.results = datasets_of_result(request);
  });
  const bool has_result = (purpose == Purpose::run || trains) && settings.output.writes_file();
  comm::write_last_events_beside(has_result ? runfile::follow_links(settings.output.file) : "");
  return request;
}

}  // namespace annulus::app
