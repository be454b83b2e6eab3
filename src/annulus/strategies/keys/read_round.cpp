#include "annulus/strategies/keys/read_round.hpp"

#include <fmt/format.h>

namespace annulus::strategies {

const std::vector<int>& ReadRound::reads(int rank) const {
  if (rank_ == rank) return reads_;
  rank_ = rank;
  reads_.clear();
  for (int h = 0; h < hops_.count(rank); ++h) {
    if (reads_any(rank, h)) reads_.push_back(h);
  }
  return reads_;
}

std::string ReadRound::scope(int rank, std::size_t s) const {
  return s == 0 ? "own rows" : fmt::format("read {} of {}", s, reads(rank).size());
}

KeyBlock ReadRound::form(int rank, std::size_t s, std::size_t) const {
  if (s == 0) return own_block({}, rows(rank));
  const pattern::PackedRows packed = hops_.hop(rank, read(rank, s)).receive;
  return {nullptr, pattern::head_rows(packed), pattern::KeyRows::packed(packed)};
}

/// The block of step s + 1 is read during step s or earlier.
Transfers ReadRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  if (s < reads(rank).size()) {
    const int h = read(rank, s + 1);
    const Index rows = rows_read(rank, h);
    all.receive({hops_.receive_from(rank, h), rows, bytes_read(rows)});
  }
  return all;
}

std::vector<Index> ReadRound::buffer_bytes(int rank) const { return {total(slot_bytes(rank))}; }

void ReadKeys::begin_round(const ReadRound& round) {
  finish();
  round_ = &round;
  started_ = 0;
  context_.metrics.hops.resize(std::max(context_.metrics.hops.size(), round.hops(context_.rank())));
  const std::array<Index, slots> bytes = round.slot_bytes(context_.rank());
  for (std::size_t i = 0; i < slots; ++i) buffers_[i] = core::Buffer("prefetch buffers", bytes[i]);
}

/// Starts the next read. Its buffer is free, because the kernel is done with the block that was read into this buffer
/// `slots` reads earlier.
void ReadKeys::start_next() {
  const std::size_t i = started_++, slot = i % slots;
  core::HopMetrics& metrics = context_.hop(hop(i + 1));
  const pattern::Hop from = round_->all().hop(context_.rank(), round_->read(context_.rank(), i + 1));
  const Index rows = pattern::head_rows(from.receive);
  blocks_[slot] = {buffers_[slot].data(), rows, pattern::KeyRows::packed(from.receive)};
  start_read(slot, from, blocks_[slot], metrics);
}

void ReadKeys::start(std::size_t s) {
  while (started_ < std::min(s + ReadRound::depth, reads())) start_next();
}

void ReadKeys::complete(std::size_t s) {
  if (s >= reads()) return;
  start(s + 1);  // the kernel is done with step s, so the buffer of its block is free
  core::timed_wait(context_.hop(hop(s + 1)), [&] { end_read(s % slots); });
  current_ = blocks_[s % slots];
}

}  // namespace annulus::strategies
