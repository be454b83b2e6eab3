// The tensors that `verify` reads: rows of the input and of the result, as float64; and how far these lie from what was
// expected.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/random.hpp"
#include "annulus/kernels/reference.hpp"
#include "annulus/store/input_file.hpp"
#include "annulus/strategies/problem.hpp"

namespace annulus::verify {

using core::Index;
using core::Interval;

/// Bytes of one tensor's rows, as doubles, that a rank holds at a time.
inline constexpr Index verify_chunk_bytes = Index(16) << 20;
/// Bytes in a file that are read sooner than left out: to open it takes as long as to read a megabyte.
inline constexpr Index verify_gap_bytes = Index(1) << 20;

using Numbers = std::vector<double>;

/// Called now and then with the share of some work that is done; may be empty.
using ShareShown = std::function<void(double share)>;

/// Largest error and largest reference of one dataset, and where that error is.
struct Deviation {
  double error = 0;
  double reference = 0;
  std::string where;

  /// `index` gives the number's index as text, "[0, 7, 2, 5]"; a callable, because it is rarely needed. `terms` is the
  /// size of what was summed up to the number: where large terms cancel, their rounding is no error of the sum.
  template <class IndexText>
  void compare(double found, double expected, IndexText&& index, double terms = 0) {
    const bool same = found == expected;  // -inf against -inf, too
    const double difference = same ? 0 : std::abs(found - expected);
    if (std::isfinite(expected)) reference = std::max({reference, std::abs(expected), terms});
    if (difference <= error) return;
    // NaN compares as larger than everything.
    error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
    where = index();
  }
  double relative() const { return error / std::max(1.0, reference); }

  /// The largest deviation over all ranks; collective.
  Deviation merged(const comm::Communicator& comm) const {
    Deviation all{comm.max(error), comm.max(reference), ""};
    for (const std::string& index : comm.gather_all(error == all.error ? where : std::string())) {
      if (all.where.empty()) all.where = index;
    }
    return all;
  }
};

/// Where q, k, v and the gradients come from.
class VerifyInput {
 public:
  VerifyInput(const strategies::Problem& problem, core::AxisOrder order);
  virtual ~VerifyInput() = default;

  /// (B, rows, heads, D), heads = kv_heads for k and v; dlse is (B, rows, H). Zeros of dout and dlse where there is
  /// none. On this rank alone.
  virtual Numbers rows(core::TensorId tensor, Interval rows) const = 0;

  /// "[1, 5, 0, 3]": where a number of row x and head h stands in the file.
  std::string index_text(Index b, Index x, Index h, Index d) const;
  std::string index_text(Index b, Index x, Index h) const;

  /// Row of the sequence of a query, by its number in q: 0 stands for those without row numbers, which see every key.
  Index row_of(Index query) const { return has_query_rows ? first_query + query : 0; }

  core::Shape shape;
  Index queries = 0;           ///< rows of q
  Index first_query = 0;       ///< row of the sequence of the first of them
  bool has_query_rows = true;  ///< false: queries have no row numbers
  Index entry_rows = 0;        ///< S where `shape` is that of batch entries end to end, of B S rows; else 0
  core::DType type;
  core::Precision precision;
  core::AxisOrder order;              ///< of tensors in files, input and result
  kernels::ReferencePattern pattern;  ///< the definition in its own words: it shares nothing with what it judges
};

/// From a file or a seed.
class AttentionInput : public VerifyInput {
 public:
  /// `file` has been looked at with settings.file; none where the tensors are generated. Sink logits are the file's.
  AttentionInput(const strategies::Problem& problem, const runfile::InputSettings& settings,
                 const std::optional<store::TensorFile>& file);

  Numbers rows(core::TensorId tensor, Interval rows) const override;

 private:
  runfile::InputSettings settings_;
  bool gradients_;  ///< there is a dout
  std::optional<store::InspectedFile> file_;
};

/// Rows of a dataset of a result, (B, rows, heads, ...): read from a file, or gathered from where they were made. On
/// this rank alone.
using ResultRows = std::function<Numbers(const std::string& dataset, Interval rows)>;
ResultRows rows_in(const store::InspectedFile& file);

/// A tensor row after row: many heads and entries of one row are asked for before the next.
class RowReader {
 public:
  /// `read` gives (B, 1, heads, ...) of a row.
  explicit RowReader(std::function<Numbers(Interval row)> read) : read_(std::move(read)) {}
  RowReader(const ResultRows& result, const std::string& dataset);
  RowReader(const VerifyInput& input, core::TensorId tensor);

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

/// Numbers as they are stored, as doubles.
Numbers to_double(const std::vector<std::byte>& bytes, store::NumberType type);

/// Rows of a dataset of a file that was looked at, (B, rows, heads, ...). On this rank alone.
Numbers read_as_double(const store::InspectedFile& file, const std::string& dataset, Interval rows);

/// Rows that somebody looks at: a query's keys, or a key's queries.
using WantedRows = std::vector<kernels::RowRun>;

/// Those of them inside `rows`, ascending, each once.
std::vector<Index> rows_in(const WantedRows& wanted, Interval rows);

/// How rows are read: `rows` at most at a time, and rows that are not wanted are read, too, where fewer than `gap` of
/// them lie between others: to read on is quicker than to begin anew.
struct ReadSteps {
  Index rows = 1;
  Index gap = 1;
};
/// How many rows of a tensor are read at once: as many as fit verify_chunk_bytes as doubles.
ReadSteps read_steps(const VerifyInput& input, Index row_numbers);

/// Calls visit(rows) for stretches of 0 ... sequence that hold all rows that are wanted, in ascending order; now and
/// then `shown` with the share of the sequence.
void for_each_stretch(const std::vector<WantedRows>& wanted, Index sequence, const ReadSteps& steps,
                      const std::function<void(Interval)>& visit, const ShareShown& shown = {});

}  // namespace annulus::verify
