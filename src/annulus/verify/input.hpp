// Reads rows of tensors of the input and of the result as float64, for `verify`. Measures how much a result deviates.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/kernels/reference.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::verify {

using core::Index;
using core::Interval;

/// A loop over a whole tensor reads at most this many bytes of rows at once, counted as doubles; see read_steps().
inline constexpr Index verify_chunk_bytes = Index(16) << 20;
/// Gaps of fewer bytes in a file are read, not skipped, because another read opens the file again, which takes as long
/// as reading 1 MiB.
inline constexpr Index verify_gap_bytes = Index(1) << 20;

using Numbers = std::vector<double>;

/// A function that is called from time to time with the share of work that is done; may be empty.
using ShareShown = std::function<void(double share)>;

/// The largest error of one dataset and its index (`where`), and the largest expected number (`reference`).
struct Deviation {
  double error = 0;
  double reference = 0;
  double scores = 0;  ///< largest score_size() of the query rows from which the numbers were computed
  std::string where;

  /// `index` returns the number's index as text, "[0, 7, 2, 5]"; it is a function because the text is rarely needed.
  /// `terms`: the size of the terms of a sum. `reference` includes this size, because large terms may cancel.
  template <class IndexText>
  void compare(double found, double expected, IndexText&& index, double terms = 0) {
    const bool same = found == expected;  // also true for two -inf
    const double difference = same ? 0 : std::abs(found - expected);
    if (std::isfinite(expected)) reference = std::max({reference, std::abs(expected), terms});
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (difference <= error || error == infinity) return;    // of several NaN the first is named
    error = std::isnan(difference) ? infinity : difference;  // NaN counts as an infinite error
    where = index();
  }
  double relative() const { return error / std::max(1.0, reference); }

  /// The largest error and the largest `reference` of all ranks. Collective.
  Deviation merged(const comm::Communicator& comm) const {
    Deviation all{comm.max(error), comm.max(reference), comm.max(scores), ""};
    for (const std::string& index : comm.gather_all(error == all.error ? where : std::string())) {
      if (all.where.empty()) all.where = index;
    }
    return all;
  }
};

/// The attention that `verify` recomputes: its pattern, and its rows of q, k, v and of gradients.
class VerifyInput {
 public:
  VerifyInput(const strategies::Problem& problem, core::AxisOrder order);
  virtual ~VerifyInput() = default;

  /// Rows of q or k (B, rows, heads, D), of v or dout (B, rows, heads, Dv), or of dlse (B, rows, H); k and v have
  /// kv_heads heads. Zeros if there is no dout or dlse. Local.
  virtual Numbers rows(core::StoredTensor tensor, Interval rows) const = 0;

  /// The index in the file of number d of batch entry b, row x, head h: "[1, 5, 0, 3]". `of_key`: x is a row of k, not
  /// of q.
  std::string index_text(Index b, Index x, Index h, std::optional<Index> d = {}, bool of_key = false) const;

  /// Returns the row of the sequence that is query number `query`. A query without a row number sees every key of its
  /// batch entry. For such a query, returns one row of its entry that exists, if there is one.
  Index row_of(Index query) const {
    if (!entry_begins.empty()) return entry_begins[std::size_t(query / entry_queries)];
    return has_query_rows ? first_query + query : 0;
  }
  /// Returns the queries that may see key p. Call this function only if queries have no row numbers.
  Interval viewers_of(Index p) const {
    if (entry_begins.empty()) return {0, queries};
    return {p / entry_rows * entry_queries, (p / entry_rows + 1) * entry_queries};
  }

  core::Shape shape;
  Index queries = 0;           ///< rows of q; if batch entries lie end to end, of all entries
  Index first_query = 0;       ///< the row of the sequence that is row 0 of q
  bool has_query_rows = true;  ///< false: queries have no row numbers, and see every key of their batch entry
  Index entry_rows = 0;        ///< S if `shape` is one sequence of B S rows (all batch entries end to end); otherwise 0
  Index entry_queries = 0;     ///< Sq if `queries` counts the rows of all batch entries; otherwise 0
  /// If input.lengths applies only to k and v: for each entry its first row of k that exists (if none exists, its row
  /// 0), counted over all entries. Otherwise empty.
  std::vector<Index> entry_begins = {};
  core::DType type;
  core::Precision precision;
  core::AxisOrder order;              ///< order of axes in the files of input and result
  kernels::ReferencePattern pattern;  ///< for the functions of kernels/reference.hpp
};

