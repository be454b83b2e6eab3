#include "annulus/planner/choose.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/planner/slice_memory.hpp"
#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::planner {
namespace {

using pattern::PartitionKind;

constexpr double as_good_as = 1.05;  // a time counts as equal to the best time if it is at most this many times as long

/// True if `auto` considers a candidate. `auto` leaves out block_cyclic, which moves the most rows. It also leaves out
/// pass_q if all rows are queries, because no messages of pass_q travel while the kernel works. A user can still choose
/// block_cyclic or pass_q by name.
bool is_offered(const Candidate& candidate, const Problem& problem) {
  if (candidate.strategy == strategies::find("pass_q") && !problem.queries) return false;
  return candidate.cost && (problem.partition || candidate.partition != PartitionKind::block_cyclic);
}

bool fits_memory(const Candidate& candidate, const core::Machine& machine) {
  return candidate.cost && candidate.cost->memory_bytes <= machine.memory_per_rank;
}

/// True if the candidate's MPI windows fit into shared memory.
bool fits_window(const Candidate& candidate, const core::Machine& machine) {
  return candidate.cost && candidate.cost->window_bytes <= machine.window_per_rank;
}

bool fits(const Candidate& candidate, const core::Machine& machine) {
  return fits_memory(candidate, machine) && fits_window(candidate, machine);
}

/// Returns the cost of a candidate if it fits into memory in one given way (at once or in slices); otherwise nullptr.
using FittingCost = const Cost* (*)(const Candidate&, const core::Machine&);

const Cost* at_once(const Candidate& candidate, const core::Machine& machine) {
  return fits(candidate, machine) ? &*candidate.cost : nullptr;
}
const Cost* in_slices(const Candidate& candidate, const core::Machine&) {
  return candidate.sliced ? &candidate.sliced->cost : nullptr;
}

/// Among the candidates that fit and are at most 5 % slower than the fastest of them, returns the one that moves the
/// fewest bytes.
std::optional<std::size_t> cheapest(const std::vector<Candidate>& all, const Problem& problem,
                                    const core::Machine& machine, FittingCost fitting) {
  double fastest = -1;
  std::vector<const Cost*> costs;
  for (const Candidate& one : all) {
    costs.push_back(is_offered(one, problem) ? fitting(one, machine) : nullptr);
    if (costs.back() != nullptr && (fastest < 0 || costs.back()->seconds < fastest)) fastest = costs.back()->seconds;
  }
  std::optional<std::size_t> taken;
  const auto order = [&](std::size_t i) { return std::pair(costs[i]->total_bytes, costs[i]->seconds); };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (costs[i] == nullptr || costs[i]->seconds > fastest * as_good_as) continue;
    if (!taken || order(i) < order(*taken)) taken = i;
  }
  return taken;
}

Problem with_partition_of(const Candidate& candidate, const Problem& problem) {
  Problem cut = problem;
  if (candidate.partition) cut.partition = candidate.partition;
  return cut;
}

/// Sets the costs of a candidate. `counted` is count(problem, partition).
void add_cost(Candidate& candidate, const Problem& problem, const pattern::Partition& partition, const Counted& counted,
              const core::Machine& machine) {
  const CommunicationShape shape = candidate.strategy->communication(problem, int(partition.size()));
  if (const auto loads = rank_counts_of(*candidate.strategy, Pass::forward, problem, partition, counted)) {
    candidate.cost = cost_of(*loads, shape, problem, machine);
  }
  if (!candidate.cost) return;
  if (problem.statistics.need_pass()) {
    // These statistics need a second pass, in which the keys travel as before and the kernel takes about as long as in
    // the forward pass. The results of the statistics need memory, too, and twice this memory if ranks exchange rows
    // for heads.
    Cost again = *candidate.cost;
    const bool exchanged = shape.group > 1 || shape.pattern == CommunicationPattern::heads;
    const strategies::RowCounts most{most_rows(query_rows(problem, partition)), most_rows(partition)};
    again.memory_bytes += (exchanged ? 2 : 1) * double(strategies::statistics_results(problem, most));
    candidate.cost = sum_of(*candidate.cost, again);
  }
  if (!problem.gradients) return;
  const auto loads = rank_counts_of(*candidate.strategy, Pass::backward, problem, partition, counted);
  candidate.backward = cost_of(*loads, shape, problem, machine);
  candidate.cost = sum_of(*candidate.cost, *candidate.backward);
}

