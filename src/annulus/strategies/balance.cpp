// Which partition suits a problem: the busiest rank decides when the others are done.
#include <algorithm>

#include "annulus/pattern/counts.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {
namespace {

using pattern::Partition;
using pattern::PartitionKind;

constexpr double worth_more_traffic = 1.05;    // zigzag moves up to twice the rows of contiguous
constexpr double triples_per_interval = 2000;  // that take as long as planning and collecting rows that stand alone
constexpr Index blocks_per_rank = 8;           // block_cyclic when no block size is given

Partition make(const Problem& problem, PartitionKind kind, int ranks) {
  const Index n = problem.shape.sequence;
  switch (kind) {
    case PartitionKind::contiguous:
      return pattern::contiguous_partition(n, ranks);
    case PartitionKind::zigzag:
      return pattern::zigzag_partition(problem.documents, ranks);
    case PartitionKind::block_cyclic:
      break;
  }
  const Index block = problem.block_size > 0 ? problem.block_size : core::ceil_div(n, ranks * blocks_per_rank);
  return pattern::block_cyclic_partition(n, ranks, std::max<Index>(block, 1));
}

/// Work of the busiest rank in kept triples, all batch entries. Packed short documents make zigzag cut the rows into so
/// many intervals that they cost more than the balance gains.
double busiest(const Problem& problem, const Partition& partition) {
  const pattern::KeptCounts counts(problem.layout());
  double most = 0;
  for (const pattern::StoredRows& rows : partition) {
    const double kept = double(counts.of(rows)) * double(problem.shape.batch);
    most = std::max(most, kept + triples_per_interval * double(rows.intervals().size()));
  }
  return most;
}

}  // namespace

Partition distributed_partition(const Problem& problem, int ranks) {
  if (problem.partition) return make(problem, *problem.partition, ranks);
  Partition contiguous = make(problem, PartitionKind::contiguous, ranks);
  if (ranks == 1) return contiguous;
  Partition zigzag = make(problem, PartitionKind::zigzag, ranks);
  const double gain = busiest(problem, contiguous) / std::max(1.0, busiest(problem, zigzag));
  return gain > worth_more_traffic ? zigzag : contiguous;
}

Partition ordered_partition(Problem problem, int ranks) {
  if (problem.reproducible && !problem.partition) problem.partition = PartitionKind::contiguous;
  return distributed_partition(problem, ranks);
}

std::string disorder_of(const Problem& problem) {
  if (problem.partition.value_or(PartitionKind::contiguous) == PartitionKind::contiguous) return "";
  return "rows of a rank that do not follow one another bring keys out of order; expected contiguous";
}

}  // namespace annulus::strategies
