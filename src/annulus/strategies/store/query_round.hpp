// Reads the query rows of other blocks that see a block's keys: the mirror image of keys/read_round.hpp. In a
// reproducible problem key row y adds the queries of its own block from y on, then the queries of later blocks, then
// the queries of earlier blocks from block 0 on, and finally the queries of its own block before y
// (gradients/ordered_sums.hpp). In other problems it adds all queries of its own block first.
//
// Worked example: 12 rows in 3 blocks: key row 5 in block 1 adds the queries 5 6 7 | 8 9 10 11 | 0 1 2 3 | 4.
#pragma once

#include "annulus/strategies/keys/read_round.hpp"

namespace annulus::strategies {

/// Bytes of one query row in all tensors that gradients of keys need: q, out, dout, normalizers and, if the store has
/// gradients of the LSE (`dlse`), dlse.
Index query_row_bytes(const Problem& problem, bool dlse);

/// One round, for all blocks. Every step of a block works on the block's own keys.
class QueryRound final : public ReadRound {
 public:
  QueryRound(const Problem& round, const pattern::Partition& partition, bool dlse);

  KeyBlock form(int block, std::size_t, std::size_t) const override { return own_block({}, rows(block)); }
  /// Bytes of the buffers that reads fill, and of delta for one block of queries that was read. If a read brings more
  /// rows than the own block has, these bytes include the growth of the kernels' panels.
  std::vector<Index> buffer_bytes(int block) const override;

  /// Returns the rows that a hop brings, ascending. A row that any head needs is read with all heads. If in one
  /// interval of the owner at least a quarter of the rows from the first needed one to the last are needed, all of
  /// these are read.
  static pattern::StoredRows rows_of(const pattern::PackedRows& picked);
  bool has_dlse() const { return dlse_; }

 private:
  Index rows_read(int block, int h) const override;
  Index bytes_read(Index rows) const override { return rows * query_row_bytes(problem(), dlse_); }
  bool reads_any(int block, int h) const override;

  const bool dlse_;
};

}  // namespace annulus::strategies
