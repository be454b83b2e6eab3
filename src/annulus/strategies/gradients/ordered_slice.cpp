#include "annulus/strategies/gradients/ordered_slice.hpp"

#include <algorithm>

#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {
namespace {

using kernels::RowCopy;
using pattern::GradientHop;
using pattern::KeyRows;
using pattern::OwnerInterval;
using pattern::PackedRows;

/// Returns the copies of `packed` rows from a block with the rows `from` to a block with the rows `to`, in rows of one
/// head.
std::vector<RowCopy> between(const Problem& problem, const KeyRows& from, const KeyRows& to, const PackedRows& packed) {
  std::vector<RowCopy> copies = collect(problem, {nullptr, 0, from}, packed);
  const std::vector<RowCopy> targets = collect(problem, {nullptr, 0, to}, packed);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    copies[i].to = targets[i].from;
    copies[i].to_stride = targets[i].stride;
  }
  return copies;
}

/// Returns the rows of `packed` that are also in `rows`. For the other rows of `packed`, this rank only forwards sums.
PackedRows held_parts(PackedRows packed, const KeyRows& rows) {
  for (OwnerInterval& owned : packed) {
    const auto& all = rows.owned();
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.rows == owned.rows; });
    for (std::size_t kv = 0; kv < owned.heads.size(); ++kv) {
      std::vector<pattern::StridedRange> held;
      for (const pattern::StridedRange& part : owned.heads[kv]) {
        if (same == all.end()) break;
        for (const KeyRows::StoredRange& stored : same->heads[rows.is_packed() ? kv : 0]) {
          const pattern::StridedRange both = pattern::common(part, stored.range);
          if (both.count > 0) held.push_back(both);
        }
      }
      owned.heads[kv] = std::move(held);
    }
  }
  std::erase_if(packed, [](const OwnerInterval& owned) { return pattern::head_rows({owned}) == 0; });
  return packed;
}

/// Says how to copy the sums of step s > 0 from the form in which they travel into the form of the K/V block of step s.
struct Unpacking {
  Unpacking(const Problem& problem, const OrderedSlice& slice, std::size_t s)
      : travelling(slice.travel(s - 1).receive_forward) {
    const KeyBlock keys = slice.keys(s);
    const KeyRows arrived = KeyRows::packed(travelling);
    block = {nullptr, keys.held, keys.rows.is_packed()};
    copies = between(problem, arrived, keys.rows, held_parts(travelling, keys.rows));
    const bool same_positions = std::all_of(copies.begin(), copies.end(), [](const RowCopy& copy) {
      return copy.from == copy.to && (copy.count == 1 || (copy.stride == 1 && copy.to_stride == 1));
    });
    Index copied = 0;
    for (const RowCopy& copy : copies) copied += copy.count;
    in_place = same_positions && copied == arrived.count() && copied == block.head_rows(problem).held;
  }

  /// Returns the copies in the opposite direction.
  std::vector<RowCopy> packing() const {
    std::vector<RowCopy> turned;
    for (const RowCopy& copy : copies) turned.push_back({copy.to, copy.to_stride, copy.count, copy.from, copy.stride});
    return turned;
  }

  const PackedRows travelling;
  GradientBlock block;  // without data
  std::vector<RowCopy> copies;
  bool in_place = false;  // the two forms are the same, so nothing is copied
};

}  // namespace

const GradientHop& OrderedSlice::travel(std::size_t s) const {
  Known& known = known_[s % known_.size()];
  if (known.step != s) known = {s, route_.step(part(), int(s))};
  return known.travel;
}

