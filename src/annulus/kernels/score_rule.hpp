// Rules that change scores before the softmax (docs/semantics.md, "Scores"). For row x and key p, from s = scale * q.k:
//   s = cap tanh(s / cap)                  if there is a cap
//   s = s - slope of the head * dist(x, p)     if there are slopes (ALiBi, Press et al. 2022)
// dist is |x - p| in rows of the sequence or, if rows have coordinates, the Euclidean distance between the coordinates
// of the two rows. It is 0 if x or p is one of the first `exempt` rows of the document.
//
// Worked example: cap 2, slope 0.5, s = 3 of rows x = 7 and p = 4: 2 tanh(1.5) - 0.5 * 3 = 0.310.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "annulus/core/types.hpp"

namespace annulus::kernels {

/// Coordinates of all rows of a sequence, two float64 numbers for each row. Every rank has all of them.
///
/// Kernels round coordinates to whole numbers of a unit. The unit is a power of two, so large that the largest
/// difference fits into an integer. Differences of integers are exact, so a distance has the same bits on every rank.
class Coordinates {
 public:
  /// xy: (S, 2), finite. `used`: ascending ranges of the rows whose distances may be used; empty: all rows. All other
  /// rows (exempt rows and rows in gaps) get the coordinates of a used row, because a point far away would make the
  /// unit too large.
  explicit Coordinates(std::vector<double> xy, const std::vector<core::Interval>& used = {});

  core::Index rows() const { return core::Index(xy_.size() / 2); }
  const std::vector<double>& numbers() const { return xy_; }
  /// Returns the larger side of the smallest rectangle that holds all rows.
  double extent() const { return extent_; }
  /// Returns the unit for whole numbers of `bits` bits. The unit is a power of two, and the extent is at most 2^bits
  /// units.
  double unit(int bits) const;
  /// Returns how many units a row's coordinate `axis` (0 or 1) is above the smallest coordinate of this axis. With
  /// unit(bits) this is 0 ... 2^bits.
  std::int64_t whole(core::Index row, int axis, double unit) const;

 private:
  std::vector<double> xy_;
  double least_[2] = {0, 0};
  double extent_ = 0;
};

struct ScoreRule {
  double cap = 0;                   ///< 0: no cap; otherwise above 0
  std::vector<double> slopes = {};  ///< one for each query head of the whole problem; empty: no bias
  core::Index exempt = 0;           ///< this many rows at a document's start have no bias
  std::shared_ptr<const Coordinates> coordinates = {};  ///< none: distances are differences of row numbers

  bool has_cap() const { return cap > 0; }
  bool has_bias() const { return !slopes.empty(); }
  bool any() const { return has_cap() || has_bias(); }
};

/// The rule of a call. Head 0 of the call's tensors is query head `first_head` of the rule.
struct CallRule {
  const ScoreRule* rule = nullptr;  ///< none: scores are scale * q.k
  core::Index first_head = 0;
};

/// Returns the slopes of ALiBi for H heads. If H is a power of two, these are 2^(-8 i / H), i = 1 ... H. Otherwise they
/// are the slopes for m heads, where m is the largest power of two below H, and then the 1st, 3rd, ... slope for 2 m
/// heads.
/// Worked example, 6 heads: 1/4, 1/16, 1/64, 1/256, then 1/2, 1/8.
std::vector<double> alibi_slopes(core::Index heads);

/// A bias without coordinates takes at most this many rows, because the host's kernels with sums in float32 subtract
/// row numbers in 32 bits.
inline constexpr core::Index most_biased_rows = core::Index(1) << 30;

}  // namespace annulus::kernels
