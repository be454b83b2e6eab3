// Dilated attention with gradients in one process, without MPI. It computes the derivative of sum(out * dout) along a
// direction twice, from the gradients and as a difference quotient, and compares the two.
//
//   dilated_gradients [ROWS]      default 1000
#include <Kokkos_Core.hpp>
#include <annulus/annulus.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using Tensor = Kokkos::View<double****, Kokkos::LayoutRight>;  // (B, S, heads, D)
using Lse = Kokkos::View<double***, Kokkos::LayoutRight>;      // (B, S, heads)
constexpr std::size_t heads = 8, kv_heads = 2, dim = 16;       // four query heads share a key/value head

/// A tensor of arbitrary numbers; each seed gives other numbers.
Tensor made(const std::string& name, std::size_t rows, std::size_t of_heads, double seed) {
  const Tensor tensor(name, 1, rows, of_heads, dim);
  const auto host = Kokkos::create_mirror_view(tensor);
  for (std::size_t i = 0; i < host.size(); ++i) host.data()[i] = std::sin(double(i % 7919) * seed);
  Kokkos::deep_copy(tensor, host);
  return tensor;
}

/// sum of x * y
double dot(const Tensor& x, const Tensor& y) {
  const auto host_x = Kokkos::create_mirror_view(x), host_y = Kokkos::create_mirror_view(y);
  Kokkos::deep_copy(host_x, x);
  Kokkos::deep_copy(host_y, y);
  double sum = 0;
  for (std::size_t i = 0; i < host_x.size(); ++i) sum += host_x.data()[i] * host_y.data()[i];
  return sum;
}

/// x + step * direction
Tensor moved(const Tensor& x, double step, const Tensor& direction) {
  const Tensor to("moved", x.extent(0), x.extent(1), x.extent(2), x.extent(3));
  const auto host = Kokkos::create_mirror_view(to), host_x = Kokkos::create_mirror_view(x);
  const auto host_d = Kokkos::create_mirror_view(direction);
  Kokkos::deep_copy(host_x, x);
  Kokkos::deep_copy(host_d, direction);
  for (std::size_t i = 0; i < host.size(); ++i) host.data()[i] = host_x.data()[i] + step * host_d.data()[i];
  Kokkos::deep_copy(to, host);
  return to;
}

int run(std::size_t rows) {
  const annulus::Communicator alone;
  const annulus::Plan plan({.sequence = annulus::Index(rows),
                            .heads = heads,
                            .kv_heads = kv_heads,
                            .head_dim = dim,
                            .type = annulus::DType::float64},
                           {.segments = {64, 256, annulus::all}, .dilations = {1, 2, 4}, .causal = true}, 1,
                           {.gradients = true});
  const Kokkos::DefaultExecutionSpace exec;
  const std::array<Tensor, 3> x{made("q", rows, heads, 1.1), made("k", rows, kv_heads, 1.7),
                                made("v", rows, kv_heads, 2.3)};
  const std::array<Tensor, 3> direction{made("to q", rows, heads, 0.3), made("to k", rows, kv_heads, 0.7),
                                        made("to v", rows, kv_heads, 0.9)};
  const Tensor out("out", 1, rows, heads, dim), dout = made("dout", rows, heads, 3.1);
  const Lse lse("lse", 1, rows, heads);
  const auto loss = [&](double step) {
    annulus::attention(exec, alone, plan, moved(x[0], step, direction[0]), moved(x[1], step, direction[1]),
                       moved(x[2], step, direction[2]), out, lse);
    return dot(out, dout);
  };
  const double step = 1e-5, quotient = (loss(step) - loss(-step)) / (2 * step);

  const Tensor dq("dq", 1, rows, heads, dim), dk("dk", 1, rows, kv_heads, dim), dv("dv", 1, rows, kv_heads, dim);
  const annulus::Normalizers kept = annulus::attention(exec, alone, plan, x[0], x[1], x[2], out, lse);
  annulus::attention_backward(exec, alone, plan, kept, x[0], x[1], x[2], out, dout, dq, dk, dv);
  const double slope = dot(dq, direction[0]) + dot(dk, direction[1]) + dot(dv, direction[2]);

  const double error = std::abs(slope - quotient) / std::abs(quotient);
  std::printf("%zu rows: slope %.9g by the gradients, %.9g by differences; they differ by %.1g of it\n", rows, slope,
              quotient, error);
  return error < 1e-6 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  try {
    return run(argc > 1 ? std::size_t(std::atoll(argv[1])) : 1000);
  } catch (const annulus::Error& error) {
    std::fprintf(stderr, "dilated_gradients: %s\n", error.what());
    return int(error.kind());
  }
}