/// The same as predict() in the header, but takes the problem's counts from `known`, or adds them to `known`.
std::optional<Cost> predict(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                            const core::Machine& machine, SliceCounts& known) {
  Problem cut = problem;
  if (!cut.partition) cut.partition = strategies::kind_of(problem, partition);
  const std::pair heads{problem.share ? problem.share->query.begin : 0, problem.shape.kv_heads};
  auto counted = known.find(heads);
  if (counted == known.end()) counted = known.emplace(heads, count(cut, partition)).first;
  Candidate candidate{&strategy, {}, {}, {}};
  add_cost(candidate, cut, partition, counted->second, machine);
  return candidate.cost;
}

/// With more ranks, counting the memory of slices exactly (slice_memory()) would take too long for every candidate.
constexpr int few_ranks = 16;

/// Returns the bytes that a candidate needs at once or, if `ranks` is not empty, in its smallest slices on that many
/// ranks.
double least_bytes(const Candidate& candidate, const Problem& problem, std::optional<int> ranks,
                   const core::Machine& machine, SliceCounts& known) {
  if (!ranks) return candidate.cost->memory_bytes;
  const Problem cut = with_partition_of(candidate, problem);
  const pattern::Partition partition = candidate.strategy->partition(cut, *ranks);
  const strategies::SliceSize size = smallest_slices(*candidate.strategy, cut, *ranks);
  if (*ranks <= few_ranks) return slice_memory(*candidate.strategy, cut, partition, size, machine).alone;
  return predict(*candidate.strategy, largest_slice(cut, size), partition, machine, known)->memory_bytes;
}

/// Takes the candidate that needs the least memory among the candidates whose windows fit.
void take_smallest(Choice& choice, const Problem& problem, std::optional<int> ranks, const core::Machine& machine) {
  const std::vector<Candidate>& all = choice.candidates;
  std::map<std::optional<PartitionKind>, SliceCounts> known;
  choice.taken = all.size();
  choice.fits = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_offered(all[i], problem) || !fits_window(all[i], machine)) continue;
    const double bytes = all[i].least_bytes ? *all[i].least_bytes
                                            : least_bytes(all[i], problem, ranks, machine, known[all[i].partition]);
    if (choice.taken != all.size() && bytes >= choice.least_bytes) continue;
    choice.taken = i;
    choice.least_bytes = bytes;
  }
  core::require(choice.taken < all.size(), [] { return "no candidate is offered whose windows fit"; });
}

/// Makes the choice of `auto`: the cheapest() candidate that fits at once; if none fits at once, the cheapest() that
/// fits in slices; otherwise the candidate of take_smallest(). `in_slices_on`: `ranks` of least_bytes().
void decide(Choice& choice, const Problem& problem, const core::Machine& machine, std::optional<int> in_slices_on) {
  for (const FittingCost fitting : {at_once, in_slices}) {
    if (const auto found = cheapest(choice.candidates, problem, machine, fitting)) {
      choice.taken = *found;
      return;
    }
  }
  take_smallest(choice, problem, in_slices_on, machine);
}

std::string describe(const Choice& choice, const Problem& problem, const core::Machine& machine) {
  const Candidate& taken = choice.candidates[choice.taken];
  const Candidate* next = nullptr;
  std::size_t too_big = 0;
  double window = 0;  // bytes of the smallest MPI windows that do not fit
  for (const Candidate& one : choice.candidates) {
    if (one.cost && !fits_memory(one, machine)) ++too_big;
    if (one.cost && !fits_window(one, machine)) {
      window = window > 0 ? std::min(window, one.cost->window_bytes) : one.cost->window_bytes;
    }
    if (one.strategy == taken.strategy || !is_offered(one, problem) || !fits(one, machine)) continue;
    if (next == nullptr || one.cost->seconds < next->cost->seconds) next = &one;
  }
  std::string too_large;
  if (too_big > 0) {
    too_large += fmt::format("; {} of {} do not fit into {} per rank ({})", too_big, choice.candidates.size(),
                             core::describe_bytes(machine.memory_per_rank), machine.why_this_memory());
  }
  if (window > 0) {
    too_large +=
        fmt::format("; windows of {} per rank do not fit into {}", core::describe_bytes(window), machine.window_source);
  }
  if (taken.sliced) {
    return fmt::format("{}: predicted {:.3g} s in {} passes of {} per rank; at once none fits{}", name_of(taken),
                       taken.sliced->cost.seconds, taken.sliced->slices,
                       core::describe_bytes(taken.sliced->cost.memory_bytes), too_large);
  }
  if (!fits(taken, machine)) {
    return fmt::format("{}: needs the least memory, {} per rank; none fits{}", name_of(taken),
                       core::describe_bytes(choice.least_bytes), too_large);
  }
  std::string text = fmt::format("{}: predicted {:.3g} s", name_of(taken), taken.cost->seconds);
  if (next != nullptr) {
    text += fmt::format(", next {} with {:.3g} s", name_of(*next), next->cost->seconds);
    if (next->cost->seconds < taken.cost->seconds * as_good_as) {
      text += fmt::format(" (within 5 %, {} against {} on the network)", core::describe_bytes(taken.cost->total_bytes),
                          core::describe_bytes(next->cost->total_bytes));
    }
  }
  return text + too_large;
}

}  // namespace

