#include "annulus/strategies/keys/window_rows.hpp"

namespace annulus::strategies {

using pattern::PackedRows;

PackedRows window_rows(const Problem& problem, const pattern::StoredRows& rows) {
  PackedRows all;
  for (const core::Interval& interval : rows.intervals()) {
    const std::vector<pattern::StridedRange> whole{{interval.begin, 1, interval.size()}};
    all.push_back(
        {interval, std::vector<std::vector<pattern::StridedRange>>(std::size_t(problem.shape.kv_heads), whole)});
  }
  return all;
}

// fill_window() copies, and add_window() adds, one part after another (Problem::kv_parts(), sum_parts()), each through
// a buffer. In a forward pass this buffer usually does not raise the peak of memory, because it is freed before the
// running softmaxes and results, which need more memory, are made. See opening_may_be_peak() in schedule.cpp.
void fill_window(const Problem& problem, const pattern::StoredRows& rows, const KeyBlock& own, comm::Window& window) {
  if (window.bytes() == 0) return;
  const PackedRows all = window_rows(problem, rows);
  const std::vector<kernels::RowCopy> copies = collect(problem, own, all);
  const Index parts = problem.kv_parts(), held = pattern::head_rows(all), unit = problem.head_kv_bytes();
  const core::Buffer packed("window part", held * unit);
  for (Index part = 0; part < parts; ++part) {
    auto* source = static_cast<std::byte*>(own.data) + part * packed.bytes();
    kernels::gather_rows(copies, {source, 1, held, unit}, {packed.data(), 1, held, unit});
    window.write(part * packed.bytes(), packed.data(), packed.bytes());
  }
}

void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own) {
  if (window.bytes() == 0) return;
  const std::vector<kernels::RowCopy> copies =
      collect(problem, {nullptr, rows.count(), pattern::KeyRows::raw(rows)}, window_rows(problem, rows));
  const kernels::RowArray all = own.head_rows(problem);
  const core::Buffer part("gradient buffers", all.held * all.row_bytes);
  for (Index i = 0; i < all.parts; ++i) {
    window.read(i * part.bytes(), part.data(), part.bytes());
    kernels::add_rows(copies, {part.data(), 1, all.held, all.row_bytes},
                      {static_cast<std::byte*>(all.data) + i * part.bytes(), 1, all.held, all.row_bytes},
                      problem.sum_precision());
  }
}

WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const PackedRows& packed) {
  const PackedRows window = window_rows(problem, owner);
  WindowRuns found{{}, pattern::head_rows(window)};
  for (const kernels::RowCopy& copy :
       collect(problem, {nullptr, found.held, pattern::KeyRows::packed(window)}, packed)) {
    found.runs.push_back({copy.from, copy.stride, copy.count});
  }
  return found;
}

}  // namespace annulus::strategies
