#include "annulus/strategies/gradients/gathered_sums.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {
Transfers GatheredSumRound::transfers(int rank, std::size_t s) const {
  Transfers all;
  if (s < 2) return all;
  const int d = int(s) - 1, to = core::wrap(rank - d, keys_.ranks());
  const auto of = [&](int peer, Index rows) -> Transfer {
    return {peer, rows * keys_.problem().shape.kv_heads, key_sum_bytes(keys_.problem(), rows)};
  };
  all.send(of(to, keys_.rows(to).count()));
  all.receive(of(core::wrap(rank + d, keys_.ranks()), keys_.rows(rank).count()));
  return all;
}

GatheredSumRound::Bytes GatheredSumRound::bytes(int rank) const {
  Bytes bytes;
  for (int d = 1; d < keys_.ranks(); ++d) {
    Index& block = bytes.blocks[std::size_t(d % 2)];
    block = std::max(block, key_sum_bytes(keys_.problem(), keys_.rows(core::wrap(rank - d, keys_.ranks())).count()));
    bytes.incoming = key_sum_bytes(keys_.problem(), keys_.rows(rank).count());
  }
  return bytes;
}

std::vector<Index> GatheredSumRound::buffer_bytes(int rank) const { return {bytes(rank).total()}; }

Room GatheredSumPlan::room(const LargestMessages&) const {
  const KeyRound& keys = round_.keys();
  if (keys.ranks() == 1) return {};
  const Index most = key_sum_bytes(keys.problem(), most_rows(keys.partition()));
  return {GatheredSumRound::Bytes{{keys.ranks() > 2 ? most : 0, most}, most}.total()};
}

std::unique_ptr<GradientSink> GatheredSumPlan::sink(const PassContext& context) const {
  return std::make_unique<GatheredSums>(context, *this);
}

void GatheredSums::begin(std::size_t, const GradientBlock& own) {
  own_ = own;
  const GatheredSumRound::Bytes bytes = plan_.round(0).bytes(context_.rank());
  for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes.blocks[i]);
  incoming_ = core::Buffer("gradient buffers", bytes.incoming);
}

std::optional<GradientBlock> GatheredSums::open(std::size_t s, std::size_t) {
  if (s == 0) return own_;
  if (s >= context_.partition.size()) return std::nullopt;
  const GradientBlock sums = block(s);
  core::fill_zero(sums.data, sums.bytes(context_.problem));
  return sums;
}

void GatheredSums::exchange(std::size_t d) {
  const Problem& problem = context_.problem;
  const Index unit = problem.shape.kv_heads * problem.head_row_sum_bytes(), own = context_.rows().count();
  const comm::Message send{peer(-Index(d)), sum_block(problem, block(d).data, block(d).held, unit)};
  const comm::Message receive{peer(Index(d)), sum_block(problem, incoming_.data(), own, unit)};
  core::HopMetrics& hop = context_.hop(d);
  core::timed_wait(hop, "post", [&] { exchange_.start({send}, {receive}, hop_tag(d, 1)); });
  hop.bytes_sent += send.block.bytes();
  hop.bytes_received += receive.block.bytes();
  hop.rows_received += own;
}

void GatheredSums::start(std::size_t s) {
  if (plan_.mode() == HopMode::overlapped && s >= 2) exchange(s - 1);
}

void GatheredSums::complete(std::size_t s) {
  if (s < 2) return;
  if (plan_.mode() == HopMode::blocking) exchange(s - 1);
  const comm::Scope doing(fmt::format("sums from rank {}", peer(Index(s) - 1)));
  core::timed_wait(context_.hop(s - 1), [&] { exchange_.wait(); });
  const kernels::RowArray own = own_.head_rows(context_.problem);
  kernels::add_rows({{0, 1, own.held, 0}}, {incoming_.data(), own.parts, own.held, own.row_bytes}, own,
                    context_.problem.sum_precision());
}

MakePlans gathered_gradients(HopMode mode) {
  const GatherOrder order = mode == HopMode::blocking ? GatherOrder::all_first : GatherOrder::in_order;
  return [=](const std::vector<Problem>& rounds, const pattern::Partition& partition) {
    auto keys = std::make_unique<GatheredPlan>(rounds, partition, order);
    auto sums = std::make_unique<GatheredSumPlan>(*keys, mode);
    return Plans{std::move(keys), std::move(sums)};
  };
}

}  // namespace annulus::strategies
