// Memory of the forward pass. For problems of usual size, its prediction is compared with the size of the tensors; for
// small problems, it is measured and compared with its prediction.
#include "forward_case.hpp"

namespace annulus::strategies {
namespace {

using pattern::Semantics;

/// Bytes of a rank's q, k, v, out and lse.
Index tensor_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows *
         (2 * problem.query_row_bytes() + 2 * problem.kv_row_bytes() + problem.lse_row_bytes());
}

/// A causal problem of three pairs, with 8 heads of 64.
Problem usual(core::DType type, Index rows, Index kv_heads) {
  return make_case("", {1, rows, 8, kv_heads, 64},
                   {Semantics::longnet, {{2048, 1}, {8192, 4}, {pattern::whole_document, 16}}, true, false}, {}, type)
      .problem;
}

TEST(ForwardMemory, SingleTakesFivePercentBesideItsTensors) {
  using core::DType;
  for (const DType type : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    for (const Index kv_heads : {8, 4}) {
      // Sums of 16-bit tensors are made in blocks of rows; the blocks are large enough for all threads.
      const Index rows = core::bytes_of(type) < 4 ? 1 << 20 : 1 << 16;
      const Problem problem = usual(type, rows, kv_heads);
      EXPECT_LE(double(find("single")->predict(problem, pattern::root_partition(rows, 1), 0).memory_bytes),
                1.05 * double(tensor_bytes(problem, rows)))
          << name_of(type) << ", Hkv " << kv_heads;
    }
  }
}

/// Peak bytes of a call, without work lists.
template <class Call>
Index peak_of(Call&& call) {
  core::memory_ledger().reset_peak();
  call();
  return core::memory_ledger().peak() - core::memory_ledger().peak_by_purpose()["work list"];
}

TEST(ForwardMemory, MeasuredPeakIsThePredictedOne) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const Strategy* strategy : available()) {
    for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
      for (const bool reproducible : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {}{}", strategy->name(), name_of(type), reproducible ? ", reproducible" : ""));
        Case one = make_case("", {1, 768 * comm.size(), 8, 8, 64},
                             {Semantics::longnet, {{512, 1}, {1024, 4}}, true, false}, {}, type);
        one.problem.reproducible = one.problem.gradients = reproducible;
        if (!why_not_reproducible(*strategy, one.problem, comm.size()).empty()) continue;
        const pattern::Partition partition = strategy->partition(one.problem, comm.size());
        const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
        if (rows.count() == 0) continue;
        Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
        const Index found = peak_of([&] { strategy->forward(one.problem, partition, comm, tensors, {}); });
        const Index predicted = strategy->predict(one.problem, partition, comm.rank()).memory_bytes;
        EXPECT_LE(found, predicted);
        EXPECT_GE(double(found), 0.85 * double(predicted)) << "the prediction is far too high";
      }
    }
  }
}

