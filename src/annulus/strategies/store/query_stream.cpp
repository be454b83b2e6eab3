#include "annulus/strategies/store/query_stream.hpp"

#include <algorithm>

#include "annulus/strategies/own_passes.hpp"

namespace annulus::strategies {
namespace {

using core::StoredTensor;

using Member = core::Buffer Tensors::*;  // a name, because g++ warns of the parentheses that nvcc adds to the type

/// A tensor of a block of queries, the bytes of one head of a row, and the member of Tensors that holds the tensor.
struct Part {
  StoredTensor tensor;
  Index head_bytes;
  Member member;
};

std::vector<Part> parts_of(const Problem& problem, bool dlse) {
  std::vector<Part> parts{{StoredTensor::normalizers, problem.head_normalizer_bytes(), &Tensors::normalizers}};
  if (dlse) parts.push_back({StoredTensor::dlse, problem.lse_row_bytes() / problem.shape.heads, &Tensors::dlse});
  parts.push_back({StoredTensor::q, problem.head_row_bytes(), &Tensors::q});
  parts.push_back({StoredTensor::out, problem.head_value_bytes(), &Tensors::out});
  parts.push_back({StoredTensor::dout, problem.head_value_bytes(), &Tensors::dout});
  // The tensors lie one after another in one buffer, and matrix units need tensors that begin at multiples of 16 bytes.
  // So tensors are sorted by the largest power of two that divides a head's bytes: heads of 48 bytes (16 divides 48)
  // come before numbers of 8 bytes, not after them.
  const auto unit = [](const Part& part) { return part.head_bytes & -part.head_bytes; };
  std::stable_sort(parts.begin(), parts.end(), [&](const Part& a, const Part& b) { return unit(a) > unit(b); });
  return parts;
}

}  // namespace

QueryPlan::QueryPlan(const std::vector<Problem>& rounds, const pattern::Partition& partition, bool dlse) {
  for (const Problem& round : rounds) rounds_.emplace_back(round, partition, dlse);
}

std::unique_ptr<KeySource> QueryPlan::source(const PassContext& context) const {
  return std::make_unique<StoredQueries>(context, *this);
}

QueryBlock StoredQueries::queries(std::size_t s, std::size_t channel) const {
  if (s == 0) return ReadKeys::queries(s, channel);
  const Block& block = queries_[(s - 1) % slots];
  return {block.rows, block.rows, block.tensors};
}

void StoredQueries::start_read(std::size_t slot, const pattern::Hop& from, const KeyBlock& into,
                               core::HopMetrics& metrics) {
  const Problem& problem = context_.problem;
  Block& block = queries_[slot] = {QueryRound::rows_of(from.receive), {}};
  const Index count = block.rows.count(), bytes = count * query_row_bytes(problem, plan_.round(0).has_dlse());
  std::byte* const host = reads_[slot].open(context_.location.stored_rows(), into.data, bytes);
  Index at = 0;
  for (const Part& part : parts_of(problem, plan_.round(0).has_dlse())) {
    const StoredRowsOf rows{part.tensor, context_.location.entry(), problem.shape.heads, part.head_bytes};
    reads_[slot].start(part.tensor, row_pieces(rows, block.rows, host + at));
    block.tensors.*part.member =
        core::Buffer::borrowed(static_cast<std::byte*>(into.data) + at, count * rows.row_bytes());
    at += count * rows.row_bytes();
  }
  metrics.bytes_received += bytes;
  metrics.rows_received += count;
}

void StoredQueries::complete(std::size_t s) {
  ReadKeys::complete(s);
  if (s > 0) queries_[(s - 1) % slots].tensors.delta = {};
  if (s + 1 >= round_->steps(context_.rank())) return;
  Block& next = queries_[s % slots];
  next.tensors.delta = make_delta(context_.problem, next.rows.count(), next.tensors);
}

MakePlans read_from_store_for_keys(bool dlse) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return Plans{std::make_unique<QueryPlan>(rounds, partition, dlse), own_sums(Wanted::of_keys)};
  };
}

}  // namespace annulus::strategies
