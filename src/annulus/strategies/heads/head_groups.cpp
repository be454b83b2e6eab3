#include "annulus/strategies/heads/head_groups.hpp"

#include <algorithm>
#include <numeric>

#include "annulus/strategies/statistics_computation.hpp"

namespace annulus::strategies {
namespace {

using comm::Piece;
using comm::RowBlock;

Index sum_of(const std::vector<Index>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), Index(0)); }

Index array_bytes(const RowBlock& array) { return array.parts * array.held * array.row_bytes; }

/// Returns the array, with its data in `buffer`.
RowBlock at(RowBlock array, const core::Buffer& buffer) {
  array.data = buffer.data();
  return array;
}

}  // namespace

pattern::Partition rows_of_groups(const pattern::Partition& partition, int size) {
  pattern::Partition rows;
  for (Index first = 0; first < Index(partition.size()); first += size) {
    rows.push_back(pattern::united(partition, {first, first + size}));
  }
  return rows;
}

HeadGroup::HeadGroup(const Problem& whole, const pattern::Partition& partition, int size, int rank)
    : number_(rank / size), rank_(rank % size), rows_(rows_of_groups(partition, size)), whole_(whole) {
  const core::Shape& s = whole.shape;
  std::vector<core::Interval> heads, sums;
  Index sum_heads = 0;  // number of K/V heads; counts a head once for each rank that reads it
  for (Index m = 0; m < size; ++m) {
    heads.push_back(core::even_part(s.heads, size, m));
    kv_heads_.push_back(pattern::heads_read(heads.back(), s.group()));
    sums.push_back({sum_heads, sum_heads + kv_heads_.back().size()});
    sum_heads = sums.back().end;
  }
  narrow_ = narrowed(whole, heads[std::size_t(rank_)]);
  const auto rows_in = [&](const pattern::Partition& all) -> GroupRows {
    const pattern::Partition members(all.begin() + number_ * size, all.begin() + (number_ + 1) * size);
    return {members, pattern::united(members, {0, size})};
  };
  const GroupRows keys = rows_in(partition), queries = rows_in(query_rows(whole, partition));
  q_ = forms(s.batch, whole.head_row_bytes(), s.heads, heads, queries);
  out_ = forms(s.batch, whole.head_value_bytes(), s.heads, heads, queries);
  kv_ = forms(whole.kv_parts(), whole.head_kv_bytes(), s.kv_heads, kv_heads_, keys);
  lse_ = forms(s.batch, Index(core::bytes_of(core::lse_type(whole.type))), s.heads, heads, queries);
  normalizers_ = forms(s.batch, whole.head_normalizer_bytes(), s.heads, heads, queries);
  delta_ = forms(s.batch, Index(core::bytes_of(whole.precision)), s.heads, heads, queries);
  top_rows_ = forms(s.batch, top_rows_bytes(whole) / s.heads, s.heads, heads, queries);
  top_weights_ = forms(s.batch, top_weights_bytes(whole) / s.heads, s.heads, heads, queries);
  sums_ = forms(whole.sum_parts(), whole.head_row_sum_bytes(), sum_heads, sums, keys);
}

HeadGroup::TwoForms HeadGroup::forms(Index parts, Index unit_bytes, Index all_heads,
                                     const std::vector<core::Interval>& heads, const GroupRows& group) const {
  const pattern::StoredRows& rows = group.members[std::size_t(rank_)];
  const pattern::StoredRows& all_rows = group.together;
  const Index narrow_bytes = heads[std::size_t(rank_)].size() * unit_bytes;
  TwoForms tensor;
  tensor.own = {nullptr, parts, rows.count(), all_heads * unit_bytes, {}};
  tensor.narrow = {nullptr, parts, all_rows.count(), narrow_bytes, {}};
  for (std::size_t m = 0; m < group.members.size(); ++m) {
    tensor.heads_of.push_back({{{0, rows.count()}}, {heads[m].begin * unit_bytes, heads[m].end * unit_bytes}});
    tensor.rows_of.push_back({pattern::stored_intervals(all_rows, group.members[m]), {0, narrow_bytes}});
  }
  return tensor;
}

