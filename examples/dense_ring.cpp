// Dense attention of a sequence spread over the ranks: K and V go round a ring. Compares results with the definition.
//
//   mpirun -n 4 dense_ring [ROWS]      ROWS: of the whole sequence, default 1000
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <annulus/annulus.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr annulus::Index heads = 4, dim = 32;

/// Component d of row x and head h of tensor t: a number that every rank computes in the same way.
double number(int t, annulus::Index x, annulus::Index h, annulus::Index d) {
  return std::sin(double(((x * heads + h) * dim + d) % 9973) * (1.3 + 0.7 * t));
}

/// The definition: softmax attention of one row and head to all rows, in double.
std::vector<double> definition(annulus::Index rows, annulus::Index x, annulus::Index h) {
  std::vector<double> out(dim, 0.0);
  double sum = 0;
  for (annulus::Index y = 0; y < rows; ++y) {
    double score = 0;
    for (annulus::Index d = 0; d < dim; ++d) score += number(0, x, h, d) * number(1, y, h, d);
    const double weight = std::exp(score / std::sqrt(double(dim)));
    sum += weight;
    for (annulus::Index d = 0; d < dim; ++d) out[std::size_t(d)] += weight * number(2, y, h, d);
  }
  for (double& one : out) one /= sum;
  return out;
}

int run(annulus::Index rows) {
  const annulus::Communicator comm(MPI_COMM_WORLD);
  const annulus::Plan plan({.sequence = rows, .heads = heads, .head_dim = dim}, {}, comm.size(), "ring");
  const annulus::Rows mine = plan.rows(comm.rank());

  using Tensor = Kokkos::View<float****, Kokkos::LayoutRight>;  // (B, rows of this rank, H, D)
  const auto count = std::size_t(mine.count());
  Tensor q("q", 1, count, heads, dim), k("k", 1, count, heads, dim), v("v", 1, count, heads, dim);
  Tensor out("out", 1, count, heads, dim);
  Kokkos::View<float***, Kokkos::LayoutRight> lse("lse", 1, count, heads);
  std::vector<annulus::Index> row_of;  // for each row of this rank, its number in the whole sequence
  for (const annulus::Interval& part : mine.intervals) {
    for (annulus::Index x = part.begin; x < part.end; ++x) row_of.push_back(x);
  }
  const auto host_q = Kokkos::create_mirror_view(q), host_k = Kokkos::create_mirror_view(k);
  const auto host_v = Kokkos::create_mirror_view(v);
  for (std::size_t i = 0; i < count; ++i) {
    for (annulus::Index h = 0; h < heads; ++h) {
      for (annulus::Index d = 0; d < dim; ++d) {
        host_q(0, i, h, d) = float(number(0, row_of[i], h, d));
        host_k(0, i, h, d) = float(number(1, row_of[i], h, d));
        host_v(0, i, h, d) = float(number(2, row_of[i], h, d));
      }
    }
  }
  Kokkos::deep_copy(q, host_q);
  Kokkos::deep_copy(k, host_k);
  Kokkos::deep_copy(v, host_v);

  annulus::attention(Kokkos::DefaultExecutionSpace(), comm, plan, q, k, v, out, lse);

  const auto host_out = Kokkos::create_mirror_view(out);
  Kokkos::deep_copy(host_out, out);
  double worst = 0;
  for (std::size_t i = 0; i < count; i += 17) {
    for (annulus::Index h = 0; h < heads; ++h) {
      const std::vector<double> expected = definition(rows, row_of[i], h);
      for (annulus::Index d = 0; d < dim; ++d) {
        worst = std::max(worst, std::abs(double(host_out(0, i, h, d)) - expected[std::size_t(d)]));
      }
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (comm.rank() == 0) {
    std::printf("%s\n%lld rows on %d ranks, %s; rank 0 receives %lld bytes; largest error %.2g\n",
                annulus::library_description().c_str(), (long long)rows, comm.size(), plan.reason().c_str(),
                (long long)plan.received(0), worst);
  }
  return worst < 1e-5 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = EXIT_FAILURE;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    try {
      status = run(argc > 1 ? std::atoll(argv[1]) : 1000);
    } catch (const annulus::Error& error) {
      std::fprintf(stderr, "dense_ring: %s\n", error.what());
      MPI_Abort(MPI_COMM_WORLD, int(error.kind()));
    }
  }
  MPI_Finalize();
  return status;
}
