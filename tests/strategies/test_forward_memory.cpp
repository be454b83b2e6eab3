// What the forward pass needs beside its tensors: predicted for problems of the usual size, and predicted against
// measured for small ones.
#include "forward_case.hpp"

namespace annulus::strategies {
namespace {

using pattern::Semantics;

/// Bytes of a rank's q, k, v, out and lse.
Index tensor_bytes(const Problem& problem, Index rows) {
  return problem.shape.batch * rows *
         (2 * problem.query_row_bytes() + 2 * problem.kv_row_bytes() + problem.lse_row_bytes());
}

/// Several pairs, 65,536 rows, 8 heads of 64.
Problem usual(core::DType type, Index kv_heads) {
  return make_case("", {1, 65536, 8, kv_heads, 64},
                   {Semantics::longnet, {{2048, 1}, {8192, 4}, {pattern::whole_document, 16}}, true, false}, {}, type)
      .problem;
}

TEST(ForwardMemory, SingleTakesFivePercentBesideItsTensors) {
  for (const core::DType type : {core::DType::float64, core::DType::float32}) {
    for (const Index kv_heads : {8, 4}) {
      const Problem problem = usual(type, kv_heads);
      const Index tensors = tensor_bytes(problem, problem.shape.sequence);
      EXPECT_LE(double(find("single")->predict(problem, pattern::root_partition(65536, 1), 0).memory_bytes),
                1.05 * double(tensors))
          << name_of(type) << ", Hkv " << kv_heads;
    }
  }
}

/// Peak bytes of a call, beside work lists.
template <class Call>
Index peak_of(Call&& call) {
  core::memory_ledger().reset_peak();
  call();
  return core::memory_ledger().peak() - core::memory_ledger().peak_by_purpose()["work list"];
}

TEST(ForwardMemory, MeasuredPeakIsThePredictedOne) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  for (const auto& strategy : registry()) {
    for (const core::DType type : {core::DType::float32, core::DType::bfloat16}) {
      for (const bool reproducible : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, {}{}", strategy->name(), name_of(type), reproducible ? ", reproducible" : ""));
        Case one = make_case("", {1, 768 * comm.size(), 8, 8, 64},
                             {Semantics::longnet, {{512, 1}, {1024, 4}}, true, false}, {}, type);
        one.problem.reproducible = reproducible;
        if (!disorder(*strategy, one.problem, comm.size()).empty()) continue;
        const pattern::Partition partition = strategy->partition(one.problem, comm.size());
        const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
        if (rows.count() == 0) continue;
        Tensors tensors = take_tensors(one.numbers(), one.problem, rows);
        const Index found = peak_of([&] { strategy->forward(one.problem, partition, comm, tensors, {}); });
        const Index predicted = strategy->predict(one.problem, partition, comm.rank()).memory_bytes;
        EXPECT_LE(found, predicted);
        EXPECT_GE(double(found), 0.85 * double(predicted)) << "too careful, panels that are not full apart";
      }
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
