#include "annulus/strategies/gradients/gradient_channel.hpp"

#include <algorithm>
#include <optional>

#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {
namespace {

using pattern::GradientHop;
using pattern::KeyRows;
using pattern::PackedRows;

/// Returns the copies between a block that stores `rows` and a message with the rows `packed`.
std::vector<kernels::RowCopy> copies_of(const Problem& problem, const KeyRows& rows, const PackedRows& packed) {
  return collect(problem, {nullptr, rows.count(), rows}, packed);
}

/// Chooses from which memory the two messages with a block's sums are sent: straight from the block if the message's
/// rows follow one another there, otherwise from a buffer into which the rows are collected first.
struct OutgoingSums {
  OutgoingSums(const Problem& problem, const PackedRows& carried, const GradientHop& gradients)
      : rows(KeyRows::packed(carried)),
        forward(copies_of(problem, rows, gradients.send_forward)),
        back(copies_of(problem, rows, gradients.send_back)),
        forward_in_place(interval_of(forward)),
        back_in_place(interval_of(back)) {
    // `back` may also have rows whose sums go forward. Then the sums that go forward are not sent in place. Instead
    // move_rows() moves them out of the block and leaves zeros, so that no sum returns twice.
    for (const kernels::RowCopy& copy : back) {
      const core::Interval leaving{copy.from, copy.from + copy.count};
      if (forward_in_place && !core::intersect(*forward_in_place, leaving).empty()) forward_in_place.reset();
    }
  }

  KeyRows rows;
  std::vector<kernels::RowCopy> forward, back;
  std::optional<core::Interval> forward_in_place, back_in_place;

 private:
  static std::optional<core::Interval> interval_of(const std::vector<kernels::RowCopy>& copies) {
    if (copies.empty()) return core::Interval{};
    core::Interval owned{copies.front().from, copies.front().from};
    for (const kernels::RowCopy& copy : copies) {
      if (copy.from != owned.end || copy.stride != 1) return std::nullopt;
      owned.end += copy.count;
    }
    return owned;
  }
};

}  // namespace

GradientBytes gradient_buffer_bytes(const Problem& problem, const pattern::Hops& hops, int rank) {
  GradientBytes bytes;
  for (int h = 0; h < hops.count(rank); ++h) {
    Index& block = bytes.blocks[std::size_t(h % 2)];
    block = std::max(block, sum_bytes(problem, hops.rows_received(rank, h)));
    const GradientHop hop = hops.gradients(rank, h);
    const OutgoingSums outgoing(problem, hops.hop(rank, h).receive, hop);
    const Index forward = outgoing.forward_in_place ? 0 : gradient_bytes(problem, hop.send_forward);
    const Index back = outgoing.back_in_place ? 0 : gradient_bytes(problem, hop.send_back);
    bytes.outgoing = std::max(bytes.outgoing, forward + back);
    bytes.incoming = std::max(bytes.incoming,
                              gradient_bytes(problem, hop.receive_forward) + gradient_bytes(problem, hop.receive_back));
  }
  return bytes;
}

GradientChannel::GradientChannel(const HopRound& keys, std::size_t channel, int rank, const GradientBlock& own)
    : keys_(keys),
      channel_(channel),
      rank_(rank),
      problem_(keys.problem()),
      hops_(keys.hops_of(channel)),
      own_rows_(KeyRows::raw(keys.rows(rank))),
      own_(own),
      bytes_(gradient_buffer_bytes(problem_, hops_, rank)) {
  for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes_.blocks[i]);
}

GradientBlock GradientChannel::block(std::size_t h, Index rows) const { return {blocks_[h % 2].data(), rows, true}; }

GradientBlock GradientChannel::open(std::size_t h) {
  const GradientBlock zeros = block(h, hops_.rows_received(rank_, int(h)));
  core::fill_zero(zeros.data, zeros.bytes(problem_));
  return zeros;
}

comm::RowBlock GradientChannel::as_message(const PackedRows& packed, void* data) const {
  return sum_block(problem_, data, pattern::head_rows(packed), problem_.head_row_sum_bytes());
}

void GradientChannel::begin(std::size_t h) {
  hop_ = hops_.gradients(rank_, int(h));
  if (outgoing_.bytes() == 0) outgoing_ = core::Buffer("gradient buffers", bytes_.outgoing);
  const PackedRows carried = hops_.hop(rank_, int(h)).receive;
  const OutgoingSums outgoing(problem_, carried, hop_);
  const kernels::RowArray sums = block(h, pattern::head_rows(carried)).head_rows(problem_);
  const auto in_place = [&](const core::Interval& rows) -> comm::RowBlock {
    return {sums.data, sums.parts, sums.held, sums.row_bytes, rows};
  };
  const auto collected = [&](const comm::RowBlock& to) -> kernels::RowArray {
    return {to.data, to.parts, to.held, to.row_bytes};
  };
  comm::RowBlock forward, back;
  if (outgoing.forward_in_place) {
    forward = in_place(*outgoing.forward_in_place);
  } else {
    forward = as_message(hop_.send_forward, outgoing_.data());
    kernels::move_rows(outgoing.forward, sums, collected(forward));
  }
  if (outgoing.back_in_place) {
    back = in_place(*outgoing.back_in_place);
  } else {
    back = as_message(hop_.send_back, outgoing_.at(outgoing.forward_in_place ? 0 : forward.bytes()));
    kernels::gather_rows(outgoing.back, sums, collected(back));
  }
  messages_out_ = {{hop_.next, forward}, {hop_.owner, back}};
}

GradientMessages GradientChannel::incoming() {
  if (incoming_.bytes() == 0) incoming_ = core::Buffer("gradient buffers", bytes_.incoming);
  return {{hop_.previous, as_message(hop_.receive_forward, incoming_.data())},
          {hop_.reader_of_own_rows,
           as_message(hop_.receive_back, incoming_.at(gradient_bytes(problem_, hop_.receive_forward)))}};
}

void GradientChannel::add(const KeyRows& rows, const GradientBlock& into, const PackedRows& packed, void* data) const {
  if (packed.empty()) return;
  const kernels::RowArray target = into.head_rows(problem_);
  kernels::add_rows(copies_of(problem_, rows, packed),
                    {data, target.parts, pattern::head_rows(packed), target.row_bytes}, target,
                    problem_.sum_precision());
}

void GradientChannel::settle(std::size_t h, core::HopMetrics& metrics) {
  for (const PackedRows* sent : {&hop_.send_forward, &hop_.send_back})
    metrics.bytes_sent += gradient_bytes(problem_, *sent);
  for (const PackedRows* received : {&hop_.receive_forward, &hop_.receive_back}) {
    metrics.bytes_received += gradient_bytes(problem_, *received);
    metrics.rows_received += pattern::head_rows(*received);
  }
  if (!hop_.receive_forward.empty()) {
    const PackedRows next = hops_.hop(rank_, int(h) + 1).receive;
    add(KeyRows::packed(next), block(h + 1, pattern::head_rows(next)), hop_.receive_forward, incoming_.data());
  }
  add(own_rows_, own_, hop_.receive_back, incoming_.at(gradient_bytes(problem_, hop_.receive_forward)));
}

}  // namespace annulus::strategies
