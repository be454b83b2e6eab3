// Query rows read out of a store, a few blocks ahead of the kernel, with all that gradients of keys take of them.
#pragma once

#include <deque>

#include "annulus/strategies/store/query_round.hpp"
#include "annulus/strategies/stored_read.hpp"

namespace annulus::strategies {

/// q, out, dout, the normalizers and, where the store has gradients of the LSE, dlse of some rows of one batch entry.
struct QueryBlock {
  pattern::StoredRows rows;
  Tensors tensors;
};

/// Bytes of a row of such a block.
Index query_block_row_bytes(const Problem& problem, bool dlse);

/// Begins to read the rows of a block into `memory`, of as many bytes as they take.
QueryBlock read_queries(const Problem& problem, const Location& location, pattern::StoredRows rows, bool dlse,
                        const core::Buffer& memory, StoredRead& read);

/// Brings the queries of a block's steps, as ReadKeys brings keys.
class QueryStream {
 public:
  QueryStream(const Problem& problem, const Location& location, bool dlse)
      : problem_(problem), location_(location), dlse_(dlse) {}

  void begin(const QueryRound& round);
  /// Asks for the queries of step s + 1 and s + 2.
  void start(std::size_t s);
  /// Returns when those of step s + 1 are here.
  void complete(std::size_t s, core::HopMetrics& metrics);
  /// Those of step s > 0, from complete(s - 1) to complete(s).
  QueryBlock& block(std::size_t s) { return blocks_[(s - 1) % slots]; }

 private:
  static constexpr std::size_t slots = QueryRound::slots;
  std::size_t reads() const { return round_->steps(location_.rank()) - 1; }

  const Problem& problem_;
  const Location location_;
  const bool dlse_;
  const QueryRound* round_ = nullptr;
  std::size_t started_ = 0;
  std::array<core::Buffer, slots> buffers_;
  std::array<QueryBlock, slots> blocks_;
  std::array<StoredRead, slots> reads_;  // gone before the buffers, and reads end before they are
};

}  // namespace annulus::strategies
