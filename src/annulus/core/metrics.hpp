// Measurements of a rank while it works. These numbers are written to /run of the result file.
#pragma once

#include <vector>

#include "annulus/core/timeline.hpp"
#include "annulus/core/types.hpp"

namespace annulus::core {

/// Measurements of one hop, or of the whole exchange in strategies without hops. Element 0 of RankMetrics::hops is the
/// work on the rank's own rows.
struct HopMetrics {
  double compute_seconds = 0;     ///< wall time in the attention kernel
  double kernel_cpu_seconds = 0;  ///< CPU time of all threads of the rank in the kernel
  double wait_seconds = 0;        ///< wall time in which the rank only waits for messages (exposed communication)
  Index bytes_sent = 0;
  Index bytes_received = 0;
  Index rows_received = 0;
  Count kept = 0;  ///< (query, key, head) triples that the pattern keeps, batch entries included

  HopMetrics& operator+=(const HopMetrics& other) {
    compute_seconds += other.compute_seconds;
    kernel_cpu_seconds += other.kernel_cpu_seconds;
    wait_seconds += other.wait_seconds;
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    rows_received += other.rows_received;
    kept += other.kept;
    return *this;
  }
};

struct RankMetrics {
  Index rows = 0;  ///< rows of the sequence that this rank holds
  std::vector<HopMetrics> hops;

  HopMetrics total() const {
    HopMetrics sum;
    for (const HopMetrics& hop : hops) sum += hop;
    return sum;
  }
};

/// Seconds since some fixed moment.
double wall_seconds();
/// CPU seconds that all threads of this process have used.
double cpu_seconds();

/// Does `work` in a span of this name and adds its time to metrics.wait_seconds. `metrics` is a HopMetrics or another
/// type with wait_seconds.
template <class Metrics, class Work>
void timed_wait(Metrics& metrics, const char* name, Work&& work) {
  Span span(name, SpanKind::wait);
  work();
  metrics.wait_seconds += span.close();
}
template <class Metrics, class Work>
void timed_wait(Metrics& metrics, Work&& work) {
  timed_wait(metrics, "wait", work);
}

/// Does `work` and adds its wall time and its CPU time to the kernel's times.
template <class Work>
void timed_compute(HopMetrics& metrics, Work&& work) {
  Span span("compute", SpanKind::compute);
  const double cpu = cpu_seconds();
  work();
  metrics.kernel_cpu_seconds += cpu_seconds() - cpu;
  metrics.compute_seconds += span.close();
}

/// Flops of a forward pass over `kept` (query, key, head) triples. A triple takes D multiplications and D additions for
/// q.k, and Dv multiplications and Dv additions for p v.
constexpr double forward_flops(double kept, Index head_dim) { return 4.0 * double(head_dim) * kept; }
inline double forward_flops(double kept, const Shape& shape) { return 4.0 * shape.mean_dim() * kept; }

/// Flops of a backward pass. It has five products (q.k again, dout.v, and those for dq, dk and dv) instead of two. So
/// with Dv = D a backward pass has 2.5 times the flops of a forward pass.
constexpr double backward_flops(double kept, Index head_dim) { return 2.5 * forward_flops(kept, head_dim); }
inline double backward_flops(double kept, const Shape& shape) {
  return 2.0 * double(3 * shape.head_dim + 2 * shape.dim_of_values()) * kept;
}

}  // namespace annulus::core