std::string name_of(const Candidate& candidate) {
  const std::string strategy(candidate.strategy->name());
  return candidate.partition ? strategy + ", " + std::string(pattern::name_of(*candidate.partition)) : strategy;
}

std::vector<Candidate> candidates(const Problem& problem, int ranks, const core::Machine& machine) {
  struct Cut {
    pattern::Partition partition;
    Counted counted;
  };
  std::map<std::optional<PartitionKind>, Cut> cuts;  // strategies with the same partition use the same Cut
  std::vector<Candidate> all;
  for (const Strategy* strategy : strategies::available()) {
    const CommunicationShape shape = strategy->communication(problem, ranks);
    for (const pattern::PartitionEntry& entry : pattern::partition_table) {
      const bool chooses = shape.pattern != CommunicationPattern::none;
      if (problem.partition && *problem.partition != entry.value && chooses) continue;
      if (!problem.partition && !strategies::is_compared(problem, entry.value, ranks)) continue;
      Problem cut = problem;
      cut.partition = entry.value;
      if (!why_not_reproducible(*strategy, cut, ranks).empty()) continue;
      const auto kind = chooses ? std::optional(entry.value) : std::nullopt;
      auto known = cuts.find(kind);
      if (known == cuts.end()) {
        known = cuts.emplace(kind, Cut{strategy->partition(cut, ranks), {}}).first;
        known->second.counted = count(cut, known->second.partition);
      }
      Candidate candidate{strategy, kind, {}, {}};
      add_cost(candidate, cut, known->second.partition, known->second.counted, machine);
      all.push_back(candidate);
      comm::watchdog_progress();  // other ranks may be waiting for this rank
      if (!chooses) break;
    }
  }
  return all;
}

Problem largest_slice(const Problem& whole, const strategies::SliceSize& size) {
  const pattern::Pattern& pattern = whole.pattern;
  const auto rows_read = [&](Index slice) {  // by all query heads, each in one segment or window
    const double all = double(whole.shape.sequence);
    double rows = 0;
    const core::Interval heads = slice_of(whole.shape, size, slice).query_heads(whole.shape.group());
    for (Index i = 0; i < Index(pattern.pairs.size()); ++i) {
      const pattern::Pair& pair = pattern.pairs[std::size_t(i)];
      const pattern::HeadSet users = heads_at_offset(pattern, i, i % pair.dilation, whole.shape.heads);
      double length = pair.segment == pattern::whole_document ? all : double(pair.segment),
             step = double(pair.dilation);
      if (const auto& window = pair.window) {  // heads use all rows of the window
        length = (double(window->left) + double(window->right)) * step + 1 + double(window->first);
        step = 1;
      }
      rows += double(intersect(users, heads).count) * std::min(length, all) / step;
    }
    return rows;
  };
  Index largest = 0;
  if (pattern.semantics == pattern::Semantics::grouped) {
    double most = rows_read(0);
    for (Index i = 1; i < core::ceil_div(whole.shape.kv_heads, size.kv_heads); ++i) {
      const double rows = rows_read(i);
      if (rows > most) most = rows, largest = i;
    }
  }
  return narrowed(whole, slice_of(whole.shape, size, largest));
}

std::optional<Cost> predict(const Strategy& strategy, const Problem& problem, const pattern::Partition& partition,
                            const core::Machine& machine) {
  SliceCounts known;
  return predict(strategy, problem, partition, machine, known);
}

