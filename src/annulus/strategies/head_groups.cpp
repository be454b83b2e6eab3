#include "annulus/strategies/head_groups.hpp"

#include <algorithm>

#include "annulus/strategies/computation.hpp"

namespace annulus::strategies {
namespace {

using comm::Piece;
using comm::RowBlock;

Index array_bytes(const RowBlock& array) { return array.parts * array.held * array.row_bytes; }

/// The array at a place in memory.
RowBlock at(RowBlock array, const core::Buffer& buffer) {
  array.data = buffer.data();
  return array;
}

pattern::Partition rows_of_groups(const pattern::Partition& partition, int size) {
  pattern::Partition rows;
  for (Index first = 0; first < Index(partition.size()); first += size) {
    rows.push_back(pattern::united(partition, {first, first + size}));
  }
  return rows;
}

}  // namespace

HeadGroup::HeadGroup(const Problem& whole, const pattern::Partition& partition, int size, int rank)
    : number_(rank / size),
      place_(rank % size),
      members_(partition.begin() + number_ * size, partition.begin() + (number_ + 1) * size),
      rows_(rows_of_groups(partition, size)),
      whole_(whole) {
  const core::Shape& s = whole.shape;
  std::vector<core::Interval> heads, kv_heads;
  for (Index m = 0; m < size; ++m) {
    heads.push_back(core::even_part(s.heads, size, m));
    kv_heads.push_back(pattern::heads_read(heads.back(), s.group()));
  }
  narrow_ = narrowed(whole, heads[std::size_t(place_)]);
  q_ = forms(s.batch, whole.head_row_bytes(), s.heads, heads);
  kv_ = forms(2 * s.batch, whole.head_row_bytes(), s.kv_heads, kv_heads);
  lse_ = forms(s.batch, Index(core::bytes_of(core::lse_type(whole.type))), s.heads, heads);
}

HeadGroup::TwoForms HeadGroup::forms(Index parts, Index unit_bytes, Index all_heads,
                                     const std::vector<core::Interval>& heads) const {
  const pattern::StoredRows& rows = members_[std::size_t(place_)];
  const pattern::StoredRows& all_rows = rows_[std::size_t(number_)];
  const Index narrow_bytes = heads[std::size_t(place_)].size() * unit_bytes;
  TwoForms tensor;
  tensor.own = {nullptr, parts, rows.count(), all_heads * unit_bytes, {}};
  tensor.narrow = {nullptr, parts, all_rows.count(), narrow_bytes, {}};
  for (std::size_t m = 0; m < members_.size(); ++m) {
    tensor.heads_of.push_back({{{0, rows.count()}}, {heads[m].begin * unit_bytes, heads[m].end * unit_bytes}});
    tensor.rows_of.push_back({pattern::places(all_rows, members_[m]), {0, narrow_bytes}});
  }
  return tensor;
}

Index HeadGroup::others(const RowBlock& array, const std::vector<Piece>& pieces) const {
  Index bytes = 0;
  for (std::size_t m = 0; m < pieces.size(); ++m) {
    if (m != std::size_t(place_)) bytes += array.parts * pieces[m].row_count() * pieces[m].columns.size();
  }
  return bytes;
}

Index HeadGroup::bytes_sent() const {
  return others(q_.own, q_.heads_of) + others(kv_.own, kv_.heads_of) +       // to compute
         others(q_.narrow, q_.rows_of) + others(lse_.narrow, lse_.rows_of);  // and back: out, lse
}

Index HeadGroup::bytes_received() const {
  return others(q_.narrow, q_.rows_of) + others(kv_.narrow, kv_.rows_of) + others(q_.own, q_.heads_of) +
         others(lse_.own, lse_.heads_of);
}

Index HeadGroup::rows_received() const { return narrow_.shape.heads > 0 ? q_.narrow.held - q_.own.held : 0; }

Index HeadGroup::memory(Index narrow_memory) const {
  const Index inputs = array_bytes(q_.own) + array_bytes(kv_.own);
  const Index outputs = array_bytes(q_.own) + array_bytes(lse_.own);
  const Index narrow_outputs = array_bytes(q_.narrow) + array_bytes(lse_.narrow);
  return inputs + std::max(narrow_memory, narrow_outputs + outputs + kernel_memory(narrow_, q_.narrow.held));
}

Tensors HeadGroup::take_heads(const comm::Communicator& group, const Tensors& own) const {
  Tensors narrow;
  narrow.q = core::Buffer("q", array_bytes(q_.narrow));
  narrow.kv = core::Buffer("kv", array_bytes(kv_.narrow));
  comm::alltoall_pieces(group, at(q_.own, own.q), q_.heads_of, at(q_.narrow, narrow.q), q_.rows_of);
  comm::alltoall_pieces(group, at(kv_.own, own.kv), kv_.heads_of, at(kv_.narrow, narrow.kv), kv_.rows_of);
  return narrow;
}

void HeadGroup::return_heads(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const {
  own.out = core::Buffer("out", array_bytes(q_.own));
  own.lse = core::Buffer("lse", array_bytes(lse_.own));
  comm::alltoall_pieces(group, at(q_.narrow, narrow.out), q_.rows_of, at(q_.own, own.out), q_.heads_of);
  comm::alltoall_pieces(group, at(lse_.narrow, narrow.lse), lse_.rows_of, at(lse_.own, own.lse), lse_.heads_of);
}

}  // namespace annulus::strategies
