#include "annulus/strategies/queries/query_exchange.hpp"

#include <utility>

#include "annulus/comm/alltoall.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/kernels/merge.hpp"
#include "annulus/strategies/backward_loop.hpp"
#include "annulus/strategies/forward_loop.hpp"
#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {
namespace {

/// Exchanges queries on one rank. A tensor of the rank's own queries is (B, own rows, row bytes). A tensor of all
/// queries is (B, Sq, row bytes), in the order of the sequence. The partial results of P ranks for the own queries are
/// (B, P * own rows, row bytes), rank after rank.
///
/// Worked example: queries 0 ... 5 on 2 ranks, zigzag: rank 0 has the rows 0 1 5. After bring() each rank has 0 1 2 3 4
/// 5. In return_to_owners() rank 0 sends its results for 2 3 4 to rank 1, and gets results for 0 1 5 from both ranks.
class QueryExchange {
 public:
  QueryExchange(const Schedule& schedule, const comm::Communicator& comm)
      : inner(schedule.of_all_queries()),
        comm_(comm),
        costs_(schedule.query_costs()),
        own_(schedule.row_counts(comm.rank()).queries),
        batch_(schedule.problem().shape.batch) {
    const pattern::StoredRows& all = inner.query_rows().front();
    all_ = all.count();
    for (const pattern::StoredRows& rows : schedule.query_rows())
      locations_.push_back(pattern::stored_intervals(all, rows));
  }

  /// Returns a tensor with the rows of all ranks; `own` has this rank's rows of the tensor.
  core::Buffer bring(const char* name, const core::Buffer& own, Index row_bytes) const {
    core::Buffer all(name, batch_ * all_ * row_bytes);
    std::vector<comm::Piece> sends, receives;
    for (const auto& locations : locations_) {
      sends.push_back({{{0, own_}}, {0, row_bytes}});
      receives.push_back({locations, {0, row_bytes}});
    }
    comm::alltoall_pieces(comm_, {own.data(), batch_, own_, row_bytes, {}}, sends,
                          {all.data(), batch_, all_, row_bytes, {}}, receives);
    return all;
  }

  /// Sends this rank's results for all queries to the queries' owners; `own` gets all ranks' results for the own
  /// queries.
  void return_to_owners(const core::Buffer& all, const core::Buffer& own, Index row_bytes) const {
    std::vector<comm::Piece> sends, receives;
    for (const auto& locations : locations_) {
      const Index first = Index(receives.size()) * own_;
      sends.push_back({locations, {0, row_bytes}});
      receives.push_back({{{first, first + own_}}, {0, row_bytes}});
    }
    comm::alltoall_pieces(comm_, {all.data(), batch_, all_, row_bytes, {}}, sends,
                          {own.data(), batch_, rows_returned(), row_bytes, {}}, receives);
  }
  core::Buffer return_to_owners(const char* name, const core::Buffer& all, Index row_bytes) const {
    core::Buffer own(name, batch_ * rows_returned() * row_bytes);
    return_to_owners(all, own, row_bytes);
    return own;
  }
  /// The same for running softmaxes: m, l, the sum of scores (only if the entropy is wanted) and the accumulator.
  kernels::State return_to_owners(const kernels::State& all) const {
    kernels::State own(all.shape, rows_returned(), all.precision, all.exponent_bias, all.score_sum.bytes() > 0);
    const Index number = all.shape.heads * Index(core::bytes_of(all.precision));
    for (const auto part : {&kernels::State::m, &kernels::State::l, &kernels::State::score_sum}) {
      if ((all.*part).bytes() > 0) return_to_owners(all.*part, own.*part, number);
    }
    return_to_owners(all.acc, own.acc, number * all.shape.dim_of_values());
    return own;
  }

  /// Counts both exchanges (before and after the pass) in the first hop.
  void count(core::HopMetrics& first) const {
    first.bytes_sent += costs_.bytes_sent(own_);
    first.bytes_received += costs_.bytes_received(own_);
    first.rows_received += all_ - own_;
  }

  /// own(): number of this rank's queries. ranks(): number of ranks.
  Index own() const { return own_; }
  Index ranks() const { return Index(locations_.size()); }

  const Schedule& inner;

 private:
  Index rows_returned() const { return ranks() * own_; }

  const comm::Communicator& comm_;
  const QueryCosts costs_;
  const Index own_, batch_;
  Index all_ = 0;
  std::vector<std::vector<core::Interval>> locations_;  // [rank]: where its queries are among all queries
};

/// Does `work`, which exchanges messages, and counts the time of `work` as waiting.
template <class Work>
void exchange(core::HopMetrics& metrics, const char* where, Work&& work) {
  const comm::Scope doing(where);
  core::timed_wait(metrics, "all-to-all", work);
}

/// Returns the tensors that a loop over the own keys needs, except the tensors of queries.
Tensors keys_of(const Tensors& own) {
  Tensors keys;
  keys.kv = own.kv;
  keys.lent.k = own.lent.k;
  keys.lent.v = own.lent.v;
  keys.poll = own.poll;
  return keys;
}

constexpr const char* gathering = "gathering queries";
constexpr const char* returning = "returning results to queries' owners";

/// Makes tensors.top_rows and top_weights of the own queries from the lists of all ranks, and frees the lists in `all`.
void merge_lists(const Problem& problem, const QueryExchange& queries, Tensors& all, core::HopMetrics& metrics,
                 Tensors& tensors) {
  core::Buffer top_rows, weights;
  exchange(metrics, returning, [&] {
    top_rows = queries.return_to_owners("top rows", all.top_rows, top_rows_bytes(problem));
    weights = queries.return_to_owners("top weights", all.top_weights, top_weights_bytes(problem));
  });
  all = {};
  const Index own = problem.shape.batch * queries.own();
  tensors.top_rows = core::Buffer("top rows", own * top_rows_bytes(problem));
  tensors.top_weights = core::Buffer("top weights", own * top_weights_bytes(problem));
  core::timed_compute(metrics, [&] {
    kernels::merge_top(problem.shape, queries.own(), core::lse_type(problem.type), problem.statistics.top_keys,
                       {weights.data(), static_cast<Index*>(top_rows.data())}, queries.ranks(),
                       {tensors.top_weights.data(), static_cast<Index*>(tensors.top_rows.data())});
  });
}

}  // namespace

