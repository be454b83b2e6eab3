#include "annulus/io/run_file_keys.hpp"

#include <filesystem>

#include "annulus/core/error.hpp"
#include "annulus/io/yaml_values.hpp"

namespace annulus::io {
namespace {

using core::DType;
using core::Precision;

// Beyond any problem, and small enough that products with heads and bytes stay in 64 bits.
constexpr Index max_rows = 1'000'000'000'000;
constexpr Index max_heads = 1'000'000;
constexpr Index max_ranks = 1'000'000'000;  // an int in MPI

std::string write_flag(bool flag) { return flag ? "true" : "false"; }
std::string write_optional(const std::optional<std::string>& text) { return text ? quote(*text) : "none"; }

// ---- how single keys are read and written ----
Access extent(Index core::Shape::*member, Index most) {
  return {
      [=](const KeyValue& v, Settings& s) { s.input.generate->shape.*member = read_integer(v.node, v.name, 1, most); },
      [=](const Settings& s) { return s.input.generate ? std::to_string(s.input.generate->shape.*member) : ""; }};
}

/// Of attention alone: a layer makes its q, k, v and dout itself.
Access dataset(std::string InputSettings::*member) {
  return {[=](const KeyValue& v, Settings& s) { s.input.*member = read_text(v.node, v.name); },
          [=](const Settings& s) { return s.layer ? "" : quote(s.input.*member); }};
}

/// `get` returns a reference to the flag in settings, const or not.
template <class Get>
Access flag(Get get) {
  return {[=](const KeyValue& v, Settings& s) { get(s) = read_flag(v.node, v.name); },
          [=](const Settings& s) { return write_flag(get(s)); }};
}

/// One of a list of values with a name each; `get` as above.
template <class Value, class Get>
Access choice(std::vector<std::pair<std::string, Value>> choices, Get get) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) names.push_back(name);
  return {[=](const KeyValue& v, Settings& s) { get(s) = choices[read_choice(v.node, v.name, names)].second; },
          [=](const Settings& s) -> std::string {
            for (const auto& [name, value] : choices) {
              if (value == get(s)) return name;
            }
            return "";
          }};
}

// ---- keys with a form of their own ----
Access input_file() {
  return {[](const KeyValue& v, Settings& s) { s.input.file = absolute(read_text(v.node, v.name), v.folder); },
          [](const Settings& s) { return s.input.file ? quote(*s.input.file) : ""; }};
}

/// What is read and written without the key is bshd, unless the file says otherwise.
Access axes() {
  constexpr AxisOrder orders[] = {AxisOrder::bshd, AxisOrder::bhsd};
  return {[=](const KeyValue& v, Settings& s) {
            s.input.axes = orders[read_choice(
                v.node, v.name, {std::string(name_of(AxisOrder::bshd)), std::string(name_of(AxisOrder::bhsd))})];
          },
          [](const Settings& s) {
            if (!s.input.file || s.layer) return std::string();
            return std::string(name_of(s.input.axes.value_or(AxisOrder::bshd)));
          }};
}

Access generated_type() {
  constexpr DType types[] = {DType::float64, DType::float32, DType::float16, DType::bfloat16};
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(core::name_of(type));
  return {[=](const KeyValue& v, Settings& s) { s.input.generate->type = types[read_choice(v.node, v.name, names)]; },
          [](const Settings& s) { return s.input.generate ? std::string(core::name_of(s.input.generate->type)) : ""; }};
}

Access generated_seed() {
  return {[](const KeyValue& v, Settings& s) {
            s.input.generate->seed = std::uint64_t(read_integer(v.node, v.name, 0, INT64_MAX));
          },
          [](const Settings& s) { return s.input.generate ? std::to_string(s.input.generate->seed) : ""; }};
}

/// `none` or a dataset.
Access dataset_or_none(std::optional<std::string> InputSettings::*member) {
  return {[=](const KeyValue& v, Settings& s) {
            (s.input.*member).reset();
            if (!is_word(v.node, "none")) s.input.*member = read_text(v.node, v.name);
          },
          [=](const Settings& s) { return write_optional(s.input.*member); }};
}

/// Segments and dilations may come in either order; the longer list decides how many pairs there are for now, that
/// they are equally long is checked later.
pattern::Pair& pair_at(Settings& s, std::size_t i) {
  auto& pairs = s.attention.pattern.pairs;
  if (pairs.size() <= i) pairs.resize(i + 1);
  return pairs[i];
}

Access segments() {
  return {[](const KeyValue& v, Settings& s) {
            const auto& items = read_list(v.node, v.name);
            for (std::size_t i = 0; i < items.size(); ++i) {
              pair_at(s, i).segment =
                  is_word(items[i], "all") ? pattern::whole_document : read_integer(items[i], v.name, 1, max_rows);
            }
          },
          [](const Settings& s) {
            std::vector<std::string> words;
            for (const auto& pair : s.attention.pattern.pairs) {
              words.push_back(pair.segment == pattern::whole_document ? "all" : std::to_string(pair.segment));
            }
            return fmt::format("[{}]", fmt::join(words, ", "));
          }};
}

