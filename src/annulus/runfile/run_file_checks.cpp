#include "annulus/runfile/run_file_checks.hpp"

#include <filesystem>

#include "annulus/core/error.hpp"
#include "annulus/runfile/user_files.hpp"

namespace annulus::runfile {
namespace {

bool given(const RunFile& run, std::string_view key) { return run.locations.contains(key); }

/// Returns the location of the key without the ": " at the end, for use inside a message.
std::string location_name(const RunFile& run, std::string_view key) {
  const std::string location = run.where(key);
  return location.substr(0, location.size() - 2);
}

void check_input(const RunFile& run) {
  const InputSettings& input = run.settings.input;
  const bool generate = given(run, "input.generate");
  if (input.file && generate) {
    refuse(run, "input.generate", " and input.file ({}) exclude each other", location_name(run, "input.file"));
  }
  if (!input.file && !generate) refuse(run, "input", ".file (or input.generate) is missing");
  if (input.documents && input.lengths) {
    refuse(run, "input.lengths", " and input.documents ({}) exclude each other", location_name(run, "input.documents"));
  }
  if (input.lengths && input.query_offset.kind == pattern::QueryOffset::Kind::row) {
    refuse(run, "input.query_offset",
           ": with input.lengths ({}) q has the rows of k, expected auto, or none for lengths of k and v only",
           location_name(run, "input.lengths"));
  }
  if (!generate) return;
  for (const auto& [key, dataset] : {std::pair("input.documents", &input.documents),
                                     {"input.lengths", &input.lengths},
                                     {"input.dlse", &input.dlse},
                                     {"input.coordinates", &input.coordinates},
                                     {"input.sink", &input.sink}}) {
    if (*dataset) refuse(run, key, " needs input.file: it names a dataset in that file");
  }
  if (input.axes == core::AxisOrder::bhsd) {
    refuse(run, "input.axes", ": bhsd needs input.file, because it is the order of axes in that file");
  }
}

void complete_generate(RunFile& run) {
  if (!run.settings.input.generate) return;
  run.settings.input.generate->complete();
  if (const auto objection = objection_to(*run.settings.input.generate)) {
    refuse(run, "input.generate." + objection->extent, ": {}", objection->reason);
  }
}

void complete_layer(RunFile& run) {
  if (!run.settings.layer) return;
  if (run.settings.input.generate) {
    refuse(run, "input.generate", " makes no layer; `annulus generate --layer` makes an input.file with one");
  }
  for (const char* key : {"input.axes", "input.q", "input.k", "input.v", "input.dout", "input.query_offset"}) {
    if (given(run, key)) refuse(run, key, " is not read with a section layer");
  }
  if (run.settings.input.dlse) refuse(run, "input.dlse", " is not read with a section layer");
  if (run.settings.input.sink) {
    refuse(run, "input.sink", ": a layer's attention has no sink logits, expected none");
  }
  LayerSettings& layer = *run.settings.layer;
  if (layer.kv_heads == 0) layer.kv_heads = layer.heads;
  if (layer.heads % layer.kv_heads != 0) {
    refuse(run, "layer.kv_heads", ": {} does not divide the {} heads", layer.kv_heads, layer.heads);
  }
}

void check_distribution(const RunFile& run) {
  const DistributionSettings& distribution = run.settings.distribution;
  if (distribution.block_size && distribution.partition != pattern::PartitionKind::block_cyclic &&
      distribution.strategy != "stream") {
    refuse(run, "distribution.block_size", " needs partition: block_cyclic, or strategy: stream; strategy is {}",
           distribution.strategy);
  }
  if (distribution.ulysses_ranks && distribution.strategy != "hybrid") {
    refuse(run, "distribution.ulysses_ranks", " needs strategy hybrid, found {}", distribution.strategy);
  }
}

void check_attention(const RunFile& run, std::size_t segments, std::size_t dilations) {
  const bool has_segments = given(run, "attention.segments"), has_dilations = given(run, "attention.dilations");
  if (has_segments != has_dilations) {
    const std::string given_one = has_segments ? "attention.segments" : "attention.dilations";
    const std::string absent = has_segments ? "attention.dilations" : "attention.segments";
    refuse(run, given_one, " is given without {}: one entry of each per pair", absent);
  }
  if (segments != dilations) {
    refuse(run, "attention.dilations", " has {}, attention.segments ({}) has {}: one of each per pair", dilations,
           location_name(run, "attention.segments"), segments);
  }
}

/// Checks windows. In causal attention sets their limits on the right to 0, so {window: 4} and {window: [3, 0]} become
/// the same pattern.
void complete_windows(RunFile& run) {
  pattern::Pattern& pattern = run.settings.attention.pattern;
  for (std::size_t i = 0; i < pattern.pairs.size(); ++i) {
    pattern::Pair& pair = pattern.pairs[i];
    if (pair.window && pattern.causal) pair.window->right = 0;
    if (const std::string why = pattern::why_no_window(pattern.semantics, pair); !why.empty()) {
      refuse(run, "attention.segments", ": pair {}, {}: {}", i + 1, pattern::segment_text(pair), why);
    }
  }
}

/// Checks attention.bias and input.coordinates.
void check_scores(const RunFile& run) {
  const Settings& settings = run.settings;
  if (settings.input.coordinates && !settings.attention.bias) {
    refuse(run, "input.coordinates", ": without attention.bias nothing reads them, expected none");
  }
  if (!settings.attention.bias) return;
  if (settings.attention.pattern.semantics == pattern::Semantics::torchscale) {
    refuse(run, "attention.bias",
           ": keys that torchscale fills in have no distance to a row; expected no bias, or other semantics");
  }
}

/// Refuses statistics of a layer, and top_keys without the statistic top.
void check_statistics(const RunFile& run) {
  const OutputSettings& output = run.settings.output;
  if (run.settings.layer && !output.statistics.empty()) {
    refuse(run, "output.statistics", ": a run with a section layer makes none, expected []");
  }
  if (output.top_keys != OutputSettings().top_keys && !output.has(Statistic::top)) {
    refuse(run, "output.top_keys", " needs top among output.statistics");
  }
}

/// True if two names lead to the same file, which need not exist. Follows symbolic links.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (std::filesystem::equivalent(a, b, ignored)) return true;
  return follow_links(a) == follow_links(b);
}

}  // namespace