core::RankMetrics run_forward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                      const Progress& progress) {
  const Problem& problem = schedule.problem();
  const QueryExchange queries(schedule, comm);
  core::HopMetrics at_start;
  Tensors all = keys_of(tensors);
  exchange(at_start, gathering, [&] { all.q = queries.bring("q", tensors.q, problem.query_row_bytes()); });
  kernels::State states({}, 0, problem.precision);
  core::RankMetrics metrics = run_forward(queries.inner, comm, all, progress,
                                          [&](Computation& computation) { states = computation.take_states(); });
  core::HopMetrics& first = metrics.hops.front();
  first.wait_seconds += at_start.wait_seconds;
  all.q = {};
  kernels::State of_ranks({}, 0, problem.precision);
  exchange(first, returning, [&] { of_ranks = queries.return_to_owners(states); });
  states = kernels::State({}, 0, problem.precision);
  all = {};  // not before, because the accumulator of `states` may have been the memory of all.out
  Computation own(problem, schedule.query_rows()[std::size_t(comm.rank())], tensors, 0, {});
  own.merge(of_ranks, comm.size(), first);
  of_ranks = kernels::State({}, 0, problem.precision);
  own.finish(first);
  queries.count(first);
  return metrics;
}

core::RankMetrics run_backward_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                       const Progress& progress) {
  const Problem& problem = schedule.problem();
  const RowCounts rows = schedule.row_counts(comm.rank());
  const QueryExchange queries(schedule, comm);
  const Index number = problem.shape.heads * Index(core::bytes_of(problem.precision));
  core::RankMetrics metrics{rows.keys, {{}}};
  tensors.delta = make_delta(problem, rows.queries, tensors);
  make_sink_sums(problem, rows.queries, tensors);
  Tensors all = keys_of(tensors);
  exchange(metrics.hops.front(), gathering, [&] {
    all.q = queries.bring("q", tensors.q, problem.query_row_bytes());
    all.dout = queries.bring("dout", tensors.dout, problem.out_row_bytes());
    all.normalizers = queries.bring("normalizers", tensors.normalizers, problem.normalizer_row_bytes());
    all.delta = queries.bring("delta", tensors.delta, number);
  });
  tensors.delta = tensors.dk = tensors.dv = {};
  BackwardComputation::Made sums;
  {
    const Schedule& inner = queries.inner;
    BackwardComputation computation(inner.problem(), inner.row_counts(comm.rank()), all, inner.kept(comm.rank()),
                                    progress);
    run_backward(inner, {inner.problem(), inner.partition(), comm, all, metrics}, computation,
                 [&] { sums = computation.take_sums(); });
  }
  all = {};
  core::HopMetrics& first = metrics.hops.front();
  core::Buffer of_ranks;
  exchange(first, returning,
           [&] { of_ranks = queries.return_to_owners("dq", sums.queries, number * problem.shape.head_dim); });
  sums.queries = {};
  tensors.dq = finish_query_sums(problem, rows.queries, comm.size(), of_ranks, tensors.dq, first);
  of_ranks = {};
  tensors.dkv = finish_keys(problem, rows.keys, std::move(sums.keys), first);
  queries.count(first);
  return metrics;
}

core::RankMetrics run_statistics_queries(const Schedule& schedule, const comm::Communicator& comm, Tensors& tensors,
                                         const Progress& progress) {
  const Problem& problem = schedule.problem();
  const RowCounts rows = schedule.row_counts(comm.rank());
  const QueryExchange queries(schedule, comm);
  core::RankMetrics metrics{rows.keys, {{}}};
  Tensors all = keys_of(tensors);
  exchange(metrics.hops.front(), gathering, [&] {
    all.q = queries.bring("q", tensors.q, problem.query_row_bytes());
    all.normalizers = queries.bring("normalizers", tensors.normalizers, problem.normalizer_row_bytes());
  });
  {
    const Schedule& inner = queries.inner;
    StatisticsComputation computation(inner.problem(), inner.row_counts(comm.rank()), all, inner.kept(comm.rank()),
                                      progress);
    run_backward(inner, {inner.problem(), inner.partition(), comm, all, metrics}, computation,
                 [&] { tensors.received = computation.finish(metrics.hops.back()); });
  }
  all.q = all.normalizers = {};
  if (problem.statistics.top_keys > 0) merge_lists(problem, queries, all, metrics.hops.front(), tensors);
  queries.count(metrics.hops.front());
  return metrics;
}

}  // namespace annulus::strategies
