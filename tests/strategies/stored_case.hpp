// A problem with its numbers as they are stored, and the bytes that any strategy computes from them on any ranks.
#pragma once

#include <vector>

#include "annulus/kernels/sink.hpp"
#include "annulus/strategies/strategy.hpp"
#include "forward_case.hpp"

namespace annulus::strategies {

using pattern::Partition;

/// Results for some rows, as stored bytes: dkv is (2, B, rows, K/V heads x bytes), all others are (B, rows, heads x
/// bytes). dsink (H) is that of all rows.
struct Bits {
  std::vector<std::byte> out, lse, entropy, dq, dkv, received, top_rows, top_weights;
  std::vector<double> dsink = {};
  bool operator==(const Bits&) const = default;
};

inline std::vector<std::byte> bytes_of(const core::Buffer& buffer) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(buffer.bytes()));
  core::copy_to_host(bytes.data(), buffer.data(), buffer.bytes());
  return bytes;
}

/// Takes the given rows of an array (parts, S, width).
inline std::vector<std::byte> rows_of(const std::vector<std::byte>& whole, Index parts, Index sequence,
                                      const pattern::StoredRows& rows) {
  const Index width = Index(whole.size()) / (parts * sequence);
  std::vector<std::byte> taken;
  if (whole.empty()) return taken;
  for (Index part = 0; part < parts; ++part) {
    for (const core::Interval& interval : rows.intervals()) {
      const auto first = whole.begin() + (part * sequence + interval.begin) * width;
      taken.insert(taken.end(), first, first + interval.size() * width);
    }
  }
  return taken;
}

/// A case with its numbers as stored: q is (B, S, H, D), dout (B, S, H, Dv); kv is K and V, laid out as Tensors::kv.
struct Stored {
  explicit Stored(const Case& one) : problem(one.problem) {
    const AttentionCase numbers = one.numbers();
    q = test::to_storage(numbers.q(), problem.type);
    kv = kv_of(problem, test::to_storage(numbers.k(), problem.type), test::to_storage(numbers.v(), problem.type));
    dout = test::to_storage(numbers.dout(), problem.type);
    sink = numbers.pattern.sink;
  }

  Bits compute(const Strategy& strategy, const Partition& partition, const comm::Communicator& comm,
               bool gradients) const {
    Problem problem = this->problem;
    problem.gradients = gradients;
    // There are no statistics with granules.
    if (problem.granule == 1) problem.statistics = {true, gradients, gradients ? 3 : 0};
    const core::Shape& s = problem.shape;
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    Tensors tensors;
    tensors.q = on_device(rows_of(q, s.batch, s.sequence, rows));
    tensors.kv = on_device(rows_of(kv, problem.kv_parts(), s.sequence, rows));
    tensors.sink = sink;
    strategy.forward(problem, partition, comm, tensors, {});
    if (problem.statistics.need_pass())
      run_statistics_pass(*strategy.statistics_schedule(problem, partition), comm, tensors, {});
    if (gradients) {
      tensors.dout = on_device(rows_of(dout, s.batch, s.sequence, rows));
      strategy.backward(problem, partition, comm, tensors, {});
    }
    return {bytes_of(tensors.out),      bytes_of(tensors.lse),         bytes_of(tensors.entropy),
            bytes_of(tensors.dq),       bytes_of(tensors.dkv),         bytes_of(tensors.received),
            bytes_of(tensors.top_rows), bytes_of(tensors.top_weights), kernels::sink_gradients_of(tensors.sink_sums)};
  }
  /// The whole result, computed by this rank alone.
  Bits alone() const {
    const comm::Communicator self(MPI_COMM_SELF);
    return compute(*find("single"), pattern::root_partition(problem.shape.sequence, 1), self, true);
  }
  /// This rank's rows of `whole`.
  Bits own(const Bits& whole, const Partition& partition, const comm::Communicator& comm) const {
    const core::Shape& s = problem.shape;
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const auto own = [&](const std::vector<std::byte>& bytes) { return rows_of(bytes, s.batch, s.sequence, rows); };
    std::vector<std::byte> dkv = own(one_of_dkv(problem, whole.dkv, s.sequence, 0));
    const std::vector<std::byte> dv = own(one_of_dkv(problem, whole.dkv, s.sequence, 1));
    dkv.insert(dkv.end(), dv.begin(), dv.end());
    return {own(whole.out),      own(whole.lse),      own(whole.entropy),     own(whole.dq), dkv,
            own(whole.received), own(whole.top_rows), own(whole.top_weights), whole.dsink};
  }

  static core::Buffer on_device(const std::vector<std::byte>& bytes) {
    core::Buffer buffer("test tensor", Index(bytes.size()));
    core::copy_to_device(buffer.data(), bytes.data(), Index(bytes.size()));
    return buffer;
  }

  Problem problem;
  std::vector<std::byte> q, kv, dout;
  std::vector<double> sink;
};

}  // namespace annulus::strategies