void HeadGroup::add_others(const RowBlock& array, const std::vector<Piece>& pieces, std::vector<Index>& bytes) const {
  bytes.resize(pieces.size());
  for (std::size_t m = 0; m < pieces.size(); ++m) {
    if (m != std::size_t(rank_)) bytes[m] += array.parts * pieces[m].row_count() * pieces[m].columns.size();
  }
}

Index HeadGroup::others(const RowBlock& array, const std::vector<Piece>& pieces) const {
  std::vector<Index> bytes;
  add_others(array, pieces, bytes);
  return sum_of(bytes);
}

std::vector<const HeadGroup::TwoForms*> HeadGroup::outputs() const {
  std::vector<const TwoForms*> all{&out_, &lse_};
  if (whole_.statistics.entropy) all.push_back(&lse_);
  if (whole_.has_sums()) all.push_back(&normalizers_);
  return all;
}

std::vector<const HeadGroup::TwoForms*> HeadGroup::sum_inputs() const {
  if (whole_.sums == Sums::received) return {&q_, &kv_, &normalizers_};
  return {&q_, &kv_, &out_, &normalizers_, &delta_};  // dout has the form of out
}

std::vector<const HeadGroup::TwoForms*> HeadGroup::sum_outputs() const {
  if (whole_.sums == Sums::received) return {&top_rows_, &top_weights_, &sums_};
  return {&q_, &sums_};  // dq has the form of q
}

Index HeadGroup::bytes_sent() const {
  Index bytes = others(q_.own, q_.heads_of) + others(kv_.own, kv_.heads_of);
  for (const TwoForms* back : outputs()) bytes += others(back->narrow, back->rows_of);
  return bytes;
}

std::vector<Index> HeadGroup::bytes_from() const {
  std::vector<Index> bytes;
  for (const TwoForms* there : {&q_, &kv_}) add_others(there->narrow, there->rows_of, bytes);
  for (const TwoForms* back : outputs()) add_others(back->own, back->heads_of, bytes);
  return bytes;
}

Index HeadGroup::bytes_received() const { return sum_of(bytes_from()); }

Index HeadGroup::rows_received() const { return narrow_.shape.heads > 0 ? q_.narrow.held - q_.own.held : 0; }

Index HeadGroup::memory(Index narrow_memory) const {
  const Index inputs = array_bytes(q_.own) + array_bytes(kv_.own);
  Index both_outputs = 0;  // outputs in both forms
  for (const TwoForms* output : outputs()) both_outputs += array_bytes(output->own) + array_bytes(output->narrow);
  return inputs + std::max(narrow_memory, both_outputs + kernel_memory(narrow_, q_.narrow.held));
}

Tensors HeadGroup::take_heads(const comm::Communicator& group, const Tensors& own) const {
  Tensors narrow;
  narrow.poll = own.poll;
  if (whole_.sink) {
    const auto first = own.sink.begin() + core::even_part(whole_.shape.heads, Index(kv_heads_.size()), rank_).begin;
    narrow.sink.assign(first, first + narrow_.shape.heads);
  }
  narrow.q = core::Buffer("q", array_bytes(q_.narrow));
  narrow.kv = core::Buffer("kv", array_bytes(kv_.narrow));
  comm::alltoall_pieces(group, at(q_.own, own.q), q_.heads_of, at(q_.narrow, narrow.q), q_.rows_of);
  comm::alltoall_pieces(group, at(kv_.own, own.kv), kv_.heads_of, at(kv_.narrow, narrow.kv), kv_.rows_of);
  return narrow;
}

