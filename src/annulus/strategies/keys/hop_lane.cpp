#include "annulus/strategies/keys/hop_lane.hpp"

#include <algorithm>

#include "annulus/strategies/cargo.hpp"

namespace annulus::strategies {
namespace {

using pattern::Hop;
using pattern::Hops;

/// A message that passes on exactly what the hop before brought leaves from the receive buffer; all others are
/// collected first.
bool passes_on(const Hops& hops, std::size_t h) { return !hops[h].send_own && hops[h].send == hops[h - 1].receive; }

}  // namespace

BufferBytes buffer_bytes(const Problem& problem, const Hops& hops) {
  BufferBytes bytes;
  for (std::size_t h = 0; h < hops.size(); ++h) {
    bytes.receive[h % 2] = std::max(bytes.receive[h % 2], cargo_bytes(problem, hops[h].receive));
    if (passes_on(hops, h) || hops[h].send.empty()) continue;
    bytes.send = std::max(bytes.send, cargo_bytes(problem, hops[h].send));
    bytes.sending_hops = h + 1;
  }
  return bytes;
}

void add_hops(const Problem& problem, const Hops& hops, Prediction& prediction) {
  for (const Hop& hop : hops) {
    prediction.bytes_sent += cargo_bytes(problem, hop.send);
    prediction.bytes_received += cargo_bytes(problem, hop.receive);
  }
}

Lane::Lane(const Problem& problem, const Hops& hops, const KeyBlock& own) : problem_(problem), hops_(hops), own_(own) {
  const BufferBytes bytes = buffer_bytes(problem, hops);
  for (std::size_t i = 0; i < 2; ++i) receive_[i] = core::Buffer("hop buffers", bytes.receive[i]);
  send_ = core::Buffer("hop buffers", bytes.send);
  sending_hops_ = bytes.sending_hops;
}

comm::Message Lane::outgoing(std::size_t h) const {
  const Hop& hop = hops_[h];
  const Index rows = pattern::head_rows(hop.send), unit = problem_.head_row_bytes();
  if (passes_on(hops_, h)) return {hop.send_to, kv_block(problem_, in_hand_.data, rows, unit)};
  if (rows > 0) {
    const KeyBlock& source = hop.send_own ? own_ : in_hand_;
    const Index parts = 2 * problem_.shape.batch;
    const Index held = source.held * source.unit_bytes(problem_) / unit;  // in rows of one head
    kernels::gather_rows(collect(problem_, source, hop.send), {source.data, parts, held, unit},
                         {send_.data(), parts, rows, unit});
  }
  return {hop.send_to, kv_block(problem_, send_.data(), rows, unit)};
}

comm::Message Lane::incoming(std::size_t h) const {
  const Index rows = pattern::head_rows(hops_[h].receive);
  return {hops_[h].receive_from, kv_block(problem_, receive_[h % 2].data(), rows, problem_.head_row_bytes())};
}

void Lane::take(std::size_t h, core::HopMetrics& metrics) {
  const pattern::Cargo& cargo = hops_[h].receive;
  metrics.bytes_sent += cargo_bytes(problem_, hops_[h].send);
  metrics.bytes_received += cargo_bytes(problem_, cargo);
  metrics.rows_received += pattern::head_rows(cargo);
  if (h + 1 >= sending_hops_) send_ = {};
  in_hand_ = {receive_[h % 2].data(), pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
}

}  // namespace annulus::strategies
