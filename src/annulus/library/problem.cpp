// Makes a problem from the arguments of a plan, and checks all of them.
#include <algorithm>
#include <cmath>

#include "annulus/core/head_dim.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/library/made_plan.hpp"
#include "annulus/strategies/problem_checks.hpp"

namespace annulus::library {
namespace {

// We know no model with more key/value heads than this. completed() does not refuse a tensor with at most this many
// heads, because such tensors often have fewer rows than heads.
constexpr Index most_kv_heads_yet = 256;

constexpr Index most_rows = 1'000'000'000'000;  // limit of a segment, a dilation, a window; as in the run file

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  core::fail(ErrorKind::usage, "plan: {}", fmt::format(format, std::forward<Args>(args)...));
}

void check_at_least(const char* name, Index value, Index least) {
  if (value < least) refuse("{} is {}, expected {} or more", name, value, least);
}

/// Returns the value of the entry named `name` in a table of folder pattern. If there is no such entry, throws
/// Error(usage) that lists all names and the name `also`.
template <class Table>
auto value_called(const std::string& name, const Table& table, const char* argument, const char* also = nullptr) {
  for (const auto& entry : table) {
    if (entry.name == name) return entry.value;
  }
  std::string names = also != nullptr ? also : "";
  for (const auto& entry : table) names += (names.empty() ? "" : ", ") + std::string(entry.name);
  refuse("{} is '{}', expected one of {}", argument, name, names);
}

pattern::Window make_window(std::size_t i, const Window& asked, bool causal) {
  for (const Index rows : {asked.left, asked.right, asked.first}) {
    if (rows >= 0 && rows <= most_rows) continue;
    refuse("segments[{}] is a window of left {}, right {}, first {}, expected 0 to {}", i, asked.left, asked.right,
           asked.first, most_rows);
  }
  return {asked.left, causal ? 0 : asked.right, asked.first};
}

pattern::Pattern make_pattern(const Pattern& asked) {
  pattern::Pattern made;
  if (asked.segments.size() != asked.dilations.size() || asked.segments.empty()) {
    refuse("there are {} segments and {} dilations, expected one of each per pair", asked.segments.size(),
           asked.dilations.size());
  }
  made.pairs.clear();
  for (std::size_t i = 0; i < asked.segments.size(); ++i) {
    const Segment& segment = asked.segments[i];
    if (segment.rows < 0 || segment.rows > most_rows) {
      refuse("segments[{}] is {}, expected 1 to {}, or annulus::all (0)", i, segment.rows, most_rows);
    }
    if (asked.dilations[i] < 1 || asked.dilations[i] > most_rows) {
      refuse("dilations[{}] is {}, expected 1 to {}", i, asked.dilations[i], most_rows);
    }
    made.pairs.push_back({segment.rows, asked.dilations[i]});
    if (segment.window) made.pairs.back().window = make_window(i, *segment.window, asked.causal);
  }
  made.semantics = value_called(asked.semantics, pattern::semantics_table, "semantics");
  made.causal = asked.causal;
  made.group_scale = asked.group_scale;
  return made;
}

pattern::Documents make_documents(const Pattern& asked, Index sequence) {
  const std::vector<Index>& d = asked.documents;
  std::vector<Interval> ranges = asked.ranges;
  if (!d.empty() && !ranges.empty()) refuse("documents and ranges are given, expected one of them");
  if (d.empty() && ranges.empty()) return {0, sequence};
  if (!d.empty() && (d.size() < 2 || d.front() != 0 || d.back() > sequence)) {
    refuse("documents go from {} to {} in {} numbers, expected offsets from 0 to the sequence's length, {}, or less",
           d.front(), d.back(), d.size(), sequence);
  }
  for (std::size_t i = 1; i < d.size(); ++i) {
    if (d[i] < d[i - 1]) refuse("documents[{}] is {}, less than the offset before it, {}", i, d[i], d[i - 1]);
    ranges.push_back({d[i - 1], d[i]});
  }
  Index end = 0;
  for (std::size_t i = 0; i < ranges.size(); end = ranges[i++].end) {
    if (ranges[i].begin >= end && ranges[i].end >= ranges[i].begin && ranges[i].end <= sequence) continue;
    refuse("ranges[{}] is [{}, {}), expected ascending ranges of rows {} to {}", i, ranges[i].begin, ranges[i].end, end,
           sequence);
  }
  return pattern::documents_at(ranges, sequence);
}

kernels::ScoreRule make_rule(const Pattern& asked, const Shape& shape, const pattern::Documents& documents) {
  kernels::ScoreRule rule;
  if (asked.softcap) {
    if (!(*asked.softcap > 0)) refuse("softcap is {}, expected a number above 0", *asked.softcap);
    rule.cap = *asked.softcap;
  }
  constexpr Index most_slopes = 1 << 20;
  if (!asked.bias) return rule;
  if (shape.heads > most_slopes) refuse("bias: {} heads, expected {} at most", shape.heads, most_slopes);
  const Bias& bias = *asked.bias;
  rule.slopes = bias.slopes.empty() ? kernels::alibi_slopes(shape.heads) : bias.slopes;
  rule.exempt = bias.exempt;
  if (bias.coordinates.empty()) return rule;
  if (Index(bias.coordinates.size()) != 2 * shape.kv_sequence) {
    refuse("coordinates are {} numbers, expected two for each of {} rows", bias.coordinates.size(), shape.kv_sequence);
  }
  std::vector<double> coordinates = bias.coordinates;
  for (const core::Interval& none : pattern::in_gaps(documents, {0, shape.kv_sequence}))
    std::fill(coordinates.begin() + 2 * none.begin, coordinates.begin() + 2 * none.end, 0.0);
  for (std::size_t i = 0; i < coordinates.size(); ++i) {
    if (std::isfinite(coordinates[i])) continue;
    refuse("coordinates[{}][{}] is {}, expected finite numbers", i / 2, i % 2, coordinates[i]);
  }
  rule.coordinates = std::make_shared<kernels::Coordinates>(
      std::move(coordinates), pattern::rows_without_first(documents, std::max<Index>(0, bias.exempt)));
  return rule;
}

strategies::QueryOffset offset_of(Index asked) {
  using Kind = strategies::QueryOffset::Kind;
  if (asked == last_rows) return {};
  return asked == no_rows ? strategies::QueryOffset{Kind::none} : strategies::QueryOffset{Kind::row, asked};
}

/// Returns the precision with this name; empty if the name is auto.
std::optional<core::Precision> precision_called(const std::string& name) {
  if (name == "auto") return {};
  for (const core::Precision precision : core::all_precisions) {
    if (core::name_of(precision) == name) return precision;
  }
  std::string names = "auto";
  for (const core::Precision precision : core::all_precisions) names += fmt::format(", {}", core::name_of(precision));
  refuse("precision is '{}', expected one of {}", name, names);
}

void take_distribution(const Options& options, int ranks, strategies::Problem& problem) {
  if (options.partition != "auto") {
    problem.partition = value_called(options.partition, pattern::partition_table, "partition", "auto");
  }
  check_at_least("block_size", options.block_size, 0);
  if (options.block_size > 0 && options.partition != "block_cyclic") {
    refuse("block_size needs partition block_cyclic, and partition is {}", options.partition);
  }
  problem.block_size = options.block_size;
  if (options.ulysses_ranks < 0 || (options.ulysses_ranks > 0 && ranks % options.ulysses_ranks != 0)) {
    refuse("ulysses_ranks is {}, expected a divisor of the {} ranks, or 0", options.ulysses_ranks, ranks);
  }
  if (options.ulysses_ranks > 0 && options.strategy != "hybrid") {
    refuse("ulysses_ranks needs strategy hybrid, and strategy is {}", options.strategy);
  }
  problem.ulysses_ranks = options.ulysses_ranks > 0 ? options.ulysses_ranks : ranks;
}

}  // namespace