/// Reads the tensors of attention from a file, or makes them from a seed.
class AttentionInput : public VerifyInput {
 public:
  /// `file`: the checked settings.file; empty if tensors are generated. Sink logits come from the file.
  AttentionInput(const strategies::Problem& problem, const runfile::InputSettings& settings,
                 const std::optional<store::InputFile>& file);

  Numbers rows(core::StoredTensor tensor, Interval rows) const override;

 private:
  strategies::Problem problem_;
  runfile::InputSettings settings_;
  std::optional<store::InspectedFile> file_;
};

/// Returns rows of a result's dataset, (B, rows, heads, ...). The rows come from a file, or were gathered before from
/// the ranks that made them. Local.
using ResultRows = std::function<Numbers(const std::string& dataset, Interval rows)>;
/// Returns a function that reads such rows from `file`. `sequence`: S, used if entries lie end to end.
ResultRows rows_in(const store::InspectedFile& file, Index sequence);

/// Reads a tensor row by row, and keeps the last row, because callers ask for all heads and batch entries of a row one
/// after another.
class RowReader {
 public:
  /// `read` returns (B, 1, heads, ...) for a row.
  explicit RowReader(std::function<Numbers(Interval row)> read) : read_(std::move(read)) {}
  RowReader(const ResultRows& result, const std::string& dataset);
  RowReader(const VerifyInput& input, core::StoredTensor tensor);

  const Numbers& row(Index x) {
    if (x != at_) numbers_ = read_({x, x + 1});
    at_ = x;
    return numbers_;
  }

 private:
  std::function<Numbers(Interval row)> read_;
  Index at_ = -1;
  Numbers numbers_;
};

/// Converts numbers of a storage type to doubles.
Numbers to_double(const std::vector<std::byte>& bytes, store::NumberType type);

/// Reads rows (B, rows, heads, ...) of a dataset in a file that was checked. Local.
Numbers read_as_double(const store::InspectedFile& file, const std::string& dataset, Interval rows);

/// The rows that a computation needs: the keys of a query, or the queries of a key.
using WantedRows = std::vector<kernels::RowRun>;

/// The needed rows that are inside `rows`, ascending, each once.
std::vector<Index> rows_in(const WantedRows& wanted, Interval rows);

/// How rows are read: at most `rows` at once. If fewer than `gap` unneeded rows lie between two needed rows, the
/// unneeded rows are read, too, because another read would take longer.
struct ReadSteps {
  Index rows = 1;
  Index gap = 1;
};
/// Returns steps of as many rows as fit into verify_chunk_bytes. A row of one entry has `row_numbers` numbers.
ReadSteps read_steps(const VerifyInput& input, Index row_numbers);

/// Calls visit(rows) for disjoint intervals of [0, sequence) that together contain all needed rows, in ascending order.
/// Calls `shown` from time to time with the share of the sequence that is done.
void for_each_stretch(const std::vector<WantedRows>& wanted, Index sequence, const ReadSteps& steps,
                      const std::function<void(Interval)>& visit, const ShareShown& shown = {});

// The functions below choose the rows to check (rows.cpp).

/// The chosen rows, ascending: rows of q (and of out, lse, dq), and rows of k.
struct SampledRows {
  std::vector<Index> queries, keys;
};
/// Chooses `count` queries and `count` keys, or all if there are fewer. Up to half of them (at least one) are rows at
/// which something changes: ends of the sequence, of documents, of segments; borders of windows. The others are random,
/// from a fixed seed. If every row is a query, both lists are equal.
SampledRows sample_rows(const VerifyInput& input, Index count);

/// One rank's share of the rows. Ranks get small groups of rows in turn, because contiguous shares would be unequal
/// work if attention is causal: later rows see more keys.
std::vector<Index> own_share(const std::vector<Index>& rows, int rank, int ranks);

}  // namespace annulus::verify