OrderedBytes ordered_bytes(const Problem& problem, const OrderedSlice& slice) {
  OrderedBytes bytes;
  const auto cover = [](Index& most, Index one) { most = std::max(most, one); };
  for (std::size_t s = 0; s < slice.steps(); ++s) {
    const GradientHop& hop = slice.travel(s);
    cover(bytes.incoming, gradient_bytes(problem, hop.receive_forward) + gradient_bytes(problem, hop.receive_back));
    cover(bytes.outgoing, gradient_bytes(problem, hop.send_forward) + gradient_bytes(problem, hop.send_back));
    if (s == 0 || slice.travel(s - 1).receive_forward.empty()) continue;
    const Unpacking unpacking(problem, slice, s);
    if (!unpacking.in_place) cover(bytes.block, unpacking.block.bytes(problem));
  }
  return bytes;
}

SliceSums::SliceSums(const Problem& problem, const OrderedSlice& slice, const GradientBlock& own)
    : problem_(problem), slice_(slice), own_(own), own_rows_(slice.keys(0).rows) {
  const OrderedBytes bytes = ordered_bytes(problem, slice);
  incoming_ = core::Buffer("gradient buffers", bytes.incoming);
  block_ = core::Buffer("gradient buffers", bytes.block);
  outgoing_ = core::Buffer("gradient buffers", bytes.outgoing);
}

comm::RowBlock SliceSums::as_message(const PackedRows& packed, void* data) const {
  return sum_block(problem_, data, pattern::head_rows(packed), problem_.head_row_sum_bytes());
}

kernels::RowArray SliceSums::array_of(const PackedRows& packed, void* data) const {
  return {data, problem_.sum_parts(), pattern::head_rows(packed), problem_.head_row_sum_bytes()};
}

GradientBlock SliceSums::begin(std::size_t s) {
  const Unpacking unpacking(problem_, slice_, s);
  GradientBlock sums = unpacking.block;
  sums.data = unpacking.in_place ? incoming_.data() : block_.data();
  if (!unpacking.in_place) {
    kernels::gather_rows(unpacking.copies, array_of(unpacking.travelling, incoming_.data()), sums.head_rows(problem_));
  }
  return sums;
}

void SliceSums::leave(std::size_t s) {
  KeyRows rows = own_rows_;
  kernels::RowArray source = own_.head_rows(problem_);
  if (s > 0) {
    const Unpacking unpacking(problem_, slice_, s);
    rows = KeyRows::packed(unpacking.travelling);
    source = array_of(unpacking.travelling, incoming_.data());
    GradientBlock sums = unpacking.block;
    sums.data = block_.data();
    if (!unpacking.in_place) kernels::gather_rows(unpacking.packing(), sums.head_rows(problem_), source);
  }
  const GradientHop& hop = slice_.travel(s);
  void* after = outgoing_.at(gradient_bytes(problem_, hop.send_forward));
  for (const auto& [packed, data] :
       {std::pair{&hop.send_forward, outgoing_.data()}, std::pair{&hop.send_back, after}}) {
    kernels::gather_rows(collect(problem_, {nullptr, 0, rows}, *packed), source, array_of(*packed, data));
  }
}

std::vector<comm::Message> SliceSums::outgoing(std::size_t s) const {
  const GradientHop& hop = slice_.travel(s);
  return {{hop.next, as_message(hop.send_forward, outgoing_.data())},
          {hop.owner, as_message(hop.send_back, outgoing_.at(gradient_bytes(problem_, hop.send_forward)))}};
}

std::vector<comm::Message> SliceSums::incoming(std::size_t s) const {
  const GradientHop& hop = slice_.travel(s);
  return {{hop.previous, as_message(hop.receive_forward, incoming_.data())},
          {hop.reader_of_own_rows,
           as_message(hop.receive_back, incoming_.at(gradient_bytes(problem_, hop.receive_forward)))}};
}

void SliceSums::settle(std::size_t s) {
  const PackedRows& packed = hop(s).receive_back;
  void* data = incoming_.at(gradient_bytes(problem_, hop(s).receive_forward));
  kernels::gather_rows(between(problem_, KeyRows::packed(packed), own_rows_, packed), array_of(packed, data),
                       own_.head_rows(problem_));
}

}  // namespace annulus::strategies
