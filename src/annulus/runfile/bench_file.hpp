// A run file with a section bench, and the run files of the cases that follow from it.
#pragma once

#include <string>
#include <vector>

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// One combination of the swept values.
struct BenchCase {
  Index number = 0;  ///< counted from 0, without skipped combinations
  std::vector<std::pair<std::string, SweptValue>> values;

  /// The case's name: "case 3 (distribution.strategy=ring, attention.causal=true)".
  std::string name() const;
  /// The case's value for a swept key or word; nullptr if that is not swept.
  const SweptValue* find(std::string_view word) const;
};

struct BenchFile {
  RunFileTree shared;  ///< what all cases share: without the sections bench and train, and with output.file none
  BenchSettings settings;
  std::vector<BenchCase> cases;

  /// Makes and checks the run file of a case. Throws Error(usage) that names the case.
  RunFile run_file(const BenchCase& one) const;

  /// Text that identifies this sweep, in lines "key: value": the swept values, the repeats, and all shared settings
  /// that can change the measurements. Only the last part of a path is included, so that folders can move.
  std::string identity() const;
};

/// Lists all combinations, but does not check them yet. Collective; throws the same Error(usage) on every rank.
BenchFile read_bench_file(const std::string& path, const std::vector<std::string>& overrides,
                          const comm::Communicator& comm);
BenchFile bench_file_of(RunFileTree tree);

/// Every combination that no condition skips. The last axis changes fastest.
std::vector<BenchCase> cases_of(const BenchSettings& settings);

/// The lines in which two identities differ: "key: a -> b". Empty if they are the same sweep.
std::vector<std::string> identity_differences(const std::string& made, const std::string& asked);

}  // namespace annulus::runfile
