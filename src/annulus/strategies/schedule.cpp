#include "annulus/strategies/schedule.hpp"

#include <algorithm>
#include <set>

#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {
namespace {

/// True if a forward pass may need its most memory while it fills an MPI window through a buffer. Usually results need
/// more memory than this buffer. They may need less if a rank has few queries, or if the buffer holds K and V of a
/// batch entry together (Problem::kv_parts()).
bool opening_may_be_peak(const Problem& problem) { return bool(problem.queries) || problem.shape.has_value_dim(); }

void add(const Transfers& transfers, Prediction& prediction) {
  for (const Transfer& one : transfers.sent) prediction.bytes_sent += one.bytes;
  for (const Transfer& one : transfers.received) prediction.bytes_received += one.bytes;
}

/// Adds the bytes that a rank receives from rank p to from[p]. In a collective (every_rank), every other rank sends all
/// its rows.
void add_received(const KeyRound& round, int rank, const Transfers& transfers, std::vector<Index>& from) {
  for (const Transfer& one : transfers.received) {
    if (one.rank != every_rank) {
      from[std::size_t(one.rank)] += one.bytes;
      continue;
    }
    for (int p = 0; p < round.ranks(); ++p) {
      if (p != rank)
        from[std::size_t(p)] += kv_bytes(round.problem(), round.rows(p).count() * round.problem().shape.kv_heads);
    }
  }
}

/// Bytes of buffers during step s; the buffers of the last step are held to the end.
Index during(const std::vector<Index>& bytes, std::size_t s) {
  return bytes.empty() ? 0 : bytes[std::min(s, bytes.size() - 1)];
}

/// Returns a rank's group. If all rows are queries, the group is made from the ranks' numbers of rows alone. These
/// numbers are enough to know what the rank holds and moves. The rows themselves may have millions of intervals, which
/// would take long to unite.
HeadGroup counted_group(const Problem& problem, const pattern::Partition& partition, int size, int rank) {
  if (problem.queries) return {problem, partition, size, rank};
  pattern::Partition counts;
  Index begin = 0;
  for (const pattern::StoredRows& rows : partition) {
    counts.push_back(pattern::StoredRows({{begin, begin + rows.count()}}));
    begin += rows.count();
  }
  return {problem, counts, size, rank};
}

constexpr int most_asked = 64;  // in a larger group, most_of_groups() looks at some members only

/// Returns the rank with the most K/V heads in a group of `size`, as its number in the group. If several ranks have
/// the most, returns the one of them with the most query heads.
int most_keys(const core::Shape& whole, int size) {
  int most = 0;
  std::pair<Index, Index> heads;
  for (int m = 0; m < size; ++m) {
    const core::Shape narrow = narrowed(whole, core::even_part(whole.heads, size, m));
    if (std::pair(narrow.kv_heads, narrow.heads) > heads) {
      heads = {narrow.kv_heads, narrow.heads};
      most = m;
    }
  }
  return most;
}

}  // namespace

Schedule::Schedule(const MakePlans& make, Problem problem, pattern::Partition partition, const RowExchange& exchange)
    : make_(make),
      problem_(std::move(problem)),
      partition_(std::move(partition)),
      query_rows_(problem_.queries ? strategies::query_rows(problem_, partition_) : pattern::Partition{}),
      group_(exchange.group) {
  if (exchange.all_queries)
    of_all_queries_ = std::make_unique<const Schedule>(make_, with_all_queries(problem_), partition_);
  if (has_exchange()) return;
  rounds_ = rounds_of(problem_);
  plans_ = make_(rounds_, partition_);
}

const Schedule& Schedule::across(int rank) const {
  std::unique_ptr<Schedule>& schedule = across_[rank % group_];
  if (!schedule) {
    const core::Interval heads = core::even_part(problem_.shape.heads, group_, rank % group_);
    schedule = std::make_unique<Schedule>(make_, narrowed(problem_, heads), rows_of_groups(partition_, group_));
  }
  return *schedule;
}

QueryCosts Schedule::query_costs() const {
  return {of_all_queries_->problem(), of_all_queries_->sums() != nullptr, Index(partition_.size())};
}

