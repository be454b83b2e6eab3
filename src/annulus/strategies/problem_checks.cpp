#include "annulus/strategies/problem_checks.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numbers>

#include "annulus/core/print.hpp"
#include "annulus/kernels/backend_description.hpp"
#include "annulus/pattern/filled_keys.hpp"

namespace annulus::strategies {
namespace {

using Found = std::optional<Objection>;

/// The most bytes that a tensor may have: 32 PiB, more than any machine has. Below this limit, sums of bytes over
/// tensors, ranks and passes fit into 64 bits. (Kept triples are counted in 128 bits.)
constexpr double most_bytes = 0x1p55;

Found check_size(const Problem& problem) {
  const core::Shape& s = problem.shape;
  const Index longest = std::max(s.sequence, problem.query_count());
  const double rows = double(s.batch) * double(longest),
               bytes = rows * double(std::max(problem.query_row_bytes(), problem.out_row_bytes()));
  if (bytes > most_bytes) {
    const bool of_q = s.head_dim >= s.dim_of_values();
    return Objection{
        "input", fmt::format("{} of {} x {} rows, {} of {}, {}, would have {:.3g} bytes; expected at "
                             "most {:.3g}",
                             of_q ? "q" : "out", s.batch, longest, core::how_many(s.heads, "head"),
                             of_q ? s.head_dim : s.dim_of_values(), core::name_of(problem.type), bytes, most_bytes)};
  }
  const double top_keys = double(problem.statistics.top_keys);
  const double lists = rows * double(s.heads) * top_keys * double(sizeof(Index) + sizeof(double));
  if (lists <= most_bytes) return {};
  return Objection{"output.top_keys",
                   fmt::format("lists of {} rows for {} x {} rows of {} heads would have {:.3g} "
                               "bytes; expected at most {:.3g}",
                               problem.statistics.top_keys, s.batch, longest, s.heads, lists, most_bytes)};
}

Found check_precision(const Problem& problem, Use use) {
  const core::Precision precision = problem.precision;
  if (!core::takes(precision, problem.type)) {
    return Objection{
        "compute.precision",
        fmt::format("products of {} are made of tensors of {} only, and these are {}; expected auto, "
                    "float32 or float64",
                    core::name_of(precision), core::stored_for_products(precision), core::name_of(problem.type))};
  }
  if (use == Use::look_at) return {};
  const std::string reason = kernels::why_no_products(problem.backend, precision);
  if (reason.empty()) return {};
  return Objection{"compute.precision", reason + "; expected auto, float32 or float64"};
}

double largest_number(core::Precision precision) {
  return precision == core::Precision::float64 ? DBL_MAX : double(FLT_MAX);
}

Found check_scale(const Problem& problem) {
  const bool is_double = problem.precision == core::Precision::float64;
  const double factor = problem.scale * std::numbers::log2e;  // the kernels multiply q by this
  const double least = is_double ? DBL_MIN : double(FLT_MIN), most = largest_number(problem.precision);
  if (factor >= least && factor <= most) return {};
  return Objection{
      "attention.scale",
      fmt::format("{:g}, times log2(e), is no number of precision {}, expected {:.2g} to {:.2g}", problem.scale,
                  core::name_of(problem.precision), least / std::numbers::log2e, most / std::numbers::log2e)};
}

Found check_cap(const Problem& problem) {
  const double cap = problem.rule.cap;
  if (cap == 0 || (cap >= 1e-30 && cap <= 1e30)) return {};
  return Objection{"attention.softcap", fmt::format("{:g}, expected 1e-30 to 1e30", cap)};
}

/// Checks that slopes, distances and their products are finite in every precision.
Found check_bias(const Problem& problem) {
  constexpr double most_score = 1e30;
  const kernels::ScoreRule& rule = problem.rule;
  const Index rows = problem.shape.sequence;
  if (!rule.has_bias()) return {};
  const auto object = [](std::string reason) { return Objection{"attention.bias", std::move(reason)}; };
  if (problem.pattern.semantics == pattern::Semantics::torchscale)
    return object("keys that torchscale fills in have no distance to a row; expected no bias, or other semantics");
  const Index heads = problem.share ? problem.share->heads : problem.shape.heads;
  if (Index(rule.slopes.size()) != heads)
    return object(fmt::format("{} slopes, expected one for each of the {} query heads", rule.slopes.size(), heads));
  if (rule.exempt < 0) return object(fmt::format("exempt is {}, expected 0 or more rows", rule.exempt));
  if (rule.coordinates && rule.coordinates->rows() != rows) {
    return Objection{"input.coordinates", fmt::format("{} rows, expected {}", rule.coordinates->rows(), rows)};
  }
  if (!rule.coordinates && rows > kernels::most_biased_rows)
    return object(fmt::format("{} rows, expected at most {}", rows, kernels::most_biased_rows));
  const double farthest = rule.coordinates ? 2 * rule.coordinates->extent() : double(rows);
  if (!(farthest <= most_score))
    return Objection{"input.coordinates", fmt::format("up to {:g} apart, expected {:g} or less", farthest, most_score)};
  for (const double slope : rule.slopes) {
    if (slope >= 0 && slope <= most_score / std::max(1.0, farthest)) continue;
    return object(fmt::format("a slope of {:g} at distances up to {:g}, expected 0 or more and scores up to {:g}",
                              slope, farthest, most_score));
  }
  return {};
}

Found check_rule(const Problem& problem, Use use) {
  if (Found found = check_cap(problem)) return found;
  if (Found found = check_bias(problem)) return found;
  const std::string reason = use == Use::look_at || !problem.rule.any() ? "" : kernels::why_no_rule(problem.backend);
  if (reason.empty()) return {};
  return Objection{problem.rule.has_cap() ? "attention.softcap" : "attention.bias", reason + "; expected none"};
}

Found check_values(const Problem& problem, Use use) {
  if (use == Use::look_at || !problem.shape.has_value_dim()) return {};
  const std::string reason = kernels::why_no_value_dim(problem.backend);
  if (reason.empty()) return {};
  return Objection{"input.v", fmt::format("{} numbers a head, q and k {}: {}; expected as many",
                                          problem.shape.value_dim, problem.shape.head_dim, reason)};
}

Found check_groups(const Problem& problem) {
  const pattern::Pattern& pattern = problem.pattern;
  const bool grouped = pattern.semantics == pattern::Semantics::grouped;
  if (pattern.group_scale && !grouped) {
    return Objection{"attention.group_scale",
                     fmt::format("true needs semantics grouped, not {}", pattern::name_of(pattern.semantics))};
  }
  if (!grouped || Index(pattern.pairs.size()) <= problem.shape.heads) return {};
  return Objection{"attention.semantics", fmt::format("grouped gives every pair heads of its own; {}, {}",
                                                      core::how_many(pattern.pairs.size(), "pair"),
                                                      core::how_many(problem.shape.heads, "head"))};
}

Found check_windows(const Problem& problem) {
  for (std::size_t i = 0; i < problem.pattern.pairs.size(); ++i) {
    const pattern::Pair& pair = problem.pattern.pairs[i];
    if (const std::string why = pattern::why_no_window(problem.pattern.semantics, pair); !why.empty())
      return Objection{"attention.segments", fmt::format("pair {}, {}: {}", i + 1, pattern::segment_text(pair), why)};
  }
  return {};
}

/// Refuses documents of which torchscale itself writes rows to wrong locations, because there is then no right answer.
Found check_displacement(const Problem& problem) {
  const auto found = pattern::find_displacement(problem.pattern, problem.documents);
  if (!found) return {};
  const pattern::Pair& pair = problem.pattern.pairs[std::size_t(found->pair)];
  const core::Interval rows = found->rows;
  const std::string document =
      problem.documents.size() == 2
          ? "the sequence"
          : fmt::format("document {} (rows {} to {})", found->document + 1, rows.begin, rows.end - 1);
  return Objection{"attention.segments",
                   fmt::format("torchscale writes rows to wrong places in pair {}, segment {} and dilation {}: {} of "
                               "{} rows has more than one segment, and {} is no multiple of {}; expected a multiple "
                               "or at least {} rows",
                               found->pair + 1, pair.segment, pair.dilation, document, rows.size(), pair.segment,
                               pair.dilation, rows.size())};
}

}  // namespace

std::string why_not_without_rows(const pattern::Pattern& pattern, bool has_documents) {
  const auto refused = [](const std::string& what) {
    return fmt::format("queries without row numbers see every key, and {}; expected dense attention, not causal", what);
  };
  if (pattern.causal) return refused("causal is true");
  if (has_documents) return refused("there are documents");
  if (pattern.pairs.size() != 1) return refused(fmt::format("there are {} segments", pattern.pairs.size()));
  const pattern::Pair& pair = pattern.pairs[0];
  if (pair.window || pair.segment != pattern::whole_document)
    return refused(fmt::format("a segment is {}", pattern::segment_text(pair)));
  return pair.dilation == 1 ? "" : refused(fmt::format("a dilation is {}", pair.dilation));
}

std::optional<Objection> place_asked_queries(const QueryOffset& offset, Index count, Problem& problem) {
  const Index keys = problem.shape.sequence, most = keys - count;
  const auto object = [](std::string reason) { return Objection{"input.query_offset", std::move(reason)}; };
  if (offset.kind == QueryOffset::Kind::none) {
    std::string why = why_not_without_rows(problem.pattern, problem.documents.size() > 2);
    if (why.empty() && problem.rule.has_bias())
      why = "queries without row numbers have no distance to a key, but a bias needs it; expected no bias";
    if (!why.empty()) return object("none: " + why);
    place_queries(problem, std::nullopt, count);
    return {};
  }
  const bool is_last = offset.kind == QueryOffset::Kind::last;
  if (most < 0) {
    return object(
        fmt::format("{}, q has {} rows and k {}: only queries without row numbers may be more than the keys; "
                    "expected none",
                    is_last ? "auto" : std::to_string(offset.row), count, keys));
  }
  if (!is_last && (offset.row < 0 || offset.row > most)) {
    return object(
        fmt::format("{}, q has {} rows and k {}: expected 0 to {}, auto or none", offset.row, count, keys, most));
  }
  place_queries(problem, is_last ? most : offset.row, count);
  return {};
}

std::optional<Objection> check_sink(core::Precision precision, std::span<const double> logits) {
  const double most = largest_number(precision) / std::numbers::log2e;  // the kernels multiply logits by log2(e)
  for (std::size_t h = 0; h < logits.size(); ++h) {
    if (logits[h] <= most) continue;
    const std::string expected = std::isfinite(logits[h])
                                     ? fmt::format("at most {:.3g} in precision {}", most, core::name_of(precision))
                                     : "finite numbers, or -inf for a head without a sink";
    return Objection{"input.sink", fmt::format("[{}] is {:g}, expected {}", h, logits[h], expected)};
  }
  return {};
}

std::optional<Objection> check(const Problem& problem, Use use) {
  if (Found found = check_precision(problem, use)) return found;
  if (Found found = check_size(problem)) return found;
  if (Found found = check_scale(problem)) return found;
  if (Found found = check_rule(problem, use)) return found;
  if (Found found = check_values(problem, use)) return found;
  if (Found found = check_groups(problem)) return found;
  if (Found found = check_windows(problem)) return found;
  return check_displacement(problem);
}

}  // namespace annulus::strategies
