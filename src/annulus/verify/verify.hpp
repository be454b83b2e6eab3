// A result against the definition in float64, row by row.
#pragma once

#include <string>
#include <vector>

#include "annulus/verify/layer_input.hpp"

namespace annulus::verify {

/// One dataset, how far it may deviate and how far it does.
struct Verdict {
  std::string name;
  double tolerance;
  Deviation deviation;

  bool good() const { return deviation.relative() <= tolerance; }
};

/// What was looked at, and what there is to say of it.
struct Findings {
  std::string scope;  ///< "the definition in float64: 64 of 512 rows, ..."
  std::vector<Verdict> verdicts;
  std::vector<std::string> notes;

  bool good() const;
};

/// Up to `rows` rows of a result with everything that is asked for. All of them are collective.
struct Sample {
  ResultRows result;
  const store::InspectedFile* file =
      nullptr;  ///< that has all of the result; none: `result` tells of sampled rows alone
  bool gradients = false;
  Index rows = 64;
  std::function<void(double share, const std::string& what)> progress{};  ///< of this rank; may be empty
  strategies::Statistics statistics{};                                    ///< that the result has

  /// In which type the file has a dataset of floats; results at hand are in the type in which they were computed.
  core::DType stored(const std::string& dataset, core::DType at_hand) const {
    return file != nullptr ? file->at(dataset).type.dtype().value_or(at_hand) : at_hand;
  }
};

/// Looks at out, lse, entropy and lists of top rows of sampled query rows, with gradients at dq of these, and at dk, dv
/// and received of the same rows as keys.
Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm);

/// With gradients and where all of it can be recomputed in some seconds, every number of y, dx and all weight
/// gradients; else sampled rows of y, and of dx where the queries that see these rows can be recomputed. The weights'
/// gradients are sums over all rows, so that no part of the rows can tell of them: what was not looked at is noted.
Findings verify_layer(const LayerInput& input, const Sample& sample, const comm::Communicator& comm);

/// core::forward_tolerance or core::gradient_tolerance of the input's type. Sums in float32 of float64 tensors, and
/// those that are stored in float32, are right to float32's accuracy only, products of tf32 to float16's; to store more
/// bits than were computed changes nothing.
double allowed(double (*tolerance)(core::DType), const VerifyInput& input, core::DType stored);

}  // namespace annulus::verify
