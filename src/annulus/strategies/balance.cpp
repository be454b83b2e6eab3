// Chooses a problem's partition by the work of the busiest rank, because this work decides how long a run takes.
#include <fmt/format.h>

#include <algorithm>

#include "annulus/pattern/counts.hpp"
#include "annulus/pattern/documents_partition.hpp"
#include "annulus/pattern/parts.hpp"
#include "annulus/pattern/shared_documents.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::strategies {
namespace {

using pattern::Partition;
using pattern::PartitionKind;

constexpr double allowed_imbalance = 1.05;     // an earlier one of kinds_of() may have this many times the least work
constexpr double triples_per_interval = 2000;  // one more interval costs as much time as this many kept triples
constexpr double most_intervals = 1 << 24;     // `auto` considers no zigzag with more intervals in all
constexpr Index blocks_per_rank = 8;           // for block_cyclic, if no block size is given

/// Returns the borders of the pieces that zigzag divides into chunks. The pieces are the documents, divided again
/// where the rows that are queries begin and end, so that neighbouring queries are also spread over all ranks.
pattern::Documents zigzag_borders(const Problem& problem) {
  pattern::Documents borders = problem.key_documents();
  if (problem.queries && !problem.has_queries_after_all_keys()) {
    for (const Index border : {problem.queries->begin, problem.queries->end})
      borders.insert(std::upper_bound(borders.begin(), borders.end(), border), border);
  }
  return borders;
}

Partition cut_anywhere(const Problem& problem, PartitionKind kind, int ranks) {
  const Index n = problem.shape.sequence;
  pattern::Layout layout = problem.layout();
  switch (kind) {
    case PartitionKind::contiguous:
      return pattern::contiguous_partition(n, ranks);
    case PartitionKind::zigzag:
      return pattern::zigzag_partition(zigzag_borders(problem), ranks);
    case PartitionKind::documents:
      layout.documents = problem.key_documents();
      return pattern::documents_partition(layout, ranks);
    case PartitionKind::block_cyclic:
      break;
  }
  const Index block = problem.block_size > 0 ? problem.block_size : core::ceil_div(n, ranks * blocks_per_rank);
  return pattern::block_cyclic_partition(n, ranks, std::max<Index>(block, 1));
}

Partition make(const Problem& problem, PartitionKind kind, int ranks) {
  Partition partition = cut_anywhere(problem, kind, ranks);
  return problem.granule == 1 ? partition : pattern::on_grid(partition, problem.grid());
}

/// Returns the work of the busiest rank in kept triples of all batch entries. If packed documents are short, zigzag
/// cuts the rows into very many intervals, which can cost more than the balance gains. So intervals count as work, too.
double busiest(const Problem& problem, const Partition& partition) {
  const pattern::KeptCounts counts(problem.layout());
  double most = 0;
  const Partition queries = query_rows(problem, partition);
  for (std::size_t p = 0; p < partition.size(); ++p) {
    const double kept = double(counts.of(queries[p])) * double(problem.shape.batch);
    most = std::max(most, kept + triples_per_interval * double(partition[p].intervals().size()));
  }
  return most;
}

/// Returns the kinds of partition to compare. Kinds that usually move fewer rows come first; zigzag, the
/// last, moves twice as many as contiguous.
std::vector<PartitionKind> kinds_of(const Problem& problem, int ranks) {
  std::vector<PartitionKind> kinds{PartitionKind::contiguous, PartitionKind::documents, PartitionKind::zigzag};
  std::erase_if(kinds, [&](PartitionKind kind) { return !is_compared(problem, kind, ranks); });
  return kinds;
}

Problem cut_as(Problem problem, PartitionKind kind) {
  problem.partition = kind;
  return problem;
}

/// Returns the first kind whose busiest rank has at most 5 % more work than the busiest rank of the best kind.
PartitionKind best_of(const std::vector<PartitionKind>& kinds, const Problem& problem, int ranks) {
  if (ranks == 1 || kinds.size() == 1) return kinds.front();
  std::vector<double> work;
  for (const PartitionKind kind : kinds) work.push_back(busiest(problem, make(problem, kind, ranks)));
  const double enough = allowed_imbalance * std::max(1.0, *std::min_element(work.begin(), work.end()));
  const auto first = std::find_if(work.begin(), work.end(), [&](double one) { return one <= enough; });
  return kinds[std::size_t(first - work.begin())];
}

/// Makes the problem's partition. If a reproducible problem names no kind, chooses one for which `why_not` returns "".
Partition best_allowed_partition(std::string (*why_not)(const Problem&, int), Problem problem, int ranks) {
  if (problem.reproducible && !problem.partition) {
    std::vector<PartitionKind> kinds = kinds_of(problem, ranks);
    std::erase_if(kinds, [&](PartitionKind kind) { return !why_not(cut_as(problem, kind), ranks).empty(); });
    if (kinds.empty()) kinds.push_back(PartitionKind::contiguous);  // why_not() refuses contiguous as well
    problem.partition = best_of(kinds, problem, ranks);
  }
  return distributed_partition(problem, ranks);
}

}  // namespace

