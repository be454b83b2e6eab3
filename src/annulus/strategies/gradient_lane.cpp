#include "annulus/strategies/gradient_lane.hpp"

#include <algorithm>

#include "annulus/strategies/cargo.hpp"

namespace annulus::strategies {
namespace {

using pattern::Cargo;
using pattern::GradientHop;
using pattern::KeyRows;

/// Cargo that is all of a block leaves from where it was summed; the rest is collected first.
bool leaves_whole(const Cargo& cargo, const pattern::Hop& hop) { return cargo == hop.receive; }

Index collected_bytes(const Problem& problem, const Cargo& cargo, const pattern::Hop& hop) {
  return leaves_whole(cargo, hop) ? 0 : gradient_bytes(problem, cargo);
}

/// Copies between a block that stores `rows` and `cargo` as it travels.
std::vector<kernels::RowCopy> copies_of(const Problem& problem, const KeyRows& rows, const Cargo& cargo) {
  return collect(problem, {nullptr, rows.count(), rows}, cargo);
}

}  // namespace

GradientBytes gradient_buffer_bytes(const Problem& problem, const pattern::Hops& hops,
                                    const pattern::GradientHops& gradients) {
  GradientBytes bytes;
  for (std::size_t h = 0; h < hops.size(); ++h) {
    const GradientHop& hop = gradients[h];
    bytes.blocks[h % 2] = std::max(bytes.blocks[h % 2], gradient_bytes(problem, hops[h].receive));
    bytes.outgoing = std::max(
        bytes.outgoing, collected_bytes(problem, hop.onward, hops[h]) + collected_bytes(problem, hop.home, hops[h]));
    bytes.incoming =
        std::max(bytes.incoming, gradient_bytes(problem, hop.arriving) + gradient_bytes(problem, hop.returned));
  }
  return bytes;
}

GradientLane::GradientLane(const Problem& problem, const pattern::Hops& hops, const pattern::GradientHops& gradients,
                           const pattern::StoredRows& rows, const GradientBlock& own)
    : problem_(problem), hops_(hops), gradients_(gradients), own_rows_(KeyRows::raw(rows)), own_(own) {
  const GradientBytes bytes = gradient_buffer_bytes(problem, hops, gradients);
  for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes.blocks[i]);
  outgoing_ = core::Buffer("gradient buffers", bytes.outgoing);
  incoming_ = core::Buffer("gradient buffers", bytes.incoming);
}

GradientBlock GradientLane::block(std::size_t h) const {
  return {blocks_[h % 2].data(), pattern::head_rows(hops_[h].receive), true};
}

GradientBlock GradientLane::begin(std::size_t h) {
  const GradientBlock zeros = block(h);
  core::fill_zero(zeros.data, zeros.bytes(problem_));
  return zeros;
}

comm::RowBlock GradientLane::as_message(const Cargo& cargo, void* data) const {
  return kv_block(problem_, data, pattern::head_rows(cargo), problem_.head_row_sum_bytes());
}

GradientMessages GradientLane::outgoing(std::size_t h) {
  const GradientHop& hop = gradients_[h];
  const kernels::RowArray sums = block(h).head_rows(problem_);
  const KeyRows rows = KeyRows::packed(hops_[h].receive);
  const auto collected = [&](const Cargo& cargo, void* to) -> kernels::RowArray {
    return {to, sums.parts, pattern::head_rows(cargo), sums.row_bytes};
  };
  void* onward = sums.data;
  void* home = sums.data;
  Index used = 0;
  if (!leaves_whole(hop.onward, hops_[h])) {
    onward = outgoing_.at(used);
    used += gradient_bytes(problem_, hop.onward);
    // Moved, not copied: what stays behind goes home and must not come home twice.
    kernels::move_rows(copies_of(problem_, rows, hop.onward), sums, collected(hop.onward, onward));
  }
  if (!leaves_whole(hop.home, hops_[h])) {
    home = outgoing_.at(used);
    kernels::gather_rows(copies_of(problem_, rows, hop.home), sums, collected(hop.home, home));
  }
  return {{hop.next, as_message(hop.onward, onward)}, {hop.owner, as_message(hop.home, home)}};
}

GradientMessages GradientLane::incoming(std::size_t h) {
  const GradientHop& hop = gradients_[h];
  return {{hop.previous, as_message(hop.arriving, incoming_.data())},
          {hop.reader, as_message(hop.returned, incoming_.at(gradient_bytes(problem_, hop.arriving)))}};
}

void GradientLane::add(const KeyRows& rows, const GradientBlock& into, const Cargo& cargo, void* data) const {
  if (cargo.empty()) return;
  const kernels::RowArray target = into.head_rows(problem_);
  kernels::add_rows(copies_of(problem_, rows, cargo), {data, target.parts, pattern::head_rows(cargo), target.row_bytes},
                    target, problem_.precision);
}

void GradientLane::settle(std::size_t h) {
  const GradientHop& hop = gradients_[h];
  if (!hop.arriving.empty()) add(KeyRows::packed(hops_[h + 1].receive), block(h + 1), hop.arriving, incoming_.data());
  add(own_rows_, own_, hop.returned, incoming_.at(gradient_bytes(problem_, hop.arriving)));
}

}  // namespace annulus::strategies
