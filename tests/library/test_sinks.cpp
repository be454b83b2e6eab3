// Sink logits through the library on 1 to 4 ranks: compared with the float64 definition; and refused arguments.
#include <mpi.h>

#include "annulus/annulus.hpp"
#include "small_case.hpp"

namespace annulus::test {
namespace {

TEST(LibraryAttention, SinkLogitsInEveryLayout) {
  const Communicator comm(MPI_COMM_WORLD);
  Pattern pattern = dilated;
  pattern.sink = true;
  for (const DType type : core::all_dtypes) {
    for (const TensorLayout lies : every_layout) {
      for (const bool gradients : {false, true}) {
        Options options;
        options.gradients = gradients;
        options.strategy = lies == TensorLayout::bshd ? "ulysses" : "auto";
        expect_definition({std::string(core::name_of(type)), with_type(small, type), pattern, options, lies}, comm);
      }
    }
  }
}

/// If one rank has different logits, or a NaN, all ranks throw the error, and none waits for another.
TEST(LibraryAttention, TellsEveryRankOfOtherSinkLogits) {
  const Communicator comm(MPI_COMM_WORLD);
  Pattern pattern = dilated;
  pattern.sink = true;
  const Plan plan(small, pattern, comm.size());
  const Whole whole({"", small, pattern}, plan, comm.rank());
  const DType type = DType::float32;
  const TestTensor q(type, whole.queries(), TensorLayout::bshd), kv(type, whole.keys(), TensorLayout::bshd),
      out(type, whole.queries(), TensorLayout::bshd), lse(type, whole.heads(), TensorLayout::bshd);
  const auto said = [&](double last) {
    const TestTensor sink({0, 1, 2, comm.rank() + 1 == comm.size() ? last : 3}, type, {1, 1, 4, 1}, TensorLayout::bshd);
    try {
      forward(comm, plan, {q.tensor(), kv.tensor(), kv.tensor(), out.tensor(), lse.tensor(), {}, sink.tensor()});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(said(3), "");
  EXPECT_NE(said(std::nan("")).find("attention: sink[3] is nan, expected finite numbers, or -inf"), std::string::npos);
  EXPECT_NE(said(3e38).find("attention: sink[3] is 3e+38, expected at most 2.36e+38 in precision float32"),
            std::string::npos);
  if (comm.size() > 1) {
    EXPECT_NE(said(4).find("has sink logits 0 1 2 4, rank 0 has sink logits 0 1 2 3"), std::string::npos) << said(4);
  }
}

TEST(LibraryAttention, RefusesSinkLogitsThatThePlanDoesNotMean) {
  const Communicator comm(MPI_COMM_WORLD);
  const Plan without(small, dilated, comm.size());
  Pattern pattern = dilated;
  pattern.sink = true;
  const Plan with(small, pattern, comm.size());
  const Whole whole({"", small, dilated}, with, comm.rank());
  const DType type = DType::float32;
  const TestTensor q(type, whole.queries(), TensorLayout::bshd), kv(type, whole.keys(), TensorLayout::bshd),
      out(type, whole.queries(), TensorLayout::bshd), lse(type, whole.heads(), TensorLayout::bshd);
  Kokkos::View<float*> logits("logits", 4), few("few", 3);
  const auto said = [&](const Plan& plan, const Tensor& sink) {
    try {
      forward(comm, plan, {q.tensor(), kv.tensor(), kv.tensor(), out.tensor(), lse.tensor(), {}, sink});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(said(with, tensor(logits)), "");
  EXPECT_NE(
      said(without, tensor(logits)).find("sink is given, but the plan has no sink logits; expected Pattern::sink"),
      std::string::npos);
  EXPECT_NE(said(with, tensor(few)).find("(1, 1, 3, 1), the plan of rank"), std::string::npos)
      << said(with, tensor(few));
  EXPECT_NE(said(with, {}).find("sink"), std::string::npos) << said(with, {});
  const Tensor on_one_rank = comm.rank() == comm.size() - 1 ? tensor(logits) : Tensor{};
  EXPECT_NE(said(without, on_one_rank).find("sink is given, but the plan has no sink logits"), std::string::npos);
  const Plan gradients(small, dilated, comm.size(), {.gradients = true});
  BackwardTensors tensors;
  tensors.normalizers.extents[3] = 2;
  tensors.sink = on_one_rank;
  const std::string told = usage_error_of([&] { backward(comm, gradients, {}, tensors); });
  EXPECT_NE(told.find("attention_backward: sink is given, but the plan has no sink logits"), std::string::npos) << told;
}

}  // namespace
}  // namespace annulus::test
