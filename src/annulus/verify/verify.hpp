// Compares a result with the definition in float64, row by row.
#pragma once

#include <string>
#include <vector>

#include "annulus/verify/layer_input.hpp"

namespace annulus::verify {

/// How much one dataset may deviate from the definition (relative error), and how much it deviates.
struct Verdict {
  std::string name;
  double tolerance;
  Deviation deviation;

  bool good() const { return deviation.relative() <= tolerance; }
};

/// What was checked, the verdicts, and what else the user should know.
struct Findings {
  std::string scope;  ///< "the definition in float64: 64 of 512 rows, ..."
  std::vector<Verdict> verdicts;
  std::vector<std::string> notes;

  bool good() const;
};

/// Says which rows of a result are checked, and how to read them.
struct Sample {
  ResultRows result;
  const store::InspectedFile* file = nullptr;  ///< the complete result; nullptr: `result` has only the sampled rows
  bool gradients = false;
  Index rows = 64;  ///< how many rows of q, and how many of k, are sampled; verify_layer() may check all rows
  std::function<void(double share, const std::string& what)> progress{};  ///< called with the share done; may be empty
  strategies::Statistics statistics{};                                    ///< the statistics that the result has

  /// The type in which the file stores a dataset of floats. Without a file: `computed`, the type of the computation.
  core::DType stored(const std::string& dataset, core::DType computed) const {
    return file != nullptr ? file->at(dataset).type.dtype().value_or(computed) : computed;
  }
};

/// For sampled query rows, checks out and lse, entropy and top rows if the result has them, and with gradients dq. For
/// sampled keys, checks the sums over queries that the result has (dk, dv, received); without Sample::file only if
/// can_recompute_viewers(). With gradients, a file and sink logits, also checks dsink. Collective.
Findings verify_attention(const AttentionInput& input, const Sample& sample, const comm::Communicator& comm);

/// With gradients and a file, and if everything can be recomputed in some seconds, checks every number of y, dx and
/// all weight gradients. Otherwise checks sampled rows of y and, with gradients, of dx if the queries that see these
/// rows can be recomputed. The gradients of weights are then not checked, because they are sums over all rows. The
/// findings say what was not checked. Collective.
Findings verify_layer(const LayerInput& input, const Sample& sample, const comm::Communicator& comm);

/// Return the largest of three tolerances: for the input's type, for the type `stored` in the file, and for the
/// precision of the computation with scores of this size (Deviation::scores). For example, float32 sums of float64
/// tensors are only as accurate as float32, and products in tf32 only as accurate as float16. One function is for the
/// forward pass, the other for gradients.
double allowed_forward(const VerifyInput& input, core::DType stored, double scores);
double allowed_gradient(const VerifyInput& input, core::DType stored, double scores);

}  // namespace annulus::verify
