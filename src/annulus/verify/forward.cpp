#include "annulus/verify/forward.hpp"

#include <fmt/format.h>

namespace annulus::verify {
namespace {

using core::Shape;
using core::TensorId;

/// Query vectors and key ranges of the rows; rows that follow each other are read together.
std::vector<QueryRow> begin_rows(const VerifyInput& input, const std::vector<Index>& rows) {
  const Shape& s = input.shape;
  std::vector<QueryRow> all;
  for (std::size_t i = 0; i < rows.size();) {
    Interval run{rows[i], rows[i]};
    for (; i < rows.size() && rows[i] == run.end; ++i) ++run.end;
    const Numbers q = input.rows(TensorId::q, run);  // (B, run, H, D)
    for (Index x = run.begin; x < run.end; ++x) {
      for (Index b = 0; b < s.batch; ++b) {
        for (Index h = 0; h < s.heads; ++h) {
          const auto at = q.begin() + ((b * run.size() + x - run.begin) * s.heads + h) * s.head_dim;
          all.push_back(
              {b, x, h, kernels::key_range(input.pattern, s.sequence, s.heads, h, x), {at, at + s.head_dim}, {}, 0});
        }
      }
    }
  }
  return all;
}

}  // namespace

void for_each_key(
    const VerifyInput& input, const std::vector<QueryRow>& rows,
    const std::function<void(std::size_t, Index, std::span<const double>, std::span<const double>)>& visit) {
  const Shape& s = input.shape;
  const Index row_numbers = s.kv_heads * s.head_dim;
  const std::size_t head = std::size_t(s.head_dim);
  std::vector<Interval> ranges;
  for (const QueryRow& row : rows) ranges.push_back(row.keys);
  const Index step = std::max<Index>(1, verify_chunk_bytes / (8 * s.batch * row_numbers));
  for_each_chunk(ranges, s.sequence, step, [&](Interval chunk) {
    const Numbers k = input.rows(TensorId::k, chunk), v = input.rows(TensorId::v, chunk);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Interval part = intersect(rows[i].keys, chunk);
      for (Index p = part.begin; p < part.end; ++p) {
        const auto first = std::size_t((rows[i].b * chunk.size() + p - chunk.begin) * row_numbers +
                                       rows[i].h / s.group() * s.head_dim);
        visit(i, p, std::span(k).subspan(first, head), std::span(v).subspan(first, head));
      }
    }
  });
}

std::vector<QueryRow> recompute_rows(const VerifyInput& input, const std::vector<Index>& rows) {
  std::vector<QueryRow> all = begin_rows(input, rows);
  std::vector<kernels::ReferenceRow> sums;
  for (const QueryRow& row : all) sums.emplace_back(input.pattern, input.shape, row.h, row.x, row.q);
  for_each_key(input, all, [&](std::size_t i, Index p, auto k, auto v) { sums[i].add(p, k, v); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].out.resize(all[i].q.size());
    sums[i].finish(all[i].out, all[i].lse);
  }
  return all;
}

ForwardDeviations compare_forward(const VerifyInput& input, const io::SeenFile& file,
                                  const std::vector<QueryRow>& rows) {
  const Shape& s = input.shape;
  ForwardDeviations found;
  RowReader out(file, "out"), lse(file, "lse");
  for (const QueryRow& row : rows) {
    const Index head = row.b * s.heads + row.h;
    found.lse.compare(lse.row(row.x)[std::size_t(head)], row.lse, [&] { return input.place(row.b, row.x, row.h); });
    for (Index d = 0; d < s.head_dim; ++d) {
      found.out.compare(out.row(row.x)[std::size_t(head * s.head_dim + d)], row.out[std::size_t(d)],
                        [&] { return input.place(row.b, row.x, row.h, d); });
    }
  }
  return found;
}

}  // namespace annulus::verify
