// The tensors that `verify` reads: rows of the input and of the result, as float64.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/random.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::verify {

using core::Index;
using core::Interval;

/// Bytes of one tensor's rows, as doubles, that a rank holds at a time.
inline constexpr Index verify_chunk_bytes = Index(16) << 20;

/// Where q, k, v and the gradients come from.
class VerifyInput {
 public:
  virtual ~VerifyInput() = default;

  /// (B, rows, heads, D), heads = kv_heads for k and v; dlse is (B, rows, H), zeros where there is none. On this rank
  /// alone.
  virtual std::vector<double> rows(core::TensorId tensor, Interval rows) const = 0;

  /// "[1, 5, 0, 3]": where a number of row x and head h stands in the file.
  std::string place(Index b, Index x, Index h, Index d) const;
  std::string place(Index b, Index x, Index h) const;

  core::Shape shape;
  core::DType type = core::DType::float32;
  io::AxisOrder order = io::AxisOrder::bshd;  ///< of tensors in files, input and result
  pattern::Documents documents;
};

/// From a file or a seed.
class AttentionInput : public VerifyInput {
 public:
  /// Checks the input file's shapes; collective.
  AttentionInput(const io::InputSettings& settings, bool gradients, const comm::Communicator& comm);

  std::vector<double> rows(core::TensorId tensor, Interval rows) const override;

 private:
  const std::string& name_of(core::TensorId tensor) const;

  io::InputSettings settings_;
  std::optional<io::TensorFile> file_;
};

/// Numbers as they are stored, as doubles.
std::vector<double> to_double(const std::vector<std::byte>& bytes, core::DType type);

/// Rows of a dataset of a file that was looked at, (B, rows, heads, ...). On this rank alone.
std::vector<double> read_as_double(const io::SeenFile& file, const std::string& dataset, Interval rows);

/// Calls visit(rows) for the parts of 0 ... sequence, `step` rows at most each, in which some range lies: as much of
/// them as the ranges ask for, in ascending order.
void for_each_chunk(const std::vector<Interval>& ranges, Index sequence, Index step,
                    const std::function<void(Interval)>& visit);

}  // namespace annulus::verify
