#include "annulus/io/run_file_checks.hpp"

#include <filesystem>

#include "annulus/core/error.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/io/place.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

bool given(const RunFile& run, std::string_view key) { return run.places.contains(key); }

/// The place without its colon, to be named inside a message.
std::string place_name(const RunFile& run, std::string_view key) {
  const std::string place = run.where(key);
  return place.substr(0, place.size() - 2);
}

void check_generate(RunFile& run) {
  for (const char* key : {"input.generate.sequence", "input.generate.heads"}) {
    if (!given(run, key)) fail(ErrorKind::usage, "{}{} is missing", run.where("input.generate"), key);
  }
  core::Shape& shape = run.settings.input.generate->shape;
  if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
  if (const auto objection = objection_to(shape)) {
    const std::string key = "input.generate." + objection->extent;
    fail(ErrorKind::usage, "{}{}: {}", run.where(key), key, objection->reason);
  }
  check_heads(run, shape.heads);
}

void check_input(RunFile& run) {
  const bool file = given(run, "input.file"), generate = given(run, "input.generate");
  if (file && generate) {
    fail(ErrorKind::usage, "{}input.generate and input.file ({}) exclude each other", run.where("input.generate"),
         place_name(run, "input.file"));
  }
  if (!file && !generate) {
    fail(ErrorKind::usage, "{}input.file (or input.generate) is missing", run.where("input"));
  }
  const auto needs_file = [&](const char* key, const std::optional<std::string>& dataset) {
    if (!generate || !dataset) return;
    fail(ErrorKind::usage, "{}{} needs input.file: it names a dataset of it", run.where(key), key);
  };
  needs_file("input.documents", run.settings.input.documents);
  needs_file("input.dlse", run.settings.input.dlse);
  if (generate && run.settings.input.axes == AxisOrder::bhsd) {
    fail(ErrorKind::usage, "{}input.axes: bhsd needs input.file: it says how its datasets lie",
         run.where("input.axes"));
  }
  if (generate) check_generate(run);
}

void check_compute(const RunFile& run) {
  if (run.settings.input.dlse && !run.settings.compute.gradients) {
    fail(ErrorKind::usage, "{}input.dlse needs compute.backward: true, which is false", run.where("input.dlse"));
  }
}

void check_layer(RunFile& run) {
  if (!run.settings.layer) return;
  if (run.settings.input.generate) {
    fail(ErrorKind::usage, "{}input.generate makes no layer; `annulus generate --layer` makes an input.file with one",
         run.where("input.generate"));
  }
  for (const char* key : {"input.axes", "input.q", "input.k", "input.v", "input.dout"}) {
    if (given(run, key)) fail(ErrorKind::usage, "{}{} is not read with a section layer", run.where(key), key);
  }
  if (run.settings.input.dlse) {
    fail(ErrorKind::usage, "{}input.dlse is not read with a section layer", run.where("input.dlse"));
  }
  if (!given(run, "layer.heads"))
    fail(ErrorKind::usage, "{}layer.heads is missing, expected the number of query heads", run.where("layer"));
  LayerSettings& layer = *run.settings.layer;
  if (layer.kv_heads == 0) layer.kv_heads = layer.heads;
  if (layer.heads % layer.kv_heads != 0) {
    fail(ErrorKind::usage, "{}layer.kv_heads: {} does not divide the {} heads", run.where("layer.kv_heads"),
         layer.kv_heads, layer.heads);
  }
  check_heads(run, layer.heads);
}

void check_train(const RunFile& run) {
  if (!run.settings.train) return;
  if (!run.settings.layer)
    fail(ErrorKind::usage,
         "{}train needs a section layer with the heads and, where they have other names, the datasets of the layer",
         run.where("train"));
  const std::pair<const char*, const char*> needed[] = {{"train.steps", "the number of steps in all"},
                                                        {"train.rate", "what gradients are multiplied by"},
                                                        {"train.checkpoint", "the file to save weights in"}};
  for (const auto& [key, meaning] : needed) {
    if (!given(run, key)) fail(ErrorKind::usage, "{}{} is missing, expected {}", run.where("train"), key, meaning);
  }
}

