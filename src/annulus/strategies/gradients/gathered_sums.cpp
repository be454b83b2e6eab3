#include "annulus/strategies/gradients/gathered_sums.hpp"

#include <algorithm>

#include "annulus/comm/watchdog.hpp"
#include "annulus/strategies/keys/gathered_keys.hpp"
#include "annulus/strategies/keys/hop_keys.hpp"

namespace annulus::strategies {
namespace {

struct SumBytes {
  std::array<Index, 2> blocks{};
  Index incoming = 0;
};
SumBytes sum_bytes(const Problem& problem, const pattern::Partition& partition, int rank) {
  const int ranks = int(partition.size());
  SumBytes bytes;
  for (int d = 1; d < ranks; ++d) {
    Index& block = bytes.blocks[std::size_t(d % 2)];
    block = std::max(block, key_sum_bytes(problem, partition[std::size_t(core::wrap(rank - d, ranks))].count()));
    bytes.incoming = key_sum_bytes(problem, partition[std::size_t(rank)].count());
  }
  return bytes;
}

}  // namespace

Index GatheredSums::bytes(const Problem& problem, const pattern::Partition& partition, int rank) {
  const SumBytes bytes = sum_bytes(problem, partition, rank);
  return bytes.blocks[0] + bytes.blocks[1] + bytes.incoming;
}

GatheredSums::GatheredSums(const Setting& setting, const KeySource& keys, HopMode mode)
    : setting_(setting), keys_(keys), mode_(mode), exchange_(setting.comm) {}

void GatheredSums::begin(const Problem& round, const GradientBlock& own) {
  own_ = own;
  const SumBytes bytes = sum_bytes(round, setting_.partition, setting_.rank());
  for (std::size_t i = 0; i < 2; ++i) blocks_[i] = core::Buffer("gradient buffers", bytes.blocks[i]);
  incoming_ = core::Buffer("gradient buffers", bytes.incoming);
}

std::optional<GradientBlock> GatheredSums::open(std::size_t s, std::size_t) {
  if (s == 0) return own_;
  if (s >= setting_.partition.size()) return std::nullopt;
  const GradientBlock sums = block(s);
  core::fill_zero(sums.data, sums.bytes(setting_.problem));
  return sums;
}

void GatheredSums::exchange(std::size_t d) {
  const Problem& problem = setting_.problem;
  const Index unit = problem.shape.kv_heads * problem.head_row_sum_bytes(), own = setting_.rows().count();
  const comm::Message send{peer(-Index(d)), kv_block(problem, block(d).data, block(d).held, unit)};
  const comm::Message receive{peer(Index(d)), kv_block(problem, incoming_.data(), own, unit)};
  core::HopMetrics& hop = setting_.hop(d);
  core::timed_wait(hop, [&] { exchange_.start({send}, {receive}, hop_tag(d, 1)); });
  hop.bytes_sent += send.block.bytes();
  hop.bytes_received += receive.block.bytes();
  hop.rows_received += own;
}

void GatheredSums::start(std::size_t s) {
  if (mode_ == HopMode::overlapped && s >= 2) exchange(s - 1);
}

void GatheredSums::complete(std::size_t s) {
  if (s < 2) return;
  if (mode_ == HopMode::blocking) exchange(s - 1);
  const comm::Place here(fmt::format("gradients from rank {}", peer(Index(s) - 1)));
  core::timed_wait(setting_.hop(s - 1), [&] { exchange_.wait(); });
  const kernels::RowArray own = own_.head_rows(setting_.problem);
  kernels::add_rows({{0, 1, own.held, 0}}, {incoming_.data(), own.parts, own.held, own.row_bytes}, own,
                    setting_.problem.precision);
}

BackwardPass gathered_gradients(HopMode mode) {
  const GatherOrder order = mode == HopMode::blocking ? GatherOrder::all_first : GatherOrder::in_order;
  return {[=](const Setting& setting) { return std::make_unique<GatheredKeys>(setting, order); },
          [=](const Setting& setting, const KeySource& keys) {
            return std::make_unique<GatheredSums>(setting, keys, mode);
          },
          [](const Problem& problem, const pattern::Partition& partition, int rank) -> Prediction {
            const pattern::StoredRows& rows = partition[std::size_t(rank)];
            const Index n = problem.shape.sequence, own = rows.count(), others = Index(partition.size()) - 1;
            const Index keys = problem.kv_block_bytes(n - own);
            return {backward_work(problem, own, keys + GatheredSums::bytes(problem, partition, rank)),
                    problem.kv_block_bytes(own) * others + key_sum_bytes(problem, n - own),
                    keys + key_sum_bytes(problem, own) * others, kept_of(problem, rows)};
          }};
}

}  // namespace annulus::strategies
