#include "annulus/app/verbs/print_schedule.hpp"

#include <algorithm>
#include <set>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/passes.hpp"
#include "annulus/report/text.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::app {
namespace {

using strategies::KeyRound;
using strategies::Problem;
using strategies::Schedule;
using strategies::SumRound;
using strategies::Transfer;
using strategies::Transfers;

constexpr std::size_t steps_shown = 24;

/// "1024 x 16": rows of a head on average, and the strides at which they lie.
std::string rows_text(const pattern::KeyRows& rows, Index heads) {
  std::set<Index> strides;
  for (const auto& owned : rows.owned()) {
    for (const auto& ranges : owned.heads) {
      for (const auto& stored : ranges) strides.insert(stored.range.stride);
    }
  }
  const Index count = rows.is_packed() ? rows.count() / std::max<Index>(heads, 1) : rows.count();
  return strides.empty() ? "-" : fmt::format("{} x {}", count, fmt::join(strides, ","));
}

/// "4.0 MiB from 0"; of several the sum and how many; "-" of none.
std::string transfers_text(const std::vector<Transfer>& all, const char* word) {
  if (all.empty()) return "-";
  Index bytes = 0;
  std::set<int> ranks;
  for (const Transfer& one : all) {
    bytes += one.bytes;
    ranks.insert(one.rank);
  }
  const std::string size = report::describe_bytes(double(bytes));
  if (ranks.size() > 1) return fmt::format("{} {} {} ranks", size, word, ranks.size());
  return all[0].rank == strategies::every_rank ? fmt::format("{} {} all", size, word)
                                               : fmt::format("{} {} {}", size, word, all[0].rank);
}

Index bytes_of(const std::vector<Transfer>& all) {
  Index bytes = 0;
  for (const Transfer& one : all) bytes += one.bytes;
  return bytes;
}

class Printer {
 public:
  Printer(const Schedule& schedule, int rank) : schedule_(schedule), problem_(schedule.problem()), rank_(rank) {}

  void print() const {
    const bool backward = schedule_.sums() != nullptr;
    fmt::print("# {:>5}  {:<10} {:>16}  {:>7}  {:<20} {:<20}{}\n", "step", "keys of", "rows x stride", "work",
               "meanwhile receive", "meanwhile send", backward ? " sums come             sums leave" : "");
    for (std::size_t i = 0; i < schedule_.rounds().size(); ++i) {
      if (schedule_.rounds().size() > 1) fmt::print("# pair {} of {}\n", i + 1, schedule_.rounds().size());
      print_round(schedule_.keys().round(i), backward ? &schedule_.sums()->round(i) : nullptr);
    }
  }

 private:
  double all_work() const { return double(schedule_.kept(rank_)); }
  const pattern::StoredRows& rows() const { return schedule_.partition()[std::size_t(rank_)]; }
  double work_of(const Problem& round) const {
    return schedule_.rounds().size() == 1 ? all_work() : double(strategies::kept_of(round, rows()));
  }

  void print_round(const KeyRound& keys, const SumRound* sums) const {
    const std::size_t of_keys = keys.steps(rank_), of_sums = sums != nullptr ? sums->steps(rank_) : 0;
    const std::size_t steps = std::max(of_keys, of_sums);
    Index received = 0, sent = 0, sums_received = 0, sums_sent = 0;
    for (std::size_t s = 0; s < steps; ++s) {
      const Transfers moved = s < of_keys ? keys.transfers(rank_, s) : Transfers{};
      const Transfers added = s < of_sums ? sums->transfers(rank_, s) : Transfers{};
      received += bytes_of(moved.received);
      sent += bytes_of(moved.sent);
      sums_received += bytes_of(added.received);
      sums_sent += bytes_of(added.sent);
      if (s == steps_shown) fmt::print("# {:>5}  {} more steps\n", "...", steps - s);
      if (s >= steps_shown) continue;
      print_step(keys, s, s < of_keys);
      fmt::print("{:<20} {:<20}", transfers_text(moved.received, "from"), transfers_text(moved.sent, "to"));
      if (sums != nullptr) {
        fmt::print(" {:<21} {}", transfers_text(added.received, "from"), transfers_text(added.sent, "to"));
      }
      fmt::print("\n");
    }
    fmt::print("# {:>5}  {:<10} {:>16}  {:>6.3g} M  {:<20} {:<20}", "sum", "", "", 1e-6 * work_of(keys.problem()),
               report::describe_bytes(double(received)), report::describe_bytes(double(sent)));
    if (sums != nullptr) {
      fmt::print(" {:<21} {}", report::describe_bytes(double(sums_received)),
                 report::describe_bytes(double(sums_sent)));
    }
    fmt::print("\n");
  }

