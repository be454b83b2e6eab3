// What a problem may not be: one check for run files, the library and Python.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "annulus/pattern/query_offset.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {

/// A setting that cannot be computed, by itself or with the rest of the problem.
struct Objection {
  std::string_view key;  ///< of the run file, "attention.scale"
  std::string reason;    ///< what was found and what was expected; follows the key and ": "

  /// The setting's name in the library and in Python, where settings have no sections: "scale".
  std::string_view name() const { return key.substr(key.rfind('.') + 1); }
};

using pattern::QueryOffset;

/// Why queries cannot be without row numbers in this pattern, of these documents: only where every query sees every key
/// once. Empty: they can.
std::string why_not_without_rows(const pattern::Pattern& pattern, bool has_documents);

/// Places `count` queries in a problem that has its pattern and documents; or says what is wrong with that.
std::optional<Objection> place_asked_queries(const QueryOffset& offset, Index count, Problem& problem);

/// Whether the problem is only looked at, which needs no back end, or computed in this process.
enum class Use { look_at, compute };

/// The first thing that is wrong with a problem whose extents, pairs and documents are valid numbers; none: it may be
/// computed. Documents have to be there, {0, S} where the sequence is one document.
std::optional<Objection> check(const Problem& problem, Use use);

}  // namespace annulus::strategies