// A block of batch entries has a size that depends on the number of threads, but cuts keys as the whole batch does.
TEST(ForwardMemory, KeyPartsAreThoseOfTheWholeBatch) {
  Problem whole = usual(core::DType::float32, 200'000, 8);
  whole.shape.batch = 4;
  whole.shape.heads = whole.shape.kv_heads = 1;
  Problem block = whole;
  block.shape.batch = 1;
  block.whole_batch = 4;
  EXPECT_EQ(key_parts(whole, 64), 16);
  EXPECT_EQ(key_parts(block, 64), 16);
  // Forward: q, acc, m and l. Backward: q, dout, dq, two normalizers and delta.
  EXPECT_EQ(key_parts_bytes(block, 64, false), 16 * 64 * (2 * 64 + 2) * 4);
  EXPECT_EQ(key_parts_bytes(block, 64, true), 16 * 64 * (3 * 64 + 3) * 4);
  whole.reproducible = true;
  EXPECT_EQ(key_parts(whole, 64), 1);
  EXPECT_EQ(key_parts_bytes(whole, 64, true), 0);
}

std::vector<std::byte> bytes_of(const core::Buffer& buffer) {
  std::vector<std::byte> bytes(std::size_t(buffer.bytes()));
  if (!bytes.empty()) core::copy_to_host(bytes.data(), buffer.data(), buffer.bytes());
  return bytes;
}

/// The bytes of batch entry b of `entries`.
std::vector<std::byte> entry_of(const core::Buffer& buffer, Index b, Index entries) {
  const std::vector<std::byte> all = bytes_of(buffer);
  const auto each = std::ptrdiff_t(all.size()) / entries;
  return {all.begin() + b * each, all.begin() + (b + 1) * each};
}

// With blocks of rows, an entry's keys would be packed again for each block.
TEST(ForwardMemory, ManyShortEntriesAreCutBetweenEntriesAlone) {
  const Problem many = make_case("", {80000, 16, 2, 2, 16}, {}, {}, core::DType::bfloat16).problem;
  const QueryBlocks blocks = query_blocks(many, 16);
  EXPECT_EQ(blocks.rows, 1);
  EXPECT_GT(blocks.entries, 1);
  EXPECT_LE(blocks.entries, 24);
}

// An entry has the same numbers as when it is computed alone.
TEST(ForwardMemory, BlocksOfEntriesGiveWhatTheEntriesGiveAlone) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  Case one =
      make_case("", {3, 256 * core::host_threads(), 32, 2, 256},
                {Semantics::longnet, {{32, 1}, {pattern::whole_document, 16}}, true, false}, {}, core::DType::bfloat16);
  const Index rows = one.problem.shape.sequence, entries = one.problem.shape.batch;
  const pattern::Partition partition = pattern::root_partition(rows, comm.size());
  const pattern::StoredRows& own = partition[std::size_t(comm.rank())];
  EXPECT_EQ(query_blocks(one.problem, rows).entries, entries);
  Tensors all = take_tensors(one.numbers(), one.problem, own);
  find("single")->forward(one.problem, partition, comm, all, {});
  one.problem.shape.batch = 1;
  for (Index b = 0; b < entries; ++b) {
    Tensors alone{core::Buffer("q", all.q.bytes() / entries), core::Buffer("kv", all.kv.bytes() / entries), {}, {}};
    const Index kv = alone.kv.bytes() / 2;
    const std::vector<std::byte> q = bytes_of(all.q), keys_and_values = bytes_of(all.kv);
    core::copy_to_device(alone.q.data(), q.data() + b * alone.q.bytes(), alone.q.bytes());
    for (const Index which : {0, 1})
      core::copy_to_device(alone.kv.at(which * kv), keys_and_values.data() + (which * entries + b) * kv, kv);
    find("single")->forward(one.problem, partition, comm, alone, {});
    EXPECT_EQ(bytes_of(alone.out), entry_of(all.out, b, entries)) << "entry " << b;
    EXPECT_EQ(bytes_of(alone.lse), entry_of(all.lse, b, entries)) << "entry " << b;
  }
}

// This test comes after those that measure memory, because threads keep the panels that they once needed.
TEST(ForwardMemory, SumsAreThereForBlocksOfRows) {
  // Many heads, so that a block has few rows.
  const comm::Communicator comm(MPI_COMM_WORLD);
  const Case one = make_case("", {2, 512, 128, 2, 256}, {Semantics::longnet, {{32, 1}, {512, 64}}, true, false}, {},
                             core::DType::bfloat16);
  const pattern::Partition partition = pattern::root_partition(512, comm.size());
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
  core::memory_ledger().reset_peak();
  find("single")->forward(one.problem, partition, comm, tensors, {});
  const Index block = kernels::attend_block_rows(one.problem.backend, one.problem.shape, one.problem.precision);
  const Index most = core::ceil_div(rows.count(), std::max<Index>(1, rows.count() / block));
  const Index found = core::memory_ledger().peak_by_purpose()["state"];
  EXPECT_LE(found, kernels::State::bytes(one.problem.shape, most, one.problem.precision));
  EXPECT_EQ(found > 0, rows.count() > 0);
}

}  // namespace
}  // namespace annulus::strategies