void check_distribution(const RunFile& run) {
  const DistributionSettings& distribution = run.settings.distribution;
  if (distribution.block_size && distribution.partition != pattern::PartitionKind::block_cyclic) {
    fail(ErrorKind::usage, "{}distribution.block_size needs partition: block_cyclic",
         run.where("distribution.block_size"));
  }
  if (distribution.ulysses_ranks && distribution.strategy != "hybrid") {
    fail(ErrorKind::usage, "{}distribution.ulysses_ranks needs strategy: hybrid, which is {}",
         run.where("distribution.ulysses_ranks"), distribution.strategy);
  }
}

void check_attention(const RunFile& run, std::size_t segments, std::size_t dilations) {
  const pattern::Pattern& pattern = run.settings.attention.pattern;
  const bool has_segments = given(run, "attention.segments"), has_dilations = given(run, "attention.dilations");
  if (has_segments != has_dilations) {
    const std::string there = has_segments ? "attention.segments" : "attention.dilations";
    const std::string absent = has_segments ? "attention.dilations" : "attention.segments";
    fail(ErrorKind::usage, "{}{} is given without {}: one entry of each per pair", run.where(there), there, absent);
  }
  if (segments != dilations) {
    fail(ErrorKind::usage, "{}attention.dilations has {}, attention.segments ({}) has {}: one of each per pair",
         run.where("attention.dilations"), dilations, place_name(run, "attention.segments"), segments);
  }
  if (pattern.group_scale && pattern.semantics != pattern::Semantics::grouped) {
    fail(ErrorKind::usage, "{}attention.group_scale: true needs attention.semantics: grouped, which is {}",
         run.where("attention.group_scale"), pattern::name_of(pattern.semantics));
  }
}

/// One file under two names is one file: links are followed as far as they exist.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  if (std::filesystem::equivalent(a, b, ignored)) return true;
  return follow_links(a) == follow_links(b);
}

/// Refuses a key that names the file of another one.
void check_apart(const RunFile& run, const char* key, const std::string& file, const char* other,
                 const std::optional<std::string>& other_file) {
  if (!other_file || !same_file(file, *other_file)) return;
  fail(ErrorKind::usage, "{}{} is the file of {}, {}", run.where(key), key, other, *other_file);
}

void check_output(const RunFile& run) {
  const Settings& s = run.settings;
  if (!given(run, "output.file")) fail(ErrorKind::usage, "{}output.file is missing", run.where("output"));
  // What is read must not be replaced, and one output not by another.
  const auto apart_from_inputs = [&](const char* key, const std::string& file) {
    check_apart(run, key, file, "input.file", s.input.file);
    check_apart(run, key, file, "distribution.machine", s.distribution.machine);
    if (same_file(file, run.name)) fail(ErrorKind::usage, "{}{} is this run file, {}", run.where(key), key, run.name);
  };
  apart_from_inputs("output.file", s.output.file);
  if (s.output.report) {
    apart_from_inputs("output.report", *s.output.report);
    check_apart(run, "output.report", *s.output.report, "output.file", s.output.file);
  }
  if (s.train) {
    apart_from_inputs("train.checkpoint", s.train->checkpoint);
    check_apart(run, "train.checkpoint", s.train->checkpoint, "output.file", s.output.file);
    check_apart(run, "train.checkpoint", s.train->checkpoint, "output.report", s.output.report);
  }
}

}  // namespace

void complete_and_check(RunFile& run, std::size_t segments, std::size_t dilations) {
  check_input(run);
  check_attention(run, segments, dilations);
  check_compute(run);
  check_layer(run);
  check_train(run);
  check_distribution(run);
  check_output(run);
}

void check_heads(const RunFile& run, Index heads) {
  const pattern::Pattern& pattern = run.settings.attention.pattern;
  if (pattern.semantics == pattern::Semantics::grouped && Index(pattern.pairs.size()) > heads) {
    fail(ErrorKind::usage, "{}attention.semantics: grouped gives every pair heads of its own; {} pairs, {} heads",
         run.where("attention.semantics"), pattern.pairs.size(), heads);
  }
}

}  // namespace annulus::io