void HeadGroup::return_heads(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const {
  own.out = core::Buffer("out", array_bytes(out_.own));
  own.lse = core::Buffer("lse", array_bytes(lse_.own));
  comm::alltoall_pieces(group, at(out_.narrow, narrow.out), out_.rows_of, at(out_.own, own.out), out_.heads_of);
  comm::alltoall_pieces(group, at(lse_.narrow, narrow.lse), lse_.rows_of, at(lse_.own, own.lse), lse_.heads_of);
  if (whole_.statistics.entropy) {
    own.entropy = core::Buffer("entropy", array_bytes(lse_.own));
    comm::alltoall_pieces(group, at(lse_.narrow, narrow.entropy), lse_.rows_of, at(lse_.own, own.entropy),
                          lse_.heads_of);
  }
  if (!whole_.has_sums()) return;
  own.normalizers = core::Buffer("normalizers", array_bytes(normalizers_.own));
  comm::alltoall_pieces(group, at(normalizers_.narrow, narrow.normalizers), normalizers_.rows_of,
                        at(normalizers_.own, own.normalizers), normalizers_.heads_of);
}

Index HeadGroup::backward_bytes_sent() const {
  Index bytes = 0;
  for (const TwoForms* there : sum_inputs()) bytes += others(there->own, there->heads_of);
  for (const TwoForms* back : sum_outputs()) bytes += others(back->narrow, back->rows_of);
  return bytes;
}

std::vector<Index> HeadGroup::backward_bytes_from() const {
  std::vector<Index> bytes;
  for (const TwoForms* there : sum_inputs()) add_others(there->narrow, there->rows_of, bytes);
  for (const TwoForms* back : sum_outputs()) add_others(back->own, back->heads_of, bytes);
  return bytes;
}

Index HeadGroup::backward_bytes_received() const { return sum_of(backward_bytes_from()); }

Index HeadGroup::statistics_memory(Index narrow_work) const {
  Index narrow_inputs = 0, lists = 0, narrow_lists = 0;
  for (const TwoForms* input : sum_inputs()) narrow_inputs += array_bytes(input->narrow);
  for (const TwoForms* list : {&top_rows_, &top_weights_}) {
    lists += array_bytes(list->own);
    narrow_lists += array_bytes(list->narrow);
  }
  const RowCounts rows{q_.own.held, kv_.own.held};
  const Index panels = statistics_panels(narrow_, q_.narrow.held);
  const Index narrow_sums = array_bytes(sums_.narrow), received = array_bytes(sums_.own);
  const Index own_sums = are_heads_shared() ? key_sum_bytes(whole_, rows.keys) : 0;
  return statistics_inputs(whole_, rows) +
         std::max({narrow_inputs + narrow_work, panels + narrow_lists + narrow_sums + lists,
                   panels + narrow_lists + lists + received + std::max(narrow_sums, own_sums)});
}

Index HeadGroup::backward_memory(Index narrow_work) const {
  if (whole_.sums == Sums::received) return statistics_memory(narrow_work);
  const RowCounts rows{q_.own.held, kv_.own.held};
  const Index dq = array_bytes(q_.own), delta = array_bytes(delta_.narrow);
  const Index narrow_inputs =
      array_bytes(q_.narrow) + array_bytes(out_.narrow) + array_bytes(kv_.narrow) + array_bytes(normalizers_.narrow);
  const Index narrow_sums = array_bytes(sums_.narrow), received = array_bytes(sums_.own);
  const Index own_sums = are_heads_shared() ? key_sum_bytes(whole_, rows.keys) : 0;
  const bool in_place =
      core::bytes_of(whole_.type) <= core::bytes_of(whole_.precision) && !whole_.shape.has_value_dim();
  const Index dkv = in_place ? whole_.kv_row_bytes() : array_bytes(kv_.own);  // in place: a buffer for one row
  const Index narrow_dq = std::max(
      array_bytes(q_.narrow), q_.narrow.parts * q_.narrow.held * narrow_.shape.heads * narrow_.head_query_sum_bytes());
  const Index panels = backward_panels(narrow_, q_.narrow.held);
  const Index sums = own_sums > 0 ? own_sums : received;
  return backward_inputs(whole_, rows) +
         std::max({narrow_inputs + delta + array_bytes(delta_.own), narrow_inputs + narrow_work,
                   array_bytes(delta_.own) + sink_sum_bytes(whole_),
                   panels + narrow_sums + dq + std::max(narrow_dq, received),
                   panels + dq + std::max(received + own_sums, sums + dkv)});
}

Tensors HeadGroup::take_backward_heads(const comm::Communicator& group, const Tensors& own) const {
  Tensors narrow = take_statistics_heads(group, own);
  narrow.delta = core::Buffer("delta", array_bytes(delta_.narrow));
  narrow.dout = core::Buffer("dout", array_bytes(out_.narrow));
  comm::alltoall_pieces(group, at(out_.own, own.dout), out_.heads_of, at(out_.narrow, narrow.dout), out_.rows_of);
  comm::alltoall_pieces(group, at(delta_.own, own.delta), delta_.heads_of, at(delta_.narrow, narrow.delta),
                        delta_.rows_of);
  return narrow;
}

Tensors HeadGroup::take_statistics_heads(const comm::Communicator& group, const Tensors& own) const {
  Tensors narrow = take_heads(group, own);
  narrow.normalizers = core::Buffer("normalizers", array_bytes(normalizers_.narrow));
  comm::alltoall_pieces(group, at(normalizers_.own, own.normalizers), normalizers_.heads_of,
                        at(normalizers_.narrow, narrow.normalizers), normalizers_.rows_of);
  return narrow;
}

void HeadGroup::return_lists(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const {
  if (whole_.statistics.top_keys == 0) return;
  own.top_rows = core::Buffer("top rows", array_bytes(top_rows_.own));
  own.top_weights = core::Buffer("top weights", array_bytes(top_weights_.own));
  comm::alltoall_pieces(group, at(top_rows_.narrow, narrow.top_rows), top_rows_.rows_of,
                        at(top_rows_.own, own.top_rows), top_rows_.heads_of);
  comm::alltoall_pieces(group, at(top_weights_.narrow, narrow.top_weights), top_weights_.rows_of,
                        at(top_weights_.own, own.top_weights), top_weights_.heads_of);
}

void HeadGroup::return_query_gradients(const comm::Communicator& group, const Tensors& narrow, Tensors& own) const {
  own.dq = core::Buffer("dq", array_bytes(q_.own));
  comm::alltoall_pieces(group, at(q_.narrow, narrow.dq), q_.rows_of, at(q_.own, own.dq), q_.heads_of);
}

core::Buffer HeadGroup::return_key_sums(const comm::Communicator& group, core::Buffer narrow) const {
  const core::Buffer received("dkv", array_bytes(sums_.own));
  comm::alltoall_pieces(group, at(sums_.narrow, narrow), sums_.rows_of, at(sums_.own, received), sums_.heads_of);
  narrow = {};
  if (!are_heads_shared()) return received;
  const Index rows = kv_.own.held, unit = whole_.head_row_sum_bytes(), heads = whole_.shape.kv_heads;
  const Index sum_heads = sums_.own.row_bytes / unit;
  const core::Buffer sums("dkv", key_sum_bytes(whole_, rows));
  core::fill_zero(sums.data(), sums.bytes());
  std::vector<kernels::RowCopy> copies;
  Index column = 0;
  for (const core::Interval& read : kv_heads_) {
    for (Index kv = read.begin; kv < read.end; ++kv) copies.push_back({kv, heads, rows, column++, sum_heads});
  }
  kernels::add_rows(copies, {received.data(), sums_.own.parts, rows * sum_heads, unit},
                    {sums.data(), sums_.own.parts, rows * heads, unit}, whole_.sum_precision());
  return sums;
}

}  // namespace annulus::strategies