core::Count Schedule::kept(int rank) const {
  if (gathers_queries()) return of_all_queries_->kept(rank);
  const pattern::StoredRows& queries = query_rows()[std::size_t(rank)];
  if (!problem_.all_queries) return kept_of(problem_, queries);
  // For more queries than this, work lists would take gigabytes. Then kept triples are estimated, as if every key were
  // seen by equally many queries.
  constexpr Index most_listed = Index(1) << 20;
  if (queries.count() > most_listed) {
    const Index keys = partition_[std::size_t(rank)].count();
    return kept_of(problem_, queries) * core::Count(keys) / core::Count(problem_.shape.sequence);
  }
  return kept_between(problem_, queries, pattern::KeyRows::raw(partition_[std::size_t(rank)]));
}

Prediction Schedule::predict_work(int rank) const {
  Prediction prediction;
  prediction.kept = kept(rank);
  Index most = 0;  // bytes of buffers in the step that has most
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const KeyRound& keys = plans_.keys->round(i);
    const SumRound* sums = plans_.sums ? &plans_.sums->round(i) : nullptr;
    const std::size_t of_keys = keys.steps(rank), of_sums = sums != nullptr ? sums->steps(rank) : 0;
    const std::vector<Index> key_bytes = keys.buffer_bytes(rank);
    const std::vector<Index> sum_bytes = sums != nullptr ? sums->buffer_bytes(rank) : std::vector<Index>{};
    for (std::size_t s = 0; s < std::max(of_keys, of_sums); ++s) {
      if (s < of_keys) add(keys.transfers(rank, s), prediction);
      if (s < of_sums) add(sums->transfers(rank, s), prediction);
      most = std::max(most, during(key_bytes, s) + during(sum_bytes, s));
    }
  }
  Index windows = plans_.keys->window_bytes(rank);
  if (plans_.sums) {
    most = std::max({most, plans_.keys->opening_bytes(rank), plans_.sums->closing_bytes(rank)});
    windows += plans_.sums->window_bytes(rank);
  } else if (opening_may_be_peak(problem_)) {
    most = std::max(most, plans_.keys->opening_bytes(rank));
  }
  const QueryBlocks blocks = plans_.sums ? QueryBlocks{} : plans_.keys->query_blocks(rank);
  prediction.memory_bytes = work_bytes(row_counts(rank), blocks, most) + windows;
  return prediction;
}

Index Schedule::work_bytes(const RowCounts& rows, const QueryBlocks& blocks, Index buffers) const {
  if (!plans_.sums) return forward_memory(problem_, rows, blocks, buffers);
  if (problem_.sums == Sums::received) return statistics_work(problem_, rows, buffers);
  if (const Index in_blocks = backward_blocks(rows); in_blocks > 1)
    return backward_work_in_blocks(problem_, rows, in_blocks);
  return backward_work(problem_, rows, buffers, plans_.sums->wanted());
}

Index Schedule::backward_blocks(const RowCounts& rows) const {
  const bool whole = !plans_.sums->is_own() || plans_.sums->wanted() != Wanted::all;
  return whole ? 1 : strategies::backward_blocks(problem_, rows);
}

Index Schedule::input_bytes(const RowCounts& rows) const {
  if (!plans_.sums) return 0;  // work_bytes() includes the inputs of a forward pass
  return problem_.sums == Sums::received ? statistics_inputs(problem_, rows) : backward_inputs(problem_, rows);
}

Schedule::Most Schedule::most_work(const LargestMessages& largest) const {
  Room room = plans_.keys->room(largest);
  if (plans_.sums) {
    const Room sums = plans_.sums->room(largest);
    room = {std::max({room.buffers + sums.buffers, room.at_ends, sums.at_ends}), 0, room.window + sums.window};
  } else if (opening_may_be_peak(problem_)) {
    room.buffers = std::max(room.buffers, room.at_ends);
  }
  const QueryBlocks blocks = plans_.sums ? QueryBlocks{} : plans_.keys->query_blocks(pattern::fullest(query_rows()));
  return {work_bytes(most_counts(), blocks, room.buffers) + room.window, room.window};
}

