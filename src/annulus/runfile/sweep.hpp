// The keys that a sweep varies: `bench.sweep` and `bench.skip` in a run file.
//
//   sweep:
//     - distribution.strategy: [ring, rotation]                         axis 0: 2 values
//     - input.generate.sequence: {from: 4096, to: 16384, times: 2}      axis 1: 4096 8192 16384
//       attention.scale: [0.1, 0.2, 0.3]                                        with 0.1 0.2 0.3
//
// Keys of one axis change together. All combinations of the axes are measured: here 2 x 3 cases.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/runfile/yaml_tree.hpp"

namespace annulus::runfile {

using core::Index;

/// One value of a swept key.
struct SweptValue {
  YamlNode node;
  std::string text;  ///< as YAML in one line: "65536", "[2048, all]"; values with the same text are equal

  bool operator==(const SweptValue& other) const { return text == other.text; }
};

struct SweptKey {
  std::string name;
  std::string location;  ///< where the key was written
  std::vector<SweptValue> values;
};

/// Keys that change together; all of them have the same number of values.
using SweepAxis = std::vector<SweptKey>;

/// Skips the cases in which all of these keys have these values.
struct SkipCondition {
  std::string location;
  std::vector<std::pair<std::string, SweptValue>> values;
};

/// Words that a sweep may vary although they are not keys of a run file: the number of ranks, and the number of threads
/// on each rank. Only launches on 4 ranks measure a case that asks for 4 ranks; the same holds for threads.
inline constexpr const char* ranks_word = "ranks";
inline constexpr const char* threads_word = "threads";

/// Limit for the number of cases of a sweep; a sweep with more cases is probably a mistake.
inline constexpr Index most_cases = 100'000;

/// Throws Error(usage) for a word that is not a key of a run file, for a key that a sweep may not vary (in bench,
/// output or train) or that is given twice, for too many cases, and for a condition whose key or value no case has.
void check_sweep(const std::vector<SweepAxis>& sweep, const std::vector<SkipCondition>& skip);

/// The node as YAML in one line.
std::string text_of(const YamlNode& node);

}  // namespace annulus::runfile