Shape completed(const Shape& shape) {
  Shape made = shape;
  if (made.kv_heads == 0) made.kv_heads = made.heads;
  if (made.kv_sequence == 0) made.kv_sequence = made.sequence;
  if (made.value_dim == 0) made.value_dim = made.head_dim;
  check_at_least("batch", made.batch, 1);
  check_at_least("sequence", made.sequence, 1);
  check_at_least("heads", made.heads, 1);
  check_at_least("kv_heads", made.kv_heads, 1);
  for (const auto& [name, dim] : {std::pair("head_dim", made.head_dim), std::pair("value_dim", made.value_dim)}) {
    check_at_least(name, dim, 1);
    if (dim > core::most_head_dim) refuse("{} is {}, expected {} or less", name, dim, core::most_head_dim);
  }
  if (made.heads % made.kv_heads != 0)
    refuse("kv_heads is {}, expected a divisor of {} heads", made.kv_heads, made.heads);
  check_at_least("kv_sequence", made.kv_sequence, 1);
  if (made.kv_heads > std::max(made.kv_sequence, most_kv_heads_yet) && !made.more_heads_than_rows) {
    refuse(
        "k has {} key/value heads and {} rows: are the axes in another order? Expected as many rows or more, or "
        "Shape::more_heads_than_rows = true if this is meant",
        made.kv_heads, made.kv_sequence);
  }
  return made;
}