std::optional<SlicedCost> cut_to_fit(const Candidate& candidate, const Problem& problem, int ranks,
                                     const core::Machine& machine, SliceCounts& known, bool exact) {
  if (!candidate.cost || fits_memory(candidate, machine)) return std::nullopt;
  const Problem cut = with_partition_of(candidate, problem);
  const pattern::Partition partition = candidate.strategy->partition(cut, ranks);
  const auto cost = [&](const strategies::SliceSize& size) {
    comm::watchdog_progress();
    Cost one = *predict(*candidate.strategy, largest_slice(cut, size), partition, machine, known);
    if (exact) one.memory_bytes = slice_memory(*candidate.strategy, cut, partition, size, machine).alone;
    return one;
  };
  auto size = strategies::largest_slices(cut.shape, [&](const strategies::SliceSize& tried) {
    if (cut.has_own_keys() && tried.batch_entries > 1) return false;
    if (tried == strategies::whole_of(cut.shape)) return false;
    const Cost one = cost(tried);
    return one.memory_bytes <= machine.memory_per_rank && one.window_bytes <= machine.window_per_rank;
  });
  if (size) size = largest_that_keeps_bits(*candidate.strategy, cut, *size, ranks);
  if (!size) return std::nullopt;
  const Index slices = strategies::slices_of(cut.shape, *size);
  return SlicedCost{*size, slices, repeated(cost(*size), slices)};
}

Choice choose_among(std::vector<Candidate> candidates, const Problem& problem, const core::Machine& machine,
                    std::optional<int> in_slices_on) {
  Choice choice;
  choice.candidates = std::move(candidates);
  decide(choice, problem, machine, in_slices_on);
  choice.reason = describe(choice, problem, machine);
  return choice;
}

Choice choose(const Problem& problem, int ranks, std::optional<Index> local_below, const core::Machine& machine,
              bool in_slices, Index rows_of_entry) {
  Choice choice;
  choice.candidates = candidates(problem, ranks, machine);
  // With tens of thousands of ranks the search for slices takes a second for each candidate. So with many ranks we
  // search only if no candidate fits at once, because otherwise slices are not needed.
  constexpr int many_ranks = 1024;
  const bool any_fits = std::any_of(choice.candidates.begin(), choice.candidates.end(), [&](const Candidate& one) {
    return is_offered(one, problem) && fits(one, machine);
  });
  std::set<std::optional<PartitionKind>> kinds;
  for (const Candidate& one : choice.candidates) kinds.insert(one.partition);
  const auto cut_all = [&](bool exact) {
    bool any = false;
    for (const std::optional<PartitionKind> kind : kinds) {
      SliceCounts known;  // of one partition at a time, because counts of 65,536 ranks take megabytes
      for (Candidate& one : choice.candidates) {
        if (one.partition != kind || (exact && !is_offered(one, problem))) continue;
        if (exact) one.least_bytes = least_bytes(one, problem, ranks, machine, known);
        if (exact && *one.least_bytes > machine.memory_per_rank) continue;
        one.sliced = cut_to_fit(one, problem, ranks, machine, known, exact);
        any = any || (one.sliced && is_offered(one, problem));
      }
    }
    return any;
  };
  const bool searches = in_slices && (ranks <= many_ranks || !any_fits);
  if (searches && !cut_all(/*exact=*/false) && !any_fits && ranks <= few_ranks) cut_all(/*exact=*/true);
  const Strategy* single = strategies::find("single");
  const auto local = std::find_if(choice.candidates.begin(), choice.candidates.end(),
                                  [&](const Candidate& one) { return one.strategy == single; });
  const Index rows = rows_of_entry > 0 ? rows_of_entry : problem.shape.sequence;
  const bool is_short = local_below && rows < *local_below;
  if (ranks == 1 || (is_short && fits(*local, machine))) {
    choice.taken = std::size_t(local - choice.candidates.begin());
    choice.fits = fits_memory(*local, machine) || local->sliced;
    choice.reason =
        ranks == 1 ? std::string("single: one rank")
                   : fmt::format("single: {} rows are fewer than distribution.local_below, {}", rows, *local_below);
    return choice;
  }
  return choose_among(std::move(choice.candidates), problem, machine, in_slices ? std::optional(ranks) : std::nullopt);
}

}  // namespace annulus::planner
