// Random problems for as long as you like: every strategy, forward and backward, against the float64 definition.
//
//   mpirun -n 5 strategies_soak            two seconds
//   ANNULUS_SOAK_SECONDS=600 ANNULUS_SOAK_SEED=7 mpirun -n 5 strategies_soak
//
// The message of a failing case has its seed and everything that was drawn.
#include <cstdlib>

#include "backward_case.hpp"
#include "strategy_cases.hpp"

namespace annulus::strategies {
namespace {

double from_environment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtod(text, nullptr);
}

template <class Value>
Value one_of(std::mt19937_64& random, std::initializer_list<Value> values) {
  return values.begin()[random() % values.size()];
}

/// Draws a problem: n (also less than the number of ranks), documents (also empty), grouped heads, batch, head size,
/// type, scale up to 7, partition, group size, reproducible.
Case draw(std::mt19937_64& random, int ranks) {
  const std::uint64_t number = random();
  const test::RandomLayout drawn = test::draw_layout(random, one_of<Index>(random, {3, 40, 130}));
  const core::DType type = one_of(random, {core::DType::float64, core::DType::float32, core::DType::float32,
                                           core::DType::float16, core::DType::bfloat16});
  const core::Shape shape{1 + Index(random() % 3), drawn.n, drawn.layout.heads, drawn.layout.kv_heads,
                          one_of<Index>(random, {1, 3, 8, 16, 17, 40, 64, 80})};
  Case one = make_case("", shape, drawn.layout.pattern, drawn.layout.documents, type);
  Problem& problem = one.problem;
  one.seed = number;
  // The backward pass reads `out` as stored: rounding to 16 bits makes dq and dk less accurate in proportion to scale.
  const double most = core::bytes_of(type) > 2 ? 7 : 1;
  if (random() % 2 == 0) {
    problem.scale = std::min(most, one_of(random, {0.0, 0.01, 0.3, 1.0, 2.5, 7.0})) / std::sqrt(double(shape.head_dim));
  }
  const std::size_t partition = random() % (1 + pattern::partition_table.size());  // 0: no partition is named
  if (partition > 0) problem.partition = pattern::partition_table[partition - 1].value;
  if (problem.partition == pattern::PartitionKind::block_cyclic) problem.block_size = 1 + Index(random() % 9);
  do {
    problem.ulysses_ranks = 1 + int(random() % std::uint64_t(ranks));
  } while (ranks % problem.ulysses_ranks != 0);
  problem.gradients = true;
  problem.reproducible = random() % 4 == 0;
  one.name = fmt::format("{}, batch {}, D {}, {}, scale {:g}, partition {}, groups of {}{}, numbers {}",
                         test::describe(drawn), shape.batch, shape.head_dim, core::name_of(type), problem.scale,
                         problem.partition ? pattern::name_of(*problem.partition) : "auto", problem.ulysses_ranks,
                         problem.reproducible ? ", reproducible" : "", number);
  return one;
}

TEST(Soak, RandomProblemsMeetTheDefinition) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const double seconds = from_environment("ANNULUS_SOAK_SECONDS", 2);
  const auto first = std::uint64_t(from_environment("ANNULUS_SOAK_SEED", 1));
  const double start = core::wall_seconds();
  Index cases = 0;
  for (; comm.max(core::wall_seconds() - start) < seconds && comm.max(Index(HasFailure())) == 0; ++cases) {
    std::mt19937_64 random(1000 * first + std::uint64_t(cases));  // the same on all ranks
    const Case one = draw(random, comm.size());
    SCOPED_TRACE(fmt::format("ANNULUS_SOAK_SEED={} case {}", first, cases));
    const Truth truth(one);
    for (const Strategy* strategy : available()) {
      if (!why_not_reproducible(*strategy, one.problem, comm.size()).empty()) continue;
      check(*strategy, one, comm);
      check_backward(*strategy, one, truth, comm, random() % 2 == 0);
    }
  }
  EXPECT_GT(cases, 0);
  if (comm.is_root()) fmt::print("{} problems on {} ranks\n", cases, comm.size());
}

}  // namespace
}  // namespace annulus::strategies