Schedule::Most Schedule::most_of_groups(LargestMessages largest) const {
  // Looks at the group with the most key rows and at the group with the most query rows. In a large group it looks only
  // at the members that may need most memory: the first, which has the most query heads; the one with the most
  // key/value heads; and the one with the most rows of its own.
  std::set<int> ranks;
  for (const pattern::Partition* const rows : {&partition_, &query_rows()}) {
    const int group = pattern::fullest(rows_of_groups(*rows, group_)), first = group * group_;
    const auto member = rows->begin() + first;
    std::set<int> members{0, pattern::fullest({member, member + group_}), most_keys(problem_.shape, group_)};
    for (int m = 0; group_ <= most_asked && m < group_; ++m) members.insert(m);
    for (const int m : members) ranks.insert(first + m);
  }
  Most most;
  for (const int rank : ranks) {
    const HeadGroup of_rank = counted_group(problem_, partition_, group_, rank);
    const auto share = [&](Index rows) {
      return core::ceil_div(rows * of_rank.narrow().shape.kv_heads, problem_.shape.kv_heads);
    };
    const Schedule& across = this->across(rank);
    const Index work = across.most_work({share(largest.rows), share(largest.sums)}).memory;
    most.memory =
        std::max(most.memory, across.sums() != nullptr ? of_rank.backward_memory(work) : of_rank.memory(work));
  }
  return most;
}

Schedule::Most Schedule::most(const LargestMessages& largest) const {
  if (has_groups()) return most_of_groups(largest);
  if (gathers_queries()) return {query_costs().memory(most_counts()), 0};
  Most most = most_work(largest);
  most.memory += input_bytes(most_counts());
  return most;
}

Prediction Schedule::predict(int rank) const {
  if (gathers_queries()) {
    const RowCounts rows = row_counts(rank);
    const QueryCosts costs = query_costs();
    return {costs.memory(rows), costs.bytes_sent(rows.queries), costs.bytes_received(rows.queries), kept(rank)};
  }
  if (!has_groups()) {
    Prediction prediction = predict_work(rank);
    prediction.memory_bytes += input_bytes(row_counts(rank));
    return prediction;
  }
  const HeadGroup group = counted_group(problem_, partition_, group_, rank);
  const Schedule& across = this->across(rank);
  Prediction prediction = across.predict_work(group.number());
  const bool backward = across.sums() != nullptr;
  prediction.memory_bytes =
      backward ? group.backward_memory(prediction.memory_bytes) : group.memory(prediction.memory_bytes);
  prediction.bytes_sent += backward ? group.backward_bytes_sent() : group.bytes_sent();
  prediction.bytes_received += backward ? group.backward_bytes_received() : group.bytes_received();
  return prediction;
}

std::vector<Index> Schedule::bytes_from(int rank) const {
  std::vector<Index> from(partition_.size());
  if (has_groups()) {
    const HeadGroup group = counted_group(problem_, partition_, group_, rank);
    const Schedule& across = this->across(rank);
    const std::vector<Index> inside = across.sums() != nullptr ? group.backward_bytes_from() : group.bytes_from();
    const std::vector<Index> between = across.bytes_from(group.number());
    for (int m = 0; m < group_; ++m)
      from[std::size_t(group.number()) * std::size_t(group_) + std::size_t(m)] += inside[std::size_t(m)];
    for (std::size_t g = 0; g < between.size(); ++g)
      from[g * std::size_t(group_) + std::size_t(group.rank())] += between[g];
    return from;
  }
  for (int p = 0; gathers_queries() && p < int(from.size()); ++p) {
    if (p != rank) from[std::size_t(p)] = query_costs().bytes_from(row_counts(rank).queries, row_counts(p).queries);
  }
  for (std::size_t i = 0; i < rounds_.size(); ++i) {
    const KeyRound& keys = plans_.keys->round(i);
    for (std::size_t s = 0; s < keys.steps(rank); ++s) add_received(keys, rank, keys.transfers(rank, s), from);
    if (!plans_.sums) continue;
    const SumRound& sums = plans_.sums->round(i);
    for (std::size_t s = 0; s < sums.steps(rank); ++s) add_received(keys, rank, sums.transfers(rank, s), from);
  }
  return from;
}

}  // namespace annulus::strategies
