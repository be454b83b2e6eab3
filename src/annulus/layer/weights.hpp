// The weights of the attention layer: which there are, how large, and which part of each a rank keeps.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "annulus/core/buffer.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::layer {

using core::Index;

/// How weights lie on ranks. All three compute the same numbers, to rounding.
///   none    every rank keeps all of every weight; gradients are summed over ranks and the sums kept by all
///   fsdp    every rank keeps 1/P of every weight and gradient; a weight is gathered just before its use
///   tensor  heads are split over ranks, and the weights' columns (rows, of wo) with them (Megatron-LM)
enum class Sharding { none, fsdp, tensor };

struct ShardingEntry {
  Sharding value;
  std::string_view name;
  std::string_view description;
};
/// Every sharding with its name in the run file.
inline constexpr std::array<ShardingEntry, 3> sharding_table{{
    {Sharding::none, "none", "every rank keeps every weight, gradients are summed over ranks"},
    {Sharding::fsdp, "fsdp", "every rank keeps 1/P of every weight and gradient, gathered for use"},
    {Sharding::tensor, "tensor", "heads and their weights split over ranks, attention local (Megatron)"},
}};
std::string_view name_of(Sharding sharding);

/// Matrices, then the biases that go with them: y = attention(x wq + bq, x wk + bk, x wv + bv) wo + bo.
enum class Weight { wq, wk, wv, wo, bq, bk, bv, bo };
inline constexpr std::array<Weight, 8> all_weights{Weight::wq, Weight::wk, Weight::wv, Weight::wo,
                                                   Weight::bq, Weight::bk, Weight::bv, Weight::bo};
/// "wq" ... "bo", as datasets are called.
std::string_view name_of(Weight weight);
constexpr bool is_bias(Weight weight) { return weight >= Weight::bq; }
/// The bias added to the product with a matrix.
constexpr Weight bias_of(Weight matrix) { return Weight(int(matrix) + 4); }

/// wk, wv, bk, bv: of K/V heads instead of query heads.
constexpr bool is_of_keys(Weight weight) {
  return weight == Weight::wk || weight == Weight::wv || weight == Weight::bk || weight == Weight::bv;
}

/// One attention layer, the same on every rank.
struct LayerProblem {
  Index width = 1;                ///< E, numbers of a row of x and y
  strategies::Problem attention;  ///< shape, pattern, type of x, y and all weights, precision of all sums
  std::array<bool, 4> biases{};   ///< which of bq, bk, bv, bo there are
  std::optional<double> rope;  ///< base of the rotary position embedding by row of the sequence (rope.hpp); empty: none
  Sharding sharding = Sharding::none;

  bool has(Weight weight) const { return !is_bias(weight) || biases[std::size_t(weight) - 4]; }
};

/// Throws Error(usage), naming the key of the run file, when the layer makes no sense: sizes below 1, heads no multiple
/// of kv_heads, rope with an odd head_dim or a base that is not above 1; and when its attention is to be reproducible,
/// which a layer is not.
void check(const LayerProblem& problem);

/// Rows and columns of a weight, or a part of one. Biases of n numbers are n rows of one column.
struct Box {
  core::Interval rows;
  core::Interval columns;

  Index count() const { return rows.size() * columns.size(); }
  bool operator==(const Box&) const = default;
};

/// All of a weight: wq (E, H D), wk and wv (E, Hkv D), wo (H D, E), bq (H D, 1), bk and bv (Hkv D, 1), bo (E, 1). Empty
/// where the layer has no such bias.
Box whole(const LayerProblem& problem, Weight weight);

/// The part of a weight, and of its gradient, that a rank keeps; row-major and without gaps in its buffer. With more
/// ranks than rows (fsdp) or heads (tensor) some keep nothing.
///   fsdp    rows even_part(rows, P, rank). 1/P, as nearly as rows can be dealt
///   tensor  wq, bq, wo: query heads even_part(H, P, rank); wk, wv, bk, bv: the K/V heads that these read, so that
///           several ranks may keep the same K/V head; bo: all of it on every rank
Box kept(const LayerProblem& problem, Weight weight, int rank, int ranks);

/// The part of kept() that this rank writes to a file: over all ranks every number of the weight exactly once.
///   none    rows even_part(rows, P, rank), so that all ranks write
///   tensor  a K/V head by the first rank that keeps it, bo by rank 0
Box written(const LayerProblem& problem, Weight weight, int rank, int ranks);

/// A rank's parts of all weights, or of all their gradients: kept() numbers each, of the problem's type.
class Weights {
 public:
  core::Buffer& operator[](Weight weight) { return parts_[std::size_t(weight)]; }
  const core::Buffer& operator[](Weight weight) const { return parts_[std::size_t(weight)]; }

 private:
  std::array<core::Buffer, 8> parts_;
};

/// Query heads whose weights a rank keeps with Sharding::tensor.
core::Interval query_heads(const LayerProblem& problem, int rank, int ranks);
/// And the K/V heads that they read.
core::Interval kv_heads(const LayerProblem& problem, int rank, int ranks);

/// Uninitialised parts, to be filled from a file. Counted in the memory ledger as `purpose`.
Weights make_weights(const LayerProblem& problem, int rank, int ranks, const std::string& purpose = "weights");

}  // namespace annulus::layer
