// Decides which problems are refused, with the same checks for run files, the library and Python.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "annulus/pattern/query_offset.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// A setting with which a problem cannot be computed: it is invalid, or does not fit the rest of the problem.
struct Objection {
  std::string_view key;  ///< the setting's name in the run file, such as "attention.scale"
  std::string reason;    ///< what was found and what was expected; printed after the key and ": "

  /// The setting's name in the library and in Python, which have no sections: "scale".
  std::string_view name() const { return key.substr(key.rfind('.') + 1); }
};

using pattern::QueryOffset;

/// Returns why queries must have row numbers with this pattern, or with documents; empty if they need none. Queries
/// without row numbers must see every key exactly once.
std::string why_not_without_rows(const pattern::Pattern& pattern, bool has_documents);

/// Sets the `count` queries of a problem whose pattern and documents are set, or returns what is wrong with `offset`.
std::optional<Objection> place_asked_queries(const QueryOffset& offset, Index count, Problem& problem);

/// What the caller does with the problem: looks at it (this needs no back end), or computes it in this process.
enum class Use { look_at, compute };

/// Returns what is wrong with sink logits (H): NaN, or a logit that is too large for the precision. The reason begins
/// with an index, "[3] is nan", to be printed right after a name. A logit may be -infinity, which means weight 0.
std::optional<Objection> check_sink(core::Precision precision, std::span<const double> logits);

/// Returns the first thing that is wrong with a problem whose extents, pairs and documents are valid numbers; empty if
/// the problem can be computed. Documents must be set: {0, S} if the sequence is one document.
std::optional<Objection> check(const Problem& problem, Use use);

}  // namespace annulus::strategies
