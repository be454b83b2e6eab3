// Gradients where scores are large, |lse| about 200 to 100,000: forward and backward pass of every strategy, against
// the float64 definition. The error may be three times that of a plain computation in the same precision, which keeps
// the softmax's maximum and sum. A computation that gets probabilities from an lse rounded to float32 (at 2,000 in
// steps of 1.2e-4) would have up to six times the plain error already at 2,000.
#include <algorithm>
#include <cmath>
#include <limits>

#include "forward_case.hpp"

namespace annulus::strategies {
namespace {

using core::Precision;
using Numbers = std::vector<double>;

/// Inputs of attention and of its gradients, in the layout of the tensors.
struct Inputs {
  Numbers q, k, v, dout;
};

/// Normally distributed numbers, but the last coordinate of every q is `height`, and of every k height * sign.
/// So all scores are about sign * scale * height^2 and differ by a few units: in every row many keys have noticeable
/// weights. Only the last addition makes a dot product this large, so it is rounded at this size only once.
Inputs tall_inputs(const Problem& problem, double height, double sign) {
  const core::Shape& s = problem.shape;
  const auto values = [&](core::TensorId tensor, Index heads) {
    return test::random_values(tensor, s.batch * s.sequence * heads * s.head_dim, problem.type);
  };
  Inputs inputs{values(core::TensorId::q, s.heads), values(core::TensorId::k, s.kv_heads),
                values(core::TensorId::v, s.kv_heads), values(core::TensorId::dout, s.heads)};
  for (Numbers* tall : {&inputs.q, &inputs.k}) {
    for (std::size_t i = std::size_t(s.head_dim) - 1; i < tall->size(); i += std::size_t(s.head_dim))
      (*tall)[i] = tall == &inputs.k ? sign * height : height;
    *tall = test::rounded(*tall, problem.type);
  }
  return inputs;
}

/// The gradients as textbooks compute them, in arithmetic type T: scores, largest score, exp(score - largest) / sum.
template <class T>
class Plain {
 public:
  Plain(const Problem& problem, const Inputs& inputs)
      : shape_(problem.shape),
        type_(problem.type),
        pattern_(test::reference_pattern(problem.layout(), problem.scale)),
        q_(inputs.q.begin(), inputs.q.end()),
        k_(inputs.k.begin(), inputs.k.end()),
        v_(inputs.v.begin(), inputs.v.end()),
        dout_(inputs.dout.begin(), inputs.dout.end()),
        dq_(q_.size()),
        dk_(k_.size()),
        dv_(v_.size()) {}

  kernels::ReferenceGradients gradients() {
    for (Index b = 0; b < shape_.batch; ++b) {
      for (Index x = 0; x < shape_.sequence; ++x) {
        for (Index h = 0; h < shape_.heads; ++h) add_row(b, x, h);
      }
    }
    return {{dq_.begin(), dq_.end()}, {dk_.begin(), dk_.end()}, {dv_.begin(), dv_.end()}};
  }

 private:
  T dot(const T* a, const T* b) const {
    T sum = 0;
    for (Index d = 0; d < shape_.head_dim; ++d) sum += a[d] * b[d];
    return sum;
  }

  void add_row(Index b, Index x, Index h) {
    const Index D = shape_.head_dim, S = shape_.sequence;
    const core::Interval document = kernels::document_of(pattern_, S, x);
    const Index at = ((b * S + x) * shape_.heads + h) * D;
    const auto key_at = [&](Index p) { return ((b * S + p) * shape_.kv_heads + h / shape_.group()) * D; };
    std::vector<T> scores(std::size_t(S), -std::numeric_limits<T>::infinity()), p(std::size_t(S), T(0));
    std::vector<T> out(std::size_t(D), T(0));
    const T filled = T(kernels::filled_in(pattern_, shape_.heads, h, x, document));
    T largest = filled > 0 ? T(0) : -std::numeric_limits<T>::infinity();
    for (Index y = 0; y < S; ++y) {
      p[std::size_t(y)] = T(kernels::multiplicity(pattern_, shape_.heads, h, x, y, document));
      if (p[std::size_t(y)] == 0) continue;
      scores[std::size_t(y)] = T(pattern_.scale) * dot(&q_[std::size_t(at)], &k_[std::size_t(key_at(y))]);
      largest = std::max(largest, scores[std::size_t(y)]);
    }
    T sum = filled > 0 ? filled * std::exp(-largest) : T(0);
    for (Index y = 0; y < S; ++y) {
      if (p[std::size_t(y)] != 0) p[std::size_t(y)] *= std::exp(scores[std::size_t(y)] - largest);
      sum += p[std::size_t(y)];
    }
    if (sum == 0) return;
    for (Index y = 0; y < S; ++y) {
      p[std::size_t(y)] /= sum;
      for (Index d = 0; d < D; ++d) out[std::size_t(d)] += p[std::size_t(y)] * v_[std::size_t(key_at(y) + d)];
    }
    const Numbers stored = test::rounded({out.begin(), out.end()}, type_);  // the backward pass reads `out` as stored
    out.assign(stored.begin(), stored.end());
    const T delta = dot(&dout_[std::size_t(at)], out.data());
    for (Index y = 0; y < S; ++y) {
      if (p[std::size_t(y)] == 0) continue;
      const T ds = p[std::size_t(y)] * (dot(&dout_[std::size_t(at)], &v_[std::size_t(key_at(y))]) - delta);
      for (Index d = 0; d < D; ++d) {
        const std::size_t query = std::size_t(at + d), key = std::size_t(key_at(y) + d);
        dq_[query] += T(pattern_.scale) * ds * k_[key];
        dk_[key] += T(pattern_.scale) * ds * q_[query];
        dv_[key] += p[std::size_t(y)] * dout_[query];
      }
    }
  }

