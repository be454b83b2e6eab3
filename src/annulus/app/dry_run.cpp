#include "annulus/app/dry_run.hpp"

#include <algorithm>

namespace annulus::app {
namespace {

constexpr std::size_t rows_shown = 16;  // of the table; more ranks are summed up in the last line

std::string rows_text(const pattern::StoredRows& rows) {
  std::string text;
  for (const core::Interval& interval : rows.intervals())
    text += fmt::format("[{}, {}) ", interval.begin, interval.end);
  return text.empty() ? "none" : text;
}

}  // namespace

int dry_run(const Job& job, const comm::Communicator& comm) {
  if (!comm.is_root()) return 0;
  fmt::print("# settings, resolved\n{}\n", io::resolved_text(job.run.settings));
  fmt::print("# {}: {}\n# {}\n", job.strategy->name(), describe_pattern(job.problem), describe_shape(job.problem));
  if (job.chosen) fmt::print("# auto takes {}\n", job.reason);
  fmt::print("# {:>5}  {:>10}  {:>7}  {:>10}  {:>10}  {:>10}  {}\n", "rank", "rows", "work", "memory", "sends",
             "receives", "holds");
  std::vector<strategies::Prediction> all;
  double kept = 0;
  for (std::size_t p = 0; p < job.partition.size(); ++p) {
    all.push_back(job.strategy->predict(job.problem, job.partition, int(p)));
    kept += double(all.back().kept);
  }
  for (std::size_t p = 0; p < std::min(all.size(), rows_shown); ++p) {
    fmt::print("# {:>5}  {:>10}  {:>6.2f}x  {:>10}  {:>10}  {:>10}  {}\n", p, job.partition[p].count(),
               double(all[p].kept) * double(all.size()) / std::max(kept, 1.0),
               describe_bytes(double(all[p].memory_bytes)), describe_bytes(double(all[p].bytes_sent)),
               describe_bytes(double(all[p].bytes_received)), rows_text(job.partition[p]));
  }
  const auto most = [&](Index strategies::Prediction::*cost) {
    Index largest = 0;
    for (const strategies::Prediction& one : all) largest = std::max(largest, one.*cost);
    return double(largest);
  };
  fmt::print("# {} ranks: at most {} of memory, {} sent, {} received; {:.1f} GFLOP in all\n", all.size(),
             describe_bytes(most(&strategies::Prediction::memory_bytes)),
             describe_bytes(most(&strategies::Prediction::bytes_sent)),
             describe_bytes(most(&strategies::Prediction::bytes_received)),
             1e-9 * core::forward_flops(Index(kept), job.problem.shape.head_dim));
  return 0;
}

}  // namespace annulus::app
