#include "annulus/strategies/keys/hop_channel.hpp"

#include "annulus/strategies/packed_rows.hpp"

namespace annulus::strategies {

HopChannel::HopChannel(const HopRound& round, std::size_t channel, int rank, void* kv)
    : round_(round),
      channel_(channel),
      rank_(rank),
      part_(round.part(rank, channel)),
      bytes_(round.buffers(rank, channel)),
      own_(round.form(rank, 0, channel)) {
  for (std::size_t i = 0; i < 2; ++i) receive_[i] = core::Buffer("hop buffers", bytes_.receive[i]);
  send_ = core::Buffer("hop buffers", bytes_.send);
  own_.data = kv;
}

const KeyBlock* HopChannel::block(std::size_t s) const {
  if (s == 0) return round_.computes_own(channel_) ? &own_ : nullptr;
  return has(s - 1) ? &current_ : nullptr;
}

/// A message that forwards exactly what the previous hop brought is sent from the receive buffer. The rows of any other
/// message are first collected in the send buffer.
void HopChannel::begin(std::size_t h) {
  hop_ = round_.hops_of(channel_).hop(part_, int(h));
  h_ = h;
  const Problem& problem = round_.problem();
  const Index rows = pattern::head_rows(hop_.send), unit = problem.head_kv_bytes();
  const bool passes_on = round_.hops_of(channel_).passes_on(part_, int(h));
  outgoing_ = {round_.rank_of(hop_.send_to), kv_block(problem, passes_on ? current_.data : send_.data(), rows, unit)};
  if (passes_on || rows == 0) return;
  const KeyBlock& source = hop_.send_own ? own_ : current_;
  const Index parts = problem.kv_parts();
  const Index held = source.held * source.unit_bytes(problem) / unit;  // in rows of one head
  kernels::gather_rows(collect(problem, source, hop_.send), {source.data, parts, held, unit},
                       {send_.data(), parts, rows, unit});
}

comm::Message HopChannel::incoming() const {
  const Index rows = pattern::head_rows(hop_.receive);
  return {round_.rank_of(hop_.receive_from),
          kv_block(round_.problem(), receive_[h_ % 2].data(), rows, round_.problem().head_kv_bytes())};
}

void HopChannel::take(std::size_t h, core::HopMetrics& metrics) {
  if (round_.rank_of(hop_.send_to) != rank_) metrics.bytes_sent += packed_bytes(round_.problem(), hop_.send);
  if (round_.rank_of(hop_.receive_from) != rank_) {
    metrics.bytes_received += packed_bytes(round_.problem(), hop_.receive);
    metrics.rows_received += pattern::head_rows(hop_.receive);
  }
  if (h + 1 >= bytes_.sending_hops) send_ = {};
  current_ = {receive_[h % 2].data(), pattern::head_rows(hop_.receive), pattern::KeyRows::packed(hop_.receive)};
}

}  // namespace annulus::strategies
