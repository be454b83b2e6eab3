// Compares a result with the definition in float64, row by row.
#pragma once

#include <string>
#include <vector>

#include "annulus/verify/layer_input.hpp"

namespace annulus::verify {

/// One dataset: how much it may deviate, and how much it does.
struct Verdict {
  std::string name;
  double tolerance;
  Deviation deviation;

  bool good() const { return deviation.relative() <= tolerance; }
};

/// What was checked, and what the user should know about it.
struct Findings {
  std::string scope;  ///< "the definition in float64: 64 of 512 rows, ..."
  std::vector<Verdict> verdicts;
  std::vector<std::string> notes;

  bool good() const;
};

/// How many rows of a result are checked, `rows` at most, and how to read them. verify_...() below are collective.
struct Sample {
  ResultRows result;
  const store::InspectedFile* file =
      nullptr;  ///< the file with the complete result; nullptr: `result` has only the sampled rows
  bool gradients = false;
  Index rows = 64;
  std::function<void(double share, const std::string& what)> progress{};  ///< called on this rank; may be empty
  strategies::Statistics statistics{};                                    ///< which ones the result has

  /// The type of a dataset of floats in the file. Without a file it is `at_hand`, the type that was computed.
  core::DType stored(const std::string& dataset, core::DType at_hand) const {
    return file != nullptr ? file->at(dataset).type.dtype().value_or(at_hand) : at_hand;
  }
};

/// Checks out, lse, entropy and lists of top rows for sampled query rows; with gradients, also dq. Checks the sums over
/// queries that the result has (dk, dv, received) for sampled keys.
Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm);

/// With gradients, and if all can be recomputed in some seconds, checks every number of y, dx and all weight gradients.
/// Otherwise checks sampled rows of y, and of dx if the queries that see them can be recomputed. It then cannot check
/// gradients of weights, which are sums over all rows; the findings say what was not checked.
Findings verify_layer(const LayerInput& input, const Sample& sample, const comm::Communicator& comm);

/// The tolerance for the input's type, from core::forward_tolerance or core::gradient_tolerance. Float32 sums of
/// float64 tensors, and sums stored in float32, only have float32's accuracy; products of tf32 have float16's. A stored
/// type with more bits than the computed one changes nothing.
double allowed(double (*tolerance)(core::DType), const VerifyInput& input, core::DType stored);

}  // namespace annulus::verify
