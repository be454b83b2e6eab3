// The weights of the attention layer: their names and sizes, and the part of each that a rank keeps.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "annulus/core/buffer.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::layer {

using core::Index;
using core::Rectangle;

/// How weights are divided among ranks. All three ways give the same results, apart from rounding.
/// none    every rank keeps all weights; gradients are summed over ranks, and every rank gets the sums
/// fsdp    every rank keeps 1/P of every weight and gradient; a weight is gathered just before its use
/// tensor  every rank has some heads, and the weights' columns (for wo: rows) that belong to these heads (Megatron-LM)
enum class Sharding { none, fsdp, tensor };

struct ShardingEntry {
  Sharding value;
  std::string_view name;
  std::string_view description;
};
/// All shardings, with their names in the run file.
inline constexpr std::array<ShardingEntry, 3> sharding_table{{
    {Sharding::none, "none", "every rank keeps every weight, gradients are summed over ranks"},
    {Sharding::fsdp, "fsdp", "every rank keeps 1/P of every weight and gradient, gathered for use"},
    {Sharding::tensor, "tensor", "heads and their weights split over ranks, attention local (Megatron)"},
}};
std::string_view name_of(Sharding sharding);

/// The matrices, then the bias of each: y = attention(x wq + bq, x wk + bk, x wv + bv) wo + bo.
enum class Weight { wq, wk, wv, wo, bq, bk, bv, bo };
inline constexpr std::array<Weight, 8> all_weights{Weight::wq, Weight::wk, Weight::wv, Weight::wo,
                                                   Weight::bq, Weight::bk, Weight::bv, Weight::bo};
/// The weight's name in datasets, "wq" ... "bo".
std::string_view name_of(Weight weight);
constexpr bool is_bias(Weight weight) { return weight >= Weight::bq; }
/// The bias that is added to the product with this matrix.
constexpr Weight bias_of(Weight matrix) { return Weight(int(matrix) + 4); }

/// True for wk, wv, bk and bv, which belong to K/V heads. The other weights, except bo, belong to query heads.
constexpr bool is_of_keys(Weight weight) {
  return weight == Weight::wk || weight == Weight::wv || weight == Weight::bk || weight == Weight::bv;
}

/// Describes one attention layer. Every rank has the same description.
struct LayerProblem {
  Index width = 1;                ///< E, the numbers in a row of x and y
  strategies::Problem attention;  ///< shape, pattern, type of x, y and all weights, precision of all sums
  std::array<bool, 4> biases{};   ///< whether bq, bk, bv, bo exist
  std::optional<double> rope;     ///< base of the rotary position embedding (rope.hpp); empty: the layer has none
  Sharding sharding = Sharding::none;

  bool has(Weight weight) const { return !is_bias(weight) || biases[std::size_t(weight) - 4]; }
};

/// Throws Error(usage), which names the key of the run file, if the layer is invalid: a size is below 1, heads is not
/// a multiple of kv_heads, or rope has an odd head_dim or a base of 1 or less. Also throws if the attention must be
/// reproducible, because a layer cannot give the same bits for every number of ranks.
void check(const LayerProblem& problem);

/// The complete weight: wq (E, H D), wk and wv (E, Hkv D), wo (H D, E), bq (H D, 1), bk and bv (Hkv D, 1), bo (E, 1),
/// with H query heads and Hkv K/V heads of D numbers. Empty for a bias that the layer does not have.
Rectangle whole(const LayerProblem& problem, Weight weight);

/// The part of a weight, and of its gradient, that a rank keeps, row-major and contiguous. If there are more ranks than
/// rows (fsdp) or heads (tensor, except for bo), some ranks keep nothing.
/// none    all of it
/// fsdp    rows even_part(rows, P, rank), about 1/P of the weight
/// tensor  wq, bq, wo: query heads even_part(H, P, rank); wk, wv, bk, bv: the K/V heads that these query heads read, so
///         several ranks may keep the same K/V head; bo: every rank keeps all of bo
Rectangle kept(const LayerProblem& problem, Weight weight, int rank, int ranks);

/// The part of kept() that this rank writes to a file. All ranks together write each number of the weight exactly once.
/// none    rows even_part(rows, P, rank), so that all ranks write
/// fsdp    all of kept()
/// tensor  all of kept(), but a K/V head only on the first rank that keeps this head, and bo only on rank 0
Rectangle written(const LayerProblem& problem, Weight weight, int rank, int ranks);

/// One rank's parts of all weights, or of all their gradients: the kept() part of each, in the problem's type.
class Weights {
 public:
  core::Buffer& operator[](Weight weight) { return parts_[std::size_t(weight)]; }
  const core::Buffer& operator[](Weight weight) const { return parts_[std::size_t(weight)]; }

 private:
  std::array<core::Buffer, 8> parts_;
};

/// The query heads whose weights a rank keeps with Sharding::tensor.
core::Interval query_heads(const LayerProblem& problem, int rank, int ranks);
/// The K/V heads that the rank's query_heads() read.
core::Interval kv_heads(const LayerProblem& problem, int rank, int ranks);

/// Allocates the kept() parts of all weights, and does not initialise them. The memory ledger counts them as `purpose`.
Weights make_weights(const LayerProblem& problem, int rank, int ranks, const std::string& purpose = "weights");

}  // namespace annulus::layer