  /// Number, owner, rows and share of the work; a step in which only sums move has none.
  void print_step(const KeyRound& keys, std::size_t s, bool has_keys) const {
    std::vector<std::string> owners, forms;
    core::Count kept = 0;
    for (std::size_t channel = 0; has_keys && channel < keys.channels(); ++channel) {
      const strategies::KeyBlock block = keys.form(rank_, s, channel);
      if (block.rows.count() == 0 || (s == 0 && !keys.computes_own(channel))) continue;
      const int owner = keys.owner(rank_, s, channel);
      const std::string name = owner == strategies::every_rank ? "all"
                               : s == 0                        ? fmt::format("{} (own)", owner)
                                                               : std::to_string(owner);
      if (owners.empty() || owners.back() != name) owners.push_back(name);
      forms.push_back(rows_text(block.rows, problem_.shape.kv_heads));
      kept += strategies::kept_between(keys.problem(), keys.queries(rank_, channel), block.rows);
    }
    fmt::print("# {:>5}  {:<10} {:>16}  {:>5.1f} %  ", s, fmt::format("{}", fmt::join(owners, ", ")),
               fmt::format("{}", fmt::join(forms, " + ")), 100 * double(kept) / std::max(1.0, all_work()));
  }

  const Schedule& schedule_;
  const Problem& problem_;
  const int rank_;
};

void print_pass(const Job& job, const Schedule& schedule, int rank, std::string_view pass) {
  const strategies::Prediction all = schedule.predict(rank);
  std::string rows;
  for (const core::Interval& interval : job.partition[std::size_t(rank)].intervals()) {
    rows += fmt::format(" [{}, {})", interval.begin, interval.end);
    if (rows.size() > 60) {
      rows += " ...";
      break;
    }
  }
  fmt::print("# {}, {}, rank {} of {}, rows{}: memory {}, sends {}, receives {}\n", job.strategy->name(), pass, rank,
             job.partition.size(), rows.empty() ? " none" : rows, report::describe_bytes(double(all.memory_bytes)),
             report::describe_bytes(double(all.bytes_sent)), report::describe_bytes(double(all.bytes_received)));
  if (!schedule.has_exchange()) return Printer(schedule, rank).print();
  if (schedule.gathers_queries()) {
    const Schedule& inner = schedule.of_all_queries();
    fmt::print(
        "# queries of all ranks come, and what they find goes home: {} queries, {} of them its own, with its own "
        "keys:\n",
        inner.row_counts(rank).queries, schedule.row_counts(rank).queries);
    return Printer(inner, rank).print();
  }
  const strategies::HeadGroup group = schedule.group_of(rank);
  const Schedule& across = schedule.across(rank);
  const bool backward = across.sums() != nullptr;
  const Index there = backward ? group.backward_bytes_received() : group.bytes_received();
  fmt::print("# group {} of {}: rows for heads and back, {} received; as member {} it computes {} of {} heads:\n",
             group.number(), group.rows().size(), report::describe_bytes(double(there)), group.rank(),
             group.narrow().shape.heads, job.problem.shape.heads);
  Printer(across, group.number()).print();
}

}  // namespace

void print_block(const Job& job, int block) {
  const strategies::BlockPasses passes(job.problem, job.partition, job.run.settings.input.dlse.has_value());
  const strategies::UnitCost unit = passes.cost(0, block);
  const core::Interval rows = passes.rows(block).intervals().front();
  fmt::print("# stream, forward{}, block {} of {}, rows [{}, {}): memory {}, reads {}, writes {}\n",
             passes.phases() == 2 ? " and dq" : "", block, passes.blocks(), rows.begin, rows.end,
             report::describe_bytes(double(unit.memory_bytes)), report::describe_bytes(double(unit.bytes_read)),
             report::describe_bytes(double(unit.bytes_written)));
  Printer(passes.forward(), block).print();
}

void print_schedule(const Job& job, int rank) {
  for (const PassKind pass : passes_of(job.problem)) print_pass(job, *schedule_of(job, pass), rank, name_of(pass));
}

}  // namespace annulus::app