Access dilations() {
  return {[](const KeyValue& v, Settings& s) {
            const auto& items = read_list(v.node, v.name);
            for (std::size_t i = 0; i < items.size(); ++i) {
              pair_at(s, i).dilation = read_integer(items[i], v.name, 1, max_rows);
            }
          },
          [](const Settings& s) {
            std::vector<Index> rates;
            for (const auto& pair : s.attention.pattern.pairs) rates.push_back(pair.dilation);
            return fmt::format("[{}]", fmt::join(rates, ", "));
          }};
}

Access scale() {
  return {[](const KeyValue& v, Settings& s) {
            s.attention.scale.reset();
            if (!is_word(v.node, "auto")) s.attention.scale = read_positive_number(v.node, v.name);
          },
          [](const Settings& s) { return s.attention.scale ? fmt::format("{}", *s.attention.scale) : "auto"; }};
}

Access strategy() {
  return {[](const KeyValue& v, Settings& s) { s.distribution.strategy = read_text(v.node, v.name); },
          [](const Settings& s) { return quote(s.distribution.strategy); }};
}

/// `auto` or a whole number from 1 to `most`.
Access auto_or_count(std::optional<Index> DistributionSettings::*member, Index most) {
  return {[=](const KeyValue& v, Settings& s) {
            (s.distribution.*member).reset();
            if (!is_word(v.node, "auto")) s.distribution.*member = read_integer(v.node, v.name, 1, most);
          },
          [=](const Settings& s) {
            const std::optional<Index>& value = s.distribution.*member;
            return value ? std::to_string(*value) : "auto";
          }};
}

Access local_below() {
  return {
      [](const KeyValue& v, Settings& s) { s.distribution.local_below = read_integer(v.node, v.name, 0, max_rows); },
      [](const Settings& s) { return std::to_string(s.distribution.local_below); }};
}

Access stall_timeout() {
  return {[](const KeyValue& v, Settings& s) { s.distribution.stall_timeout = read_positive_number(v.node, v.name); },
          [](const Settings& s) { return fmt::format("{}", s.distribution.stall_timeout); }};
}

Access machine() {
  return {[](const KeyValue& v, Settings& s) {
            s.distribution.machine.reset();
            if (!is_word(v.node, "none")) s.distribution.machine = absolute(read_text(v.node, v.name), v.folder);
          },
          [](const Settings& s) { return write_optional(s.distribution.machine); }};
}

Access output_file() {
  return {[](const KeyValue& v, Settings& s) { s.output.file = absolute(read_text(v.node, v.name), v.folder); },
          [](const Settings& s) { return quote(s.output.file); }};
}

Access output_report() {
  return {[](const KeyValue& v, Settings& s) {
            s.output.report.reset();
            if (!is_word(v.node, "none")) s.output.report = absolute(read_text(v.node, v.name), v.folder);
          },
          [](const Settings& s) { return write_optional(s.output.report); }};
}

// ---- sections ----
using Keys = std::vector<Key>;
using core::Shape;

Keys input_keys() {
  return {
      {{"input.file", "", "path of an HDF5 file; give this or generate"}, input_file(), true},
      {{"input.generate.sequence", "", "rows, 1 to 10^12"}, extent(&Shape::sequence, max_rows), true},
      {{"input.generate.heads", "", "query heads, 1 to 10^6"}, extent(&Shape::heads, max_heads), true},
      {{"input.generate.kv_heads", "", "K/V heads, a divisor of heads; default: as many as heads"},
       extent(&Shape::kv_heads, max_heads),
       true},
      {{"input.generate.head_dim", "64", "numbers per head, 1 to 256"}, extent(&Shape::head_dim, 256), true},
      {{"input.generate.batch", "1", "batch entries, 1 to 10^6"}, extent(&Shape::batch, max_heads), true},
      {{"input.generate.dtype", "float32", "float64 | float32 | float16 | bfloat16"}, generated_type(), true},
      {{"input.generate.seed", "1", "whole number, 0 or more"}, generated_seed(), true},
      {{"input.axes", "bshd",
        "bshd | bhsd (PyTorch's order): axes of q, k, v, dout, dlse, and of the output; not given: as the file names "
        "them, else bshd"},
       axes(),
       true},
      {{"input.q", "/q", "dataset, (batch, sequence, heads, head_dim)"}, dataset(&InputSettings::q), true},
      {{"input.k", "/k", "dataset, (batch, sequence, kv_heads, head_dim)"}, dataset(&InputSettings::k), true},
      {{"input.v", "/v", "dataset, (batch, sequence, kv_heads, head_dim)"}, dataset(&InputSettings::v), true},
      {{"input.dout", "/dout", "dataset shaped like q: gradient of out; read when compute.backward is true"},
       dataset(&InputSettings::dout),
       true},
      {{"input.dlse", "none", "none, or a dataset (batch, sequence, heads): gradient of lse, in the type of lse"},
       dataset_or_none(&InputSettings::dlse),
       true},
      {{"input.documents", "none", "none, or a dataset of ascending row offsets 0 ... sequence of packed documents"},
       dataset_or_none(&InputSettings::documents),
       true},
  };
}

