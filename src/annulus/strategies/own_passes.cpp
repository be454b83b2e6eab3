// Passes of a rank that has all keys it needs.
#include "annulus/strategies/gradients/gradient_sink.hpp"
#include "annulus/strategies/keys/own_keys.hpp"

namespace annulus::strategies {

ForwardPass own_rows() {
  return {[](const Setting& setting) { return std::make_unique<OwnKeys>(setting); },
          [](const Problem& problem, const pattern::Partition& partition, int rank) -> Prediction {
            const pattern::StoredRows& rows = partition[std::size_t(rank)];
            return {compute_all_memory(problem, rows.count(), 0), 0, 0, kept_of(problem, rows)};
          },
          query_blocks};
}

BackwardPass own_gradients() {
  return {own_rows().keys, [](const Setting&, const KeySource&) { return std::make_unique<OwnSums>(); },
          [](const Problem& problem, const pattern::Partition& partition, int rank) -> Prediction {
            const pattern::StoredRows& rows = partition[std::size_t(rank)];
            return {backward_work(problem, rows.count(), 0), 0, 0, kept_of(problem, rows)};
          }};
}

}  // namespace annulus::strategies
