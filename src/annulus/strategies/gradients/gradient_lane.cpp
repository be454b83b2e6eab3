#include "annulus/strategies/gradients/gradient_lane.hpp"

#include <algorithm>
#include <optional>

#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {
namespace {

using pattern::GradientHop;
using pattern::KeyRows;
using pattern::PackedRows;

/// Copies between a block that stores `rows` and `packed` as it travels.
std::vector<kernels::RowCopy> copies_of(const Problem& problem, const KeyRows& rows, const PackedRows& packed) {
  return collect(problem, {nullptr, rows.count(), rows}, packed);
}

/// Where the two messages with a block's sums leave from: rows of the block that follow each other leave from there,
/// all others are collected first.
struct Departure {
  Departure(const Problem& problem, const PackedRows& carried, const GradientHop& gradients)
      : rows(KeyRows::packed(carried)),
        onward(copies_of(problem, rows, gradients.onward)),
        home(copies_of(problem, rows, gradients.home)),
        onward_in_place(interval_of(onward)),
        home_in_place(interval_of(home)) {
    // What is taken out of a part that goes home must be moved, or it would come home twice.
    for (const kernels::RowCopy& copy : home) {
      const core::Interval leaving{copy.from, copy.from + copy.count};
      if (onward_in_place && !core::intersect(*onward_in_place, leaving).empty()) onward_in_place.reset();
    }
  }

  KeyRows rows;
  std::vector<kernels::RowCopy> onward, home;
  std::optional<core::Interval> onward_in_place, home_in_place;

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
    const Departure departure(problem, hops.hop(rank, h).receive, hop);
    const Index onward = departure.onward_in_place ? 0 : gradient_bytes(problem, hop.onward);
    const Index home = departure.home_in_place ? 0 : gradient_bytes(problem, hop.home);
    bytes.outgoing = std::max(bytes.outgoing, onward + home);
    bytes.incoming =
        std::max(bytes.incoming, gradient_bytes(problem, hop.arriving) + gradient_bytes(problem, hop.returned));
  }
  return bytes;
}

GradientLane::GradientLane(const HopRound& keys, std::size_t lane, int rank, const GradientBlock& own)
    : keys_(keys),
      lane_(lane),
      rank_(rank),
      problem_(keys.problem()),
      hops_(keys.hops_of(lane)),
      own_rows_(KeyRows::raw(keys.rows(rank))),
      own_(own),
      bytes_(gradient_buffer_bytes(problem_, hops_, rank)) {
  for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes_.blocks[i]);
}

GradientBlock GradientLane::block(std::size_t h, Index rows) const { return {blocks_[h % 2].data(), rows, true}; }

GradientBlock GradientLane::open(std::size_t h) {
  const GradientBlock zeros = block(h, hops_.rows_received(rank_, int(h)));
  core::fill_zero(zeros.data, zeros.bytes(problem_));
  return zeros;
}

comm::RowBlock GradientLane::as_message(const PackedRows& packed, void* data) const {
  return kv_block(problem_, data, pattern::head_rows(packed), problem_.head_row_sum_bytes());
}

void GradientLane::begin(std::size_t h) {
  hop_ = hops_.gradients(rank_, int(h));
  if (outgoing_.bytes() == 0) outgoing_ = core::Buffer("gradient buffers", bytes_.outgoing);
  const PackedRows carried = hops_.hop(rank_, int(h)).receive;
  const Departure departure(problem_, carried, hop_);
  const kernels::RowArray sums = block(h, pattern::head_rows(carried)).head_rows(problem_);
  const auto in_place = [&](const core::Interval& rows) -> comm::RowBlock {
    return {sums.data, sums.parts, sums.held, sums.row_bytes, rows};
  };
  const auto collected = [&](const comm::RowBlock& to) -> kernels::RowArray {
    return {to.data, to.parts, to.held, to.row_bytes};
  };
  comm::RowBlock onward, home;
  if (departure.onward_in_place) {
    onward = in_place(*departure.onward_in_place);
  } else {
    onward = as_message(hop_.onward, outgoing_.data());
    kernels::move_rows(departure.onward, sums, collected(onward));
  }
  if (departure.home_in_place) {
    home = in_place(*departure.home_in_place);
  } else {
    home = as_message(hop_.home, outgoing_.at(departure.onward_in_place ? 0 : onward.bytes()));
    kernels::gather_rows(departure.home, sums, collected(home));
  }
  messages_out_ = {{hop_.next, onward}, {hop_.owner, home}};
}

GradientMessages GradientLane::incoming() {
  if (incoming_.bytes() == 0) incoming_ = core::Buffer("gradient buffers", bytes_.incoming);
  return {{hop_.previous, as_message(hop_.arriving, incoming_.data())},
          {hop_.reader, as_message(hop_.returned, incoming_.at(gradient_bytes(problem_, hop_.arriving)))}};
}

void GradientLane::add(const KeyRows& rows, const GradientBlock& into, const PackedRows& packed, void* data) const {
  if (packed.empty()) return;
  const kernels::RowArray target = into.head_rows(problem_);
  kernels::add_rows(copies_of(problem_, rows, packed),
                    {data, target.parts, pattern::head_rows(packed), target.row_bytes}, target, problem_.precision);
}

void GradientLane::settle(std::size_t h, core::HopMetrics& metrics) {
  for (const PackedRows* sent : {&hop_.onward, &hop_.home}) metrics.bytes_sent += gradient_bytes(problem_, *sent);
  for (const PackedRows* received : {&hop_.arriving, &hop_.returned}) {
    metrics.bytes_received += gradient_bytes(problem_, *received);
    metrics.rows_received += pattern::head_rows(*received);
  }
  if (!hop_.arriving.empty()) {
    const PackedRows next = hops_.hop(rank_, int(h) + 1).receive;
    add(KeyRows::packed(next), block(h + 1, pattern::head_rows(next)), hop_.arriving, incoming_.data());
  }
  add(own_rows_, own_, hop_.returned, incoming_.at(gradient_bytes(problem_, hop_.arriving)));
}

}  // namespace annulus::strategies
