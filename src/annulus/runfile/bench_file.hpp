// A run file with a section bench, and the run files of its cases.
#pragma once

#include <string>
#include <vector>

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {

/// One combination of values.
struct BenchCase {
  Index number = 0;  ///< from 0, skipped combinations not counted
  std::vector<std::pair<std::string, SweptValue>> values;

  /// "case 3 (distribution.strategy=ring, attention.causal=true)".
  std::string name() const;
  /// What it says of a swept word, nullptr where that is not swept.
  const SweptValue* find(std::string_view word) const;
};

struct BenchFile {
  RunFileTree shared;  ///< what the cases have in common: without the sections bench and train, output.file is none
  BenchSettings settings;
  std::vector<BenchCase> cases;

  /// The checked run file of a case. Throws Error(usage) that names the case.
  RunFile run_file(const BenchCase& one) const;

  /// What makes this sweep the one it is, in lines "key: value": the sweep, how often cases are measured, and all that
  /// they share and that may change what is measured. Of files the last part of the path counts, folders may move.
  std::string identity() const;
};

/// Collective; throws the same Error(usage) on every rank. All combinations are spelled out, none is checked yet.
BenchFile read_bench_file(const std::string& path, const std::vector<std::string>& overrides,
                          const comm::Communicator& comm);
BenchFile bench_file_of(RunFileTree tree);

/// Every combination that no condition leaves out; the last axis changes fastest.
std::vector<BenchCase> cases_of(const BenchSettings& settings);

/// Lines of two identities that differ: "key: a -> b". Empty: they are the same sweep.
std::vector<std::string> identity_differences(const std::string& made, const std::string& asked);

}  // namespace annulus::runfile
