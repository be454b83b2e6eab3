// A run file with a section bench, and the cases of its sweep. Each case becomes a run file of its own.
#pragma once

#include <string>
#include <vector>

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// One combination of the swept values.
struct BenchCase {
  Index number = 0;  ///< counted from 0; skipped combinations are not counted
  std::vector<std::pair<std::string, SweptValue>> values;

  /// The case's name: "case 3 (distribution.strategy=ring, attention.causal=true)".
  std::string name() const;
  /// The case's value for a swept key, or for "ranks" or "threads"; nullptr if `word` is not swept.
  const SweptValue* find(std::string_view word) const;
};

struct BenchFile {
  RunFileTree shared;  ///< the keys of all cases, without sections bench and train; output is {file: none}
  BenchSettings settings;
  std::vector<BenchCase> cases;

  /// Makes and checks the run file of a case. Throws an Error(usage) that names the case.
  RunFile run_file(const BenchCase& one) const;

  /// Text that identifies this sweep, in lines "key: value": the swept values, the repeats, and all other settings that
  /// can change the measurements. Names of files are included without their folders, because files may move.
  std::string identity() const;
};

/// Reads the file and lists its cases; run_file() checks them. Collective; throws the same Error(usage) on every rank.
BenchFile read_bench_file(const std::string& path, const std::vector<std::string>& overrides,
                          const comm::Communicator& comm);
BenchFile bench_file_of(RunFileTree tree);

/// Every combination of swept values that no condition skips. The last axis changes fastest.
std::vector<BenchCase> cases_of(const BenchSettings& settings);

/// One line "key: a -> b" for each key whose values differ: the value is a in the identity `made`, and b in `asked`.
std::vector<std::string> identity_differences(const std::string& made, const std::string& asked);

}  // namespace annulus::runfile