Keys attention_keys() {
  std::vector<std::pair<std::string, pattern::Semantics>> semantics;
  for (const auto& entry : pattern::semantics_table) semantics.emplace_back(entry.name, entry.value);
  return {
      {{"attention.semantics", "longnet", "longnet | paper | grouped"},
       choice(
           semantics, [](auto& s) -> auto& { return s.attention.pattern.semantics; }),
       true},
      {{"attention.segments", "[all]", "rows, 1 or more, or all: one entry per pair"}, segments(), true},
      {{"attention.dilations", "[1]", "rows from one picked row to the next, 1 or more: one entry per pair"},
       dilations(),
       true},
      {{"attention.causal", "true", "true | false; true: a row sees itself and rows before it"},
       flag([](auto& s) -> auto& { return s.attention.pattern.causal; }),
       true},
      {{"attention.scale", "auto", "auto: 1/sqrt(head_dim), or a number above 0"}, scale(), true},
      {{"attention.group_scale", "false", "true | false; true needs semantics grouped: output / number of pairs"},
       flag([](auto& s) -> auto& { return s.attention.pattern.group_scale; }),
       true},
  };
}

Keys further_keys() {
  const std::vector<std::pair<std::string, std::optional<Precision>>> precisions{
      {"auto", std::nullopt}, {"float32", Precision::float32}, {"float64", Precision::float64}};
  std::vector<std::pair<std::string, std::optional<pattern::PartitionKind>>> partitions{{"auto", std::nullopt}};
  for (const auto& entry : pattern::partition_table) partitions.emplace_back(entry.name, entry.value);
  const std::vector<std::pair<std::string, comm::GpuAware>> awareness{
      {"auto", comm::GpuAware::automatic}, {"on", comm::GpuAware::on}, {"off", comm::GpuAware::off}};
  return {
      {{"compute.backward", "false", "true | false; true makes the gradients dq, dk, dv, too"},
       flag([](auto& s) -> auto& { return s.compute.gradients; }),
       true},
      {{"compute.precision", "auto", "of sums: auto (float32; float64 for float64 input) | float32 | float64"},
       choice(
           precisions, [](auto& s) -> auto& { return s.compute.precision; }),
       true},
      {{"compute.reproducible", "false", "true | false; true: the same bits for any number of ranks and threads"},
       flag([](auto& s) -> auto& { return s.compute.reproducible; }),
       false},
      {{"distribution.strategy", "auto", "auto, or a name that annulus list shows"}, strategy(), false},
      {{"distribution.partition", "auto", "auto | contiguous | zigzag | block_cyclic"},
       choice(
           partitions, [](auto& s) -> auto& { return s.distribution.partition; }),
       false},
      {{"distribution.block_size", "auto", "auto, or rows of a block, 1 or more; for partition block_cyclic"},
       auto_or_count(&DistributionSettings::block_size, max_rows),
       false},
      {{"distribution.ulysses_ranks", "auto", "auto: ranks of a node, or a divisor of the ranks; for strategy hybrid"},
       auto_or_count(&DistributionSettings::ulysses_ranks, max_ranks),
       false},
      {{"distribution.local_below", "32768", "rows, 0 or more; strategy auto runs shorter sequences on one rank"},
       local_below(),
       false},
      {{"distribution.gpu_aware", "auto",
        "auto | on | off; on hands device memory to MPI, off stages it in host memory"},
       choice(
           awareness, [](auto& s) -> auto& { return s.distribution.gpu_aware; }),
       false},
      {{"distribution.stall_timeout", "300",
        "seconds, above 0; a run in which no rank gets on, or a call hangs, for so long is ended"},
       stall_timeout(),
       false},
      {{"distribution.machine", "none",
        "none, or path of a machine file (plan --calibrate) that strategy auto goes by"},
       machine(),
       false},
      {{"output.file", "", "path of the HDF5 file to make"}, output_file(), false},
      {{"output.overwrite", "false", "true | false; true replaces an existing file (report, too)"},
       flag([](auto& s) -> auto& { return s.output.overwrite; }),
       false},
      {{"output.report", "none", "none, or path of a JSON file"}, output_report(), false},
  };
}

}  // namespace

const std::vector<Key>& key_table() {
  static const Keys table = [] {
    Keys keys = input_keys();
    for (const Keys& more : {attention_keys(), further_keys(), layer_keys()})
      keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }();
  return table;
}

std::vector<KeyInfo> run_file_keys() {
  std::vector<KeyInfo> keys;
  for (const Key& key : key_table()) keys.push_back(key.info);
  return keys;
}

std::string absolute(const std::string& path, const std::string& folder) {
  return (std::filesystem::path(folder) / path).lexically_normal().string();
}

std::string_view section_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? "" : key.substr(0, dot);
}

std::string_view word_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? key : key.substr(dot + 1);
}

}  // namespace annulus::io