std::optional<Objection> objection_to(const GenerateSettings& settings) {
  const core::Shape& shape = settings.shape;
  if (shape.heads % shape.kv_heads != 0) {
    return Objection{"kv_heads", fmt::format("{} does not divide the {} heads", shape.kv_heads, shape.heads)};
  }
  // The bytes of the largest tensor must fit into 64 bits, and so must the sum over several tensors.
  const double numbers = double(shape.batch) * double(std::max(shape.sequence, settings.query_rows())) *
                         double(shape.heads) * double(std::max(shape.head_dim, shape.dim_of_values()));
  if (numbers > 1.2e17)
    return Objection{"sequence", fmt::format("{:.2g} numbers per tensor, expected at most 1.2e17", numbers)};
  return std::nullopt;
}

void check_output(const RunFile& run, const std::vector<std::string>& read_through_input) {
  using Name = std::pair<const char*, std::optional<std::string>>;
  const Settings& s = run.settings;
  std::vector<Name> taken{{"input.file", s.input.file}, {"distribution.machine", s.distribution.machine}};
  for (const std::string& file : read_through_input) taken.emplace_back("a dataset of input.file", file);
  const auto named = [](bool is, const std::string& file) { return is ? std::optional(file) : std::nullopt; };
  const Name outputs[] = {{"output.file", named(s.output.writes_file(), s.output.file)},
                          {"output.report", s.output.report},
                          {"output.trace", s.output.trace},
                          {"train.checkpoint", s.train ? named(true, s.train->checkpoint) : std::nullopt},
                          {"bench.file", s.bench ? named(!s.bench->file.empty(), s.bench->file) : std::nullopt},
                          {"bench.json", s.bench ? s.bench->json : std::nullopt}};
  for (const Name& output : outputs) {
    const auto& [key, file] = output;
    if (!file) continue;
    for (const auto& [other, other_file] : taken) {
      if (!other_file) continue;
      if (same_file(*file, *other_file)) refuse(run, key, " is the file of {}, {}", other, *other_file);
      const std::string target = follow_links(*file), other_target = follow_links(*other_file);
      for (const char* ending : {".part", ".journal", ".previous"}) {  // files that annulus makes beside an output
        if (target + ending == other_target || target == other_target + ending) {
          refuse(run, key, ": {} and {} of {} differ only by {}, which annulus adds to the names of its own files",
                 *file, *other_file, other, ending);
        }
      }
    }
    if (same_file(*file, run.name)) refuse(run, key, " is this run file, {}", run.name);
    taken.push_back(output);
  }
}

void complete_and_check(RunFile& run, std::size_t segments, std::size_t dilations) {
  const Settings& settings = run.settings;
  check_input(run);
  check_required(run_file_keys(), run.locations, settings);
  complete_generate(run);
  check_attention(run, segments, dilations);
  complete_windows(run);
  check_scores(run);
  if (settings.input.dlse && !settings.compute.gradients) {
    refuse(run, "input.dlse", " needs compute.backward: true, which is false");
  }
  complete_layer(run);
  if (settings.train && !settings.layer) {
    refuse(run, "train",
           " needs a section layer with the heads and, where they have other names, the datasets of the layer");
  }
  if (settings.train && !settings.output.writes_file()) {
    refuse(run, "output.file", ": only a run may have none; train needs a file for the weights");
  }
  check_distribution(run);
  check_statistics(run);
  check_output(run);
}

}  // namespace annulus::runfile
