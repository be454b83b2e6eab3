#include "annulus/strategies/gradients/ordered_sums.hpp"

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/keys/gathered_plan.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {

namespace {

constexpr std::size_t ordered_kinds = 4;  // number of kinds (hop_tag()); K and V use one, each slice one

Plans with_sums(std::unique_ptr<KeyPlan> keys, std::size_t rounds, HopMode mode) {
  auto sums = std::make_unique<OrderedSumPlan>(*keys, rounds, mode);
  return {std::move(keys), std::move(sums)};
}

}  // namespace

Index ordered_slices(HopMode mode, std::size_t ranks) { return mode == HopMode::overlapped && ranks > 1 ? 2 : 1; }

OrderedSumRound::OrderedSumRound(const KeyRound& keys) : keys_(keys), layout_(keys.problem().layout()) {
  const Index slices = Index(keys.slices());
  for (Index i = 0; i < slices; ++i) routes_.emplace_back(keys, layout_, slices, i);
}

Transfers OrderedSumRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  for (std::size_t channel = 0; channel < channels(); ++channel) {
    const pattern::GradientHop hop = routes_[slice_of(channel)].route.step(keys_.part(rank, channel), int(s));
    const auto of = [&](int part, const pattern::PackedRows& packed) -> Transfer {
      if (rank_of(part) == rank) return {};
      return {rank_of(part), pattern::head_rows(packed), gradient_bytes(keys_.problem(), packed)};
    };
    all.send(of(hop.next, hop.send_forward));
    all.send(of(hop.owner, hop.send_back));
    all.receive(of(hop.previous, hop.receive_forward));
    all.receive(of(hop.reader_of_own_rows, hop.receive_back));
  }
  return all;
}

int OrderedSumRound::kind(int to_part, bool back) const {
  if (!has_parts()) return 0;
  const bool late = to_part >= keys_.ranks();
  return hop_tag(0, ordered_kinds * (late + 2 * back));
}

std::vector<Index> OrderedSumRound::buffer_bytes(int rank) const {
  Index bytes = 0;
  for (std::size_t i = 0; i < channels(); ++i) bytes += ordered_bytes(keys_.problem(), slice(rank, i)).total();
  return {bytes};
}

Room OrderedSumRound::room(const LargestMessages& largest) const {
  const auto bytes = [&](std::size_t channel, Index rows) {
    const Index held = most_rows(routes_[slice_of(channel)].rows) * keys_.problem().shape.kv_heads;
    return sum_bytes(keys_.problem(), std::min(rows, held));
  };
  Room room;
  for (std::size_t i = 0; keys_.ranks() > 1 && i < channels(); ++i) {
    room.buffers += OrderedBytes::at_most(bytes(i, largest.rows), bytes(i, largest.sums)).total();
  }
  return room;
}

std::unique_ptr<GradientSink> OrderedSumPlan::sink(const PassContext& context) const {
  return std::make_unique<OrderedSums>(context, *this);
}

void OrderedSums::begin(std::size_t round, const GradientBlock& own) {
  own_ = own;
  round_ = &plan_.round(round);
  for (std::size_t channel = 0; channel < round_->channels(); ++channel) {
    slices_.push_back(round_->slice(context_.rank(), channel));
    sums_.emplace_back(context_.problem, slices_.back(), own);
    exchanges_.emplace_back(context_.comm(), round_->has_parts() ? comm::Carrier::mpi : comm::Carrier::any);
  }
}

std::optional<GradientBlock> OrderedSums::open(std::size_t s, std::size_t channel) {
  if (s == 0) return own_;
  arrive(channel, s - 1);
  // Sums of rows that this rank does not read are only forwarded.
  if (slices_[channel].keys(s).held == 0 || sums_[channel].hop(s - 1).receive_forward.empty()) return std::nullopt;
  return sums_[channel].begin(s);
}

/// Sends the sums that this rank forwards or returns after step s, and starts to receive sums for the next step.
void OrderedSums::leave(std::size_t s, std::size_t channel) {
  SliceSums& sums = sums_[channel];
  if (s > 0) end_sends(channel, s - 1);  // because these sends read the buffer that sums.leave() fills
  sums.leave(s);
  core::HopMetrics& hop = context_.hop(s + 1);
  std::vector<comm::Message> sends, receives;
  core::timed_wait(hop, "post", [&] {
    sends = sums.outgoing(s);
    receives = sums.incoming(s);
    // Turns messages between parts into messages between ranks. Message 0 goes forward, message 1 goes back.
    for (std::size_t i = 0; i < 2; ++i) {
      sends[i].kind = round_->kind(sends[i].peer, i == 1);
      receives[i].kind = round_->kind(slices_[channel].part(), i == 1);
      for (comm::Message* const message : {&sends[i], &receives[i]}) message->peer = round_->rank_of(message->peer);
    }
    exchanges_[channel].start(sends, receives, hop_tag(s, round_->slice_of(channel) + 1));
    if (plan_.mode() == HopMode::blocking) exchanges_[channel].wait();
  });
  const pattern::GradientHop& travel = sums.hop(s);
  for (std::size_t i = 0; i < 2; ++i) {
    if (sends[i].peer != context_.rank()) hop.bytes_sent += sends[i].block.bytes();
    if (receives[i].peer == context_.rank()) continue;
    hop.bytes_received += receives[i].block.bytes();
    hop.rows_received += pattern::head_rows(i == 0 ? travel.receive_forward : travel.receive_back);
  }
}

void OrderedSums::arrive(std::size_t channel, std::size_t s) {
  const comm::Scope doing(fmt::format("sums of step {}", s));
  core::timed_wait(context_.hop(s + 1), [&] { exchanges_[channel].wait_received(); });
  sums_[channel].settle(s);
}

void OrderedSums::end_sends(std::size_t channel, std::size_t s) {
  const comm::Scope doing(fmt::format("sums of step {}", s));
  core::timed_wait(context_.hop(s + 1), [&] { exchanges_[channel].wait(); });
}

void OrderedSums::settle(std::size_t channel) {
  const std::size_t last = slices_[channel].steps() - 1;
  arrive(channel, last);
  end_sends(channel, last);
}

void OrderedSums::progress() {
  for (comm::Exchange& exchange : exchanges_) exchange.progress();
}

void OrderedSums::finish() {
  exchanges_.clear();
  sums_.clear();
  slices_.clear();
}

MakePlans hops_in_order(HopMode mode, const Direction& direction) {
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    const Index slices = ordered_slices(mode, partition.size());
    return with_sums(std::make_unique<HopPlan>(rounds, partition, mode, direction, slices), rounds.size(), mode);
  };
}

MakePlans gathered_in_order() {
  return [](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    return with_sums(std::make_unique<GatheredPlan>(rounds, partition, GatherOrder::all_first), rounds.size(),
                     HopMode::blocking);
  };
}

}  // namespace annulus::strategies
