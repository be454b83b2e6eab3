// Forward and backward pass of the layer against plain float64 loops: every sharding, on 1 to 4 ranks.
#include "layer_case.hpp"

namespace annulus::layer {
namespace {

constexpr std::array<bool, 4> no_biases{}, all_biases{true, true, true, true};

/// Sizes that P does not divide; more ranks than rows, than heads, and than key/value heads.
std::vector<LayerCase> cases() {
  return {make_case("plain", {1, 23, 4, 4, 6}, 10, no_biases),
          make_case("biases and rope", {1, 23, 4, 4, 6}, 10, all_biases, 10000.0),
          make_case("two batch entries, shared key/value heads", {2, 19, 4, 2, 8}, 7, all_biases, 100.0),
          make_case("one key/value head, some biases", {1, 17, 5, 1, 4}, 9, {true, false, true, false}, 10000.0),
          make_case("heads that straddle groups", {1, 13, 6, 2, 4}, 5, {false, true, false, true}),
          make_case("fewer rows and heads than ranks", {2, 3, 2, 1, 2}, 3, all_biases, 10.0),
          make_case("one number wide", {1, 8, 1, 1, 2}, 1, all_biases, 10000.0)};
}

void check_all(LayerCase one, double forward_tolerance, double gradient_tolerance) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  one.problem.sharding = Sharding::fsdp;
  for (const strategies::Strategy* strategy : strategies::available()) {
    check(one, *strategy, comm, forward_tolerance, gradient_tolerance);
  }
  one.problem.sharding = Sharding::none;  // the attention is called as with fsdp: two strategies are enough
  for (const char* name : {"single", "ring"}) {
    check(one, *strategies::find(name), comm, forward_tolerance, gradient_tolerance);
  }
  one.problem.sharding = Sharding::tensor;  // uses no strategy
  check(one, *strategies::registry().front(), comm, forward_tolerance, gradient_tolerance);
}

TEST(Passes, EqualTheDefinitionInFloat64) {
  for (const LayerCase& one : cases()) check_all(one, 1e-12, 1e-11);
}

TEST(Passes, RowsMayLieInAnyPartition) {
  LayerCase one = make_case("two documents", {2, 31, 4, 2, 4}, 6, all_biases, 10000.0);
  one.problem.attention.documents = {0, 12, 31};
  for (const auto& entry : pattern::partition_table) {
    one.name = entry.name;
    one.problem.attention.partition = entry.value;
    one.problem.attention.block_size = 3;
    check_all(one, 1e-12, 1e-11);
  }
}

TEST(Passes, KeysMayBeFilledIn) {
  LayerCase one = make_case("torchscale", {2, 23, 4, 2, 6}, 7, all_biases, 100.0);
  one.problem.attention.pattern = {
      pattern::Semantics::torchscale, {{4, 1}, {pattern::whole_document, 2}}, false, false};
  check_all(one, 1e-12, 1e-11);
}

TEST(Passes, KeepTheToleranceOfTheStorageType) {
  for (const core::DType type : {core::DType::float32, core::DType::float16, core::DType::bfloat16}) {
    // Not only results, but also q, k, v, out, dout, dq, dk and dv are rounded to the storage type. In 16 bits, this
    // takes up to 0.3 (float16) and 0.5 (bfloat16) of the tolerance.
    check_all(
        make_case("stored as " + std::string(core::name_of(type)), {2, 21, 4, 2, 8}, 12, all_biases, 10000.0, type),
        core::forward_tolerance(type), core::gradient_tolerance(type));
  }
  LayerCase one =
      make_case("float32 summed in float64", {1, 21, 4, 2, 8}, 12, all_biases, 10000.0, core::DType::float32);
  one.problem.attention.precision = core::Precision::float64;
  check_all(one, core::forward_tolerance(core::DType::float32), core::gradient_tolerance(core::DType::float32));
}

}  // namespace
}  // namespace annulus::layer