  core::Shape shape_;
  core::DType type_;
  kernels::ReferencePattern pattern_;
  std::vector<T> q_, k_, v_, dout_, dq_, dk_, dv_;
};

kernels::ReferenceGradients plain_gradients(const Problem& problem, const Inputs& inputs) {
  if (problem.precision == Precision::float64) return Plain<double>(problem, inputs).gradients();
  return Plain<float>(problem, inputs).gradients();
}

/// The largest difference over all ranks; `found` has the rows of this rank, `whole` has all rows.
double error_of_rows(const Numbers& found, const Numbers& whole, const Problem& problem,
                     const pattern::StoredRows& rows, const comm::Communicator& comm) {
  const Numbers own = test::take_rows(whole, problem.shape.batch, problem.shape.sequence, rows.intervals());
  return comm.max(test::largest_difference(found, own));
}

core::Buffer on_device(const Numbers& whole, const Problem& problem, const pattern::StoredRows& rows) {
  const auto bytes = test::to_storage(
      test::take_rows(whole, problem.shape.batch, problem.shape.sequence, rows.intervals()), problem.type);
  core::Buffer buffer("test tensor", Index(bytes.size()));
  core::copy_to_device(buffer.data(), bytes.data(), buffer.bytes());
  return buffer;
}

/// dq, dk and dv of the rank's rows, from forward() and backward().
kernels::ReferenceGradients strategy_gradients(const Strategy& strategy, const Problem& problem, const Inputs& inputs,
                                               const pattern::Partition& partition, const comm::Communicator& comm) {
  const core::Shape& s = problem.shape;
  const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
  Tensors tensors;
  tensors.q = on_device(inputs.q, problem, rows);
  const core::Buffer k = on_device(inputs.k, problem, rows), v = on_device(inputs.v, problem, rows);
  tensors.kv = core::Buffer("kv", k.bytes() + v.bytes());
  std::vector<std::byte> bytes(std::size_t(tensors.kv.bytes()));
  core::copy_to_host(bytes.data(), k.data(), k.bytes());
  core::copy_to_host(bytes.data() + k.bytes(), v.data(), v.bytes());
  core::copy_to_device(tensors.kv.data(), bytes.data(), tensors.kv.bytes());
  strategy.forward(problem, partition, comm, tensors, {});
  tensors.dout = on_device(inputs.dout, problem, rows);
  strategy.backward(problem, partition, comm, tensors, {});
  const Index queries = s.batch * rows.count() * s.heads * s.head_dim,
              keys = s.batch * rows.count() * s.kv_heads * s.head_dim;
  const Numbers dkv = test::from_device(tensors.dkv, 2 * keys, problem.type);
  return {test::from_device(tensors.dq, queries, problem.type),
          {dkv.begin(), dkv.begin() + keys},
          {dkv.begin() + keys, dkv.end()}};
}

/// Checks that strategies are as accurate as the plain computation at scores of about `score`, which may be negative.
void expect_plain_errors(Problem problem, double score) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const core::Shape& s = problem.shape;
  const double size = std::abs(score);
  const Inputs inputs = tall_inputs(problem, std::sqrt(size / problem.scale), score / size);
  const auto pattern = test::reference_pattern(problem.layout(), problem.scale);
  const kernels::ReferenceGradients exact =
      kernels::reference_backward(s, pattern, inputs.q, inputs.k, inputs.v, inputs.dout);
  const kernels::ReferenceGradients plain = plain_gradients(problem, inputs);
  const kernels::ReferenceResult forward = kernels::reference_forward(s, pattern, inputs.q, inputs.k, inputs.v);
  const auto [least, most] = std::minmax_element(forward.lse.begin(), forward.lse.end());
  ASSERT_NEAR((score > 0 ? *most : *least) / score, 1, 0.1) << "scores are not as large as intended";
  for (const Strategy* strategy : available()) {
    if (!why_not_reproducible(*strategy, problem, comm.size()).empty()) continue;
    SCOPED_TRACE(fmt::format("{}, scores of {}, {}{}", strategy->name(), score, name_of(problem.precision),
                             problem.reproducible ? ", reproducible" : ""));
    const pattern::Partition partition = strategy->partition(problem, comm.size());
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const kernels::ReferenceGradients found = strategy_gradients(*strategy, problem, inputs, partition, comm);
    const auto expect = [&](const char* name, const Numbers& own, const Numbers& ours, const Numbers& truth) {
      const double allowed = 3 * test::largest_difference(test::rounded(ours, problem.type), truth) + 1e-6;
      EXPECT_LE(error_of_rows(own, truth, problem, rows, comm), allowed) << name;
    };
    expect("dq", found.dq, plain.dq, exact.dq);
    expect("dk", found.dk, plain.dk, exact.dk);
    expect("dv", found.dv, plain.dv, exact.dv);
  }
}

/// 61 rows, a prime number; two pairs, so that some keys count twice.
Problem usual(Precision precision) {
  Problem problem = make_case("", {2, 61, 4, 2, 16},
                              {pattern::Semantics::longnet, {{16, 1}, {pattern::whole_document, 2}}, false, false})
                        .problem;
  problem.precision = precision;
  problem.gradients = true;
  return problem;
}

TEST(LargeScores, GradientsAreAsGoodAsPlainOnes) {
  for (const double score : {200., 2e3, 1e4, 1e5}) expect_plain_errors(usual(Precision::float32), score);
}

TEST(LargeScores, GradientsInDoubleAreAsGoodAsPlainOnes) {
  for (const double score : {2e3, 1e5}) expect_plain_errors(usual(Precision::float64), score);
}

TEST(LargeScores, GradientsOfTheDeviceTilesAreAsGoodAsPlainOnes) {
  Problem problem = usual(Precision::float32);
  problem.backend = kernels::Backend::device;
  for (const double score : {2e3, 1e5}) expect_plain_errors(problem, score);
}

TEST(LargeScores, ReproducibleGradientsAreAsGoodAsPlainOnes) {
  Problem problem = usual(Precision::float32);
  problem.reproducible = true;
  for (const bool causal : {false, true}) {
    problem.pattern.causal = causal;
    for (const double score : {2e3, 1e5}) expect_plain_errors(problem, score);
  }
}

/// Rows 48 ... 60, and for heads with offset 1 also all odd rows, have filled-in keys, whose score is 0. If the other
/// scores are negative, only filled-in keys count; otherwise they do not count. The other rows have no filled-in keys.
TEST(LargeScores, GradientsBesideFilledInKeysAreAsGoodAsPlainOnes) {
  Problem problem = usual(Precision::float32);
  problem.pattern.semantics = pattern::Semantics::torchscale;
  for (const bool reproducible : {false, true}) {
    problem.reproducible = reproducible;
    for (const double score : {-1e4, -200., 200., 1e4}) expect_plain_errors(problem, score);
  }
  problem.precision = Precision::float64;
  for (const double score : {-1e5, 1e5}) expect_plain_errors(problem, score);
}

/// In coordinate 0, key y is y + 1, but keys 3 and 6 are both 16; queries are `height`. So scores are |height| times
/// these numbers: very large, and only keys 3 and 6 count, with the same weight.
TEST(LargeScores, OfAnySizeKnowWhoIsFirstAndWhoShares) {
  const comm::Communicator comm(MPI_COMM_SELF);
  Problem problem = make_case("", {1, 8, 1, 1, 4}, {pattern::Semantics::longnet, {{}}, false, false}).problem;
  problem.gradients = true;
  problem.scale = 1;
  const pattern::Partition alone = pattern::root_partition(8, 1);
  for (const kernels::Backend backend : {kernels::Backend::host, kernels::Backend::device}) {
    problem.backend = backend;
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      problem.precision = precision;
      for (const double height : {0x1p18, 0x1p22, 0x1p24, 0x1p31, 0x1p53, 0x1p64, 0x1p100, -0x1p22, -0x1p64}) {
        SCOPED_TRACE(fmt::format("{}, {}, {}", int(backend), name_of(precision), height));
        const double sign = height > 0 ? 1 : -1;
        Inputs inputs{Numbers(32, 0.0), Numbers(32, 0.0), Numbers(32, 0.0), Numbers(32, 0.0)};
        for (std::size_t y = 0; y < 8; ++y) {
          inputs.q[4 * y] = height;
          inputs.k[4 * y] = sign * (y == 3 || y == 6 ? 16 : double(y + 1));
          inputs.v[4 * y + 1] = double(y);
          inputs.dout[4 * y + 1] = double(y * y);
        }
        const kernels::ReferenceGradients found = strategy_gradients(*find("single"), problem, inputs, alone, comm);
        Numbers dv(32, 0.0);
        dv[4 * 3 + 1] = dv[4 * 6 + 1] = 0.5 * (0 + 1 + 4 + 9 + 16 + 25 + 36 + 49);
        EXPECT_TRUE(test::close_to(found.dv, dv, 1e-6)) << "dv";
        for (const Numbers* gradient : {&found.dq, &found.dk}) {
          for (const double number : *gradient) EXPECT_TRUE(std::isfinite(number));
        }
      }
    }
  }
}

}  // namespace
}  // namespace annulus::strategies