strategies::Problem make_problem(const Shape& shape, const Pattern& pattern, int ranks, const Options& options) {
  if (ranks < 1) refuse("ranks is {}, expected 1 or more", ranks);
  strategies::Problem problem;
  problem.shape = {shape.batch, shape.kv_sequence, shape.heads, shape.kv_heads, shape.head_dim};
  problem.shape.set_value_dim(shape.value_dim);
  problem.type = shape.type;
  problem.statistics = {options.entropy, options.received, options.top_keys};
  problem.scale = pattern.scale.value_or(1 / std::sqrt(double(shape.head_dim)));
  problem.pattern = make_pattern(pattern);
  problem.documents = make_documents(pattern, shape.kv_sequence);
  if (pattern.query_offset == no_rows && !pattern.ranges.empty()) {
    if (pattern.ranges.size() > 1)
      refuse("there are {} ranges, and queries have no row numbers; expected one range", pattern.ranges.size());
    problem.key_ranges = pattern.ranges;
    problem.documents = {0, shape.kv_sequence};
  }
  problem.rule = make_rule(pattern, shape, problem.documents);
  if (const auto found = place_asked_queries(offset_of(pattern.query_offset), shape.sequence, problem))
    refuse("{} is {}", found->name(), found->reason);
  problem.sink = pattern.sink;
  problem.gradients = options.gradients;
  const std::optional<core::Precision> named = precision_called(options.precision);
  problem.precision = named.value_or(core::default_precision(problem.type));
  problem.backend =
      kernels::default_backend({.type = problem.type,
                                .precision = problem.precision,
                                .statistics = problem.statistics.any(),
                                .scaled_gradients = problem.gradients && problem.pattern.output_scale() != 1,
                                .reproducible = options.reproducible,
                                .score_rule = problem.rule.any(),
                                .windows_alone = problem.pattern.is_windows_alone()});
  if (!named) {
    const bool any_cut = options.reproducible && !strategies::why_not_by_granules(problem).empty();
    problem.precision = kernels::default_precision(problem.backend, problem.type, problem.statistics.any(), any_cut);
  }
  check_at_least("top_keys", options.top_keys, 0);
  if (const auto found = check(problem, strategies::Use::compute)) refuse("{}: {}", found->name(), found->reason);
  if (options.reproducible) {
    const std::string lacks = kernels::why_no_granules(problem.backend, problem.shape, problem.type, problem.precision);
    make_reproducible(problem, true, lacks.empty());
    if (const std::string why = why_no_fixed_order(problem, lacks); !why.empty())
      refuse("reproducible is true with precision {}: {}", core::name_of(problem.precision), why);
  }
  take_distribution(options, ranks, problem);
  return problem;
}

}  // namespace annulus::library