bool is_compared(const Problem& problem, PartitionKind kind, int ranks) {
  const auto& borders = problem.documents;
  if (kind == PartitionKind::zigzag) return 2.0 * double(ranks) * double(borders.size()) <= most_intervals;
  if (kind != PartitionKind::documents) return true;
  return std::any_of(borders.begin(), borders.end(),
                     [&](Index border) { return border > 0 && border < problem.shape.sequence; });
}

Partition distributed_partition(const Problem& problem, int ranks) {
  return make(problem, problem.partition ? *problem.partition : best_of(kinds_of(problem, ranks), problem, ranks),
              ranks);
}

Partition ordered_partition(Problem problem, int ranks) {
  return best_allowed_partition(why_out_of_order, std::move(problem), ranks);
}

Partition parted_partition(Problem problem, int ranks) {
  return best_allowed_partition(why_no_ordered_parts, std::move(problem), ranks);
}

std::optional<Partition> ordered_parts(const Problem& problem, const Partition& partition) {
  std::optional<Partition> parts = pattern::ordered_parts(problem.documents, partition, problem.grid());
  const bool whole_ranks = !problem.pattern.causal || problem.queries;
  if (parts && parts->size() > partition.size() && whole_ranks) return std::nullopt;
  return parts;
}

std::string why_no_ordered_parts(const Problem& problem, int ranks) {
  std::string why = why_out_of_order(problem, ranks);
  if (why.empty() || problem.has_queries_after_all_keys()) return why;
  // We never allow block_cyclic, because a document of more than P + 1 blocks has no ordered parts.
  if (problem.partition == PartitionKind::block_cyclic) return why;
  return ordered_parts(problem, make(problem, *problem.partition, ranks)) ? "" : why;
}

std::string why_out_of_order(const Problem& problem, int ranks) {
  if (problem.has_queries_after_all_keys() && ranks > 1)
    return "if queries without row numbers are more than the keys, each rank adds its own keys first";
  const PartitionKind kind = problem.partition.value_or(PartitionKind::contiguous);
  if (kind == PartitionKind::contiguous) return "";
  if (kind != PartitionKind::documents) {
    return fmt::format("rows of a rank that do not follow one another bring keys out of order; expected contiguous{}",
                       problem.pattern.causal && !problem.queries ? ", or with ring and rotation zigzag" : "");
  }
  const auto pieces = pattern::shared_pieces(problem.documents, make(problem, kind, ranks));
  const auto document = pattern::document_out_of_order(pieces);
  if (!document) return "";
  return fmt::format(
      "rows [{}, {}), a causal document with more than a rank's share of the work, are cut zigzag, which brings keys "
      "out of order; expected contiguous",
      document->begin, document->end);
}

PartitionKind kind_of(const Problem& problem, const Partition& partition) {
  const int ranks = int(partition.size());
  for (const PartitionKind kind : kinds_of(problem, ranks)) {
    const Partition made = make(problem, kind, ranks);
    const bool is_same = std::equal(made.begin(), made.end(), partition.begin(),
                                    [](const auto& a, const auto& b) { return a.intervals() == b.intervals(); });
    if (is_same) return kind;
  }
  return PartitionKind::contiguous;  // for example, all rows are on one rank, where they are in order
}

}  // namespace annulus::strategies
