#include "annulus/strategies/strategy.hpp"

namespace annulus::strategies {

CommunicationShape Strategy::communication(const Problem& problem, int ranks) const {
  if (entry_.group_size == nullptr) return entry_.communication;
  const int group = entry_.group_size(problem, ranks);
  if (group == 1) return {CommunicationPattern::ring, true};
  return {group == ranks ? CommunicationPattern::heads : CommunicationPattern::heads_in_ring, group < ranks, group};
}

std::unique_ptr<const Schedule> Strategy::schedule(const MakePlans& make, const Problem& problem,
                                                   const pattern::Partition& partition) const {
  const int size = entry_.group_size == nullptr ? 0 : entry_.group_size(problem, int(partition.size()));
  // A group of one rank has all heads of its rows from the start, so it exchanges nothing. The plans are then made as
  // if there were no groups.
  const int group = size == 1 ? 0 : size;
  return std::make_unique<const Schedule>(make, problem, partition, RowExchange{group, entry_.all_queries});
}

std::unique_ptr<const Schedule> Strategy::forward_schedule(const Problem& problem,
                                                           const pattern::Partition& partition) const {
  return schedule(entry_.forward, problem, partition);
}

std::unique_ptr<const Schedule> Strategy::backward_schedule(const Problem& problem,
                                                            const pattern::Partition& partition) const {
  const bool order_matters = problem.sums == Sums::gradients || problem.has_ordered_sums();
  const bool in_order = problem.reproducible && order_matters && entry_.backward_in_order;
  return schedule(in_order ? entry_.backward_in_order : entry_.backward, problem, partition);
}

std::unique_ptr<const Schedule> Strategy::statistics_schedule(const Problem& problem,
                                                              const pattern::Partition& partition) const {
  Problem other_sums = problem;
  other_sums.sums = Sums::received;
  return backward_schedule(other_sums, partition);
}

void Strategy::check_ranks(const Problem& problem, const pattern::Partition& partition,
                           const comm::Communicator& comm) const {
  if (entry_.communication.pattern != CommunicationPattern::window) return;  // other strategies have no MPI windows
  const auto forward = forward_schedule(problem, partition);
  const auto backward = problem.gradients ? backward_schedule(problem, partition) : nullptr;
  const auto statistics = problem.statistics.need_pass() ? statistics_schedule(problem, partition) : nullptr;
  strategies::check_ranks(*forward, backward.get(), comm);
  if (statistics) strategies::check_ranks(*forward, statistics.get(), comm);
}

}  // namespace annulus::strategies
