#include "annulus/layer/weights.hpp"

#include "annulus/core/error.hpp"

namespace annulus::layer {
namespace {

using core::ErrorKind;
using core::Interval;

constexpr std::array<std::string_view, 8> weight_names{"wq", "wk", "wv", "wo", "bq", "bk", "bv", "bo"};

/// Returns the part of the whole weight `box` that belongs to `heads`.
Rectangle of_heads(Rectangle box, Weight weight, Interval heads, Index head_dim) {
  if (weight == Weight::bo) return box;
  // wq, wk and wv have heads in their columns. wo, which reads the heads, and biases have heads in their rows.
  (weight == Weight::wo || is_bias(weight) ? box.rows : box.columns) = {heads.begin * head_dim, heads.end * head_dim};
  return box;
}

}  // namespace

std::string_view name_of(Sharding sharding) { return sharding_table[std::size_t(sharding)].name; }
std::string_view name_of(Weight weight) { return weight_names[std::size_t(weight)]; }

void check(const LayerProblem& problem) {
  const core::Shape& s = problem.attention.shape;
  const auto at_least_one = [](const char* key, Index value) {
    if (value < 1) core::fail(ErrorKind::usage, "layer.{} is {}, expected 1 or more", key, value);
  };
  if (problem.width < 1) {
    core::fail(ErrorKind::usage, "layer.x has rows of {} numbers, expected 1 or more", problem.width);
  }
  at_least_one("heads", s.heads);
  at_least_one("kv_heads", s.kv_heads);
  if (s.head_dim < 1) core::fail(ErrorKind::usage, "layer.wq: a head has {} columns instead of at least 1", s.head_dim);
  if (s.heads % s.kv_heads != 0) {
    core::fail(ErrorKind::usage, "layer.kv_heads: {} does not divide layer.heads, {}", s.kv_heads, s.heads);
  }
  if (problem.attention.reproducible) {
    core::fail(
        ErrorKind::usage,
        "compute.reproducible: a layer cannot give the same bits for every number of ranks: gradients of weights "
        "are summed rank by rank, and matrix products in the order of the machine's BLAS; expected false");
  }
  if (!problem.rope) return;
  if (!(*problem.rope > 1)) core::fail(ErrorKind::usage, "layer.rope: base {} is not above 1", *problem.rope);
  if (s.head_dim % 2 != 0) {
    core::fail(ErrorKind::usage, "layer.rope: turns pairs of numbers, but the head size is odd, {}", s.head_dim);
  }
}

Rectangle whole(const LayerProblem& problem, Weight weight) {
  const core::Shape& s = problem.attention.shape;
  const Interval width{0, problem.width};
  const Interval heads{0, (is_of_keys(weight) ? s.kv_heads : s.heads) * s.head_dim};
  if (!problem.has(weight)) return {};
  if (weight == Weight::wo) return {heads, width};
  if (weight == Weight::bo) return {width, {0, 1}};
  return is_bias(weight) ? Rectangle{heads, {0, 1}} : Rectangle{width, heads};
}

Interval query_heads(const LayerProblem& problem, int rank, int ranks) {
  return core::even_part(problem.attention.shape.heads, ranks, rank);
}

Interval kv_heads(const LayerProblem& problem, int rank, int ranks) {
  return pattern::heads_read(query_heads(problem, rank, ranks), problem.attention.shape.group());
}

Rectangle kept(const LayerProblem& problem, Weight weight, int rank, int ranks) {
  Rectangle box = whole(problem, weight);
  if (problem.sharding == Sharding::none || !problem.has(weight)) return box;
  if (problem.sharding == Sharding::fsdp) {
    box.rows = core::even_part(box.rows.end, ranks, rank);
    return box;
  }
  const Interval heads = is_of_keys(weight) ? kv_heads(problem, rank, ranks) : query_heads(problem, rank, ranks);
  return of_heads(box, weight, heads, problem.attention.shape.head_dim);
}

Rectangle written(const LayerProblem& problem, Weight weight, int rank, int ranks) {
  Rectangle box = kept(problem, weight, rank, ranks);
  if (!problem.has(weight) || problem.sharding == Sharding::fsdp) return box;
  if (problem.sharding == Sharding::none) {
    box.rows = core::even_part(box.rows.end, ranks, rank);
    return box;
  }
  if (weight == Weight::bo) return rank == 0 ? box : Rectangle{};
  if (!is_of_keys(weight)) return box;
  Interval heads = kv_heads(problem, rank, ranks);
  // Heads ascend by rank, so earlier ranks can keep at most the first of this rank's K/V heads. If they keep this head,
  // one of them writes it.
  if (rank > 0 && kv_heads(problem, rank - 1, ranks).end > heads.begin && !heads.empty()) ++heads.begin;
  return of_heads(box, weight, heads, problem.attention.shape.head_dim);
}

Weights make_weights(const LayerProblem& problem, int rank, int ranks, const std::string& purpose) {
  Weights weights;
  for (const Weight weight : all_weights) {
    const Index count = kept(problem, weight, rank, ranks).count();
    weights[weight] = core::Buffer(purpose, count * Index(core::bytes_of(problem.attention.type)));
  }
  return weights;
}

}  // namespace annulus::layer
