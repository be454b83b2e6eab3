// Descriptions of back ends: their limits, their versions, and how much they have computed. The rest of the program
// uses these descriptions, so that it contains no library's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/kernels/score_rule.hpp"

namespace annulus::kernels {

/// Properties of a run that a back end may refuse.
struct WantedOfBackend {
  core::DType type = core::DType::float32;
  core::Precision precision = core::Precision::float32;
  bool statistics = false;
  bool dlse = false;              ///< gradients of the LSE
  bool scaled_gradients = false;  ///< gradients of an output that has an output_scale
  bool reproducible = false;      ///< the same bits for every cut of the work
  bool score_rule = false;        ///< scores have a cap or a bias
  bool windows_alone = false;     ///< every pair of the pattern is a window
};

/// A key of the run file whose value a back end refuses, and the reason. Example: "output.statistics", "cudnn makes no
/// statistics".
struct Refusal {
  std::string key;
  std::string reason;
};

/// How many (query, key) pairs a back end that uses a library has computed in this process so far. The library computed
/// `library` pairs, our own kernels computed `own` pairs. Both numbers include pairs that the pattern hides.
struct ComputedPairs {
  double library = 0;
  double own = 0;
  std::string reason{};  ///< the first reason why our own kernels computed pairs

  /// Returns the library's share of the pairs, 0 ... 1, or NaN if nothing was computed.
  double library_share() const { return library / (library + own); }
  /// Adds what was computed between the readings `before` and `after`.
  void add(const ComputedPairs& before, const ComputedPairs& after) {
    library += after.library - before.library;
    own += after.own - before.own;
  }
};

/// A back end that uses a library. Its functions may be called without that library and without a GPU.
struct LibraryBackend {
  core::Backend backend;
  /// True if one call takes all heads of a work list. Memory then grows with the number of heads.
  bool takes_heads_together = false;
  /// Returns the library's version, such as "9.19.0", or "none: " and the reason why this process does not have it.
  std::string (*version)();
  /// Returns a key of the run file that the back end refuses, or nothing if the back end can do all that is wanted.
  std::optional<Refusal> (*refuses)(const WantedOfBackend& wanted);
  const ComputedPairs& (*computed)();
  /// Returns computed() as a text for the user: "87.5 % of the (query, key) pairs on rank 0, our own kernels the rest:
  /// rows in 5 x 5 pieces".
  std::string (*describe)();
};

/// Returns all back ends that use a library, including those that this build does not have.
const std::vector<LibraryBackend>& library_backends();
/// Returns the description of this back end; nullptr if it uses our own kernels, not a library.
const LibraryBackend* library_of(core::Backend backend);

/// Returns why a back end takes no scores with a cap or a bias; empty if it takes them. Libraries take none.
std::string why_no_rule(core::Backend backend);

/// Returns how many bytes of device memory keep a rule's coordinates from call to call. This is 0 on the host, where
/// coordinates are counted as part of the panels.
core::Index rule_bytes(core::Backend backend, const ScoreRule& rule, core::Precision precision);

/// Returns why a back end takes no values of another head size than keys; empty if it takes them. Only the host does.
std::string why_no_value_dim(core::Backend backend);

/// Returns the back end that `auto` means. This is the first library that this process has and that can do all that is
/// wanted, or otherwise our own kernels. Libraries leave windows to our kernels, so for a pattern of windows alone this
/// returns our kernels. One run on an H100 took 0.03 s in this way, and 0.23 s if the library refused the work first.
/// For 16-bit tensors cuDNN is up to 2.3 times as fast as our kernels (docs/performance.md).
core::Backend default_backend(const WantedOfBackend& wanted);

}  // namespace annulus::kernels
