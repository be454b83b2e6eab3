// Rounding and denormal numbers: a caller's settings change no bits of a result, and calls leave them as they were.
#include <algorithm>
#include <atomic>
#include <cfenv>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "annulus/annulus.hpp"
#include "annulus/library/made_plan.hpp"
#include "library_case.hpp"

namespace annulus::test {
namespace {

/// Settings that a program may have; -ffast-math and PyTorch's set_flush_denormal(True) turn flushing on.
struct Arithmetic {
  const char* name;
  int rounding;
  bool flushing;
};
constexpr Arithmetic usual{"to nearest", FE_TONEAREST, false};
constexpr Arithmetic others[] = {{"up", FE_UPWARD, false},
                                 {"down", FE_DOWNWARD, false},
                                 {"towards 0", FE_TOWARDZERO, false},
                                 {"denormal numbers are 0", FE_TONEAREST, true},
                                 {"up, denormal numbers are 0", FE_UPWARD, true}};

void set_flushing(bool flushing) {
#if defined(__x86_64__)
  const unsigned bits = 0x8040;  // FTZ and DAZ of MXCSR
  const unsigned state = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(flushing ? state | bits : state & ~bits);
#elif defined(__aarch64__)
  const std::uint64_t bit = std::uint64_t(1) << 24;  // FZ of FPCR
  std::uint64_t state = 0;
  asm volatile("mrs %0, fpcr" : "=r"(state));
  state = flushing ? state | bit : state & ~bit;
  asm volatile("msr fpcr, %0" : : "r"(state));
#else
#error "how does this processor flush denormal numbers to 0?"
#endif
}
void set(const Arithmetic& to) {
  std::fesetround(to.rounding);
  set_flushing(to.flushing);
}
bool is_set(const Arithmetic& expected) {
  volatile float denormal = 1e-39F, one = 1;
  return std::fegetround() == expected.rounding && (denormal * one == 0) == expected.flushing;
}

/// Calls body() in every thread of Kokkos, including the calling thread.
template <class Body>
void in_every_thread(const Body& body) {
  using Space = Kokkos::DefaultHostExecutionSpace;
  const int threads = int(Space().concurrency());
  Kokkos::parallel_for("test", Kokkos::RangePolicy<Space>(0, threads).set_chunk_size(1), [&](const int) { body(); });
  Space().fence();
}

/// A problem whose results include denormal numbers.
class Computed {
 public:
  Computed() {
    for (double& value : v_) value *= 1e-38;
    options_.gradients = options_.reproducible = true;
  }
  /// All results, computed with these settings in the calling thread and in Kokkos' threads; checks that they stay set.
  std::vector<double> under(const Arithmetic& callers) {
    const TestTensor q(q_, type, queries), k(k_, type, keys), v(v_, type, keys), dout(dout_, type, queries);
    const TestTensor out(type, queries), lse(type, heads), dq(type, queries), dk(type, keys), dv(type, keys);
    std::vector<std::byte> on_host[] = {to_storage(q_, type), to_storage(k_, type), to_storage(v_, type)};
    const std::vector<Index> rows{0, 7, 39};
    std::vector<double> by_definition(rows.size() * 4 * 8), lse_by_definition(rows.size() * 4);
    in_every_thread([&] { set(callers); });
    const Plan plan(shape, {.segments = {8, all}, .dilations = {1, 3}, .causal = true}, 1, options_);
    const Communicator alone;
    const Normalizers kept = forward(alone, plan, {q.tensor(), k.tensor(), v.tensor(), out.tensor(), lse.tensor()});
    BackwardTensors tensors;
    tensors.q = q.tensor();
    tensors.k = k.tensor();
    tensors.v = v.tensor();
    tensors.out = out.tensor();
    tensors.dout = dout.tensor();
    tensors.dq = dq.tensor();
    tensors.dk = dk.tensor();
    tensors.dv = dv.tensor();
    backward(alone, plan, kept, tensors);
    reference(plan, contiguous(on_host[0].data(), type, queries), contiguous(on_host[1].data(), type, keys),
              contiguous(on_host[2].data(), type, keys), rows, by_definition.data(), lse_by_definition.data());
    std::atomic<int> changed{0};
    in_every_thread([&] { changed += is_set(callers) ? 0 : 1; });
    in_every_thread([] { set(usual); });
    EXPECT_EQ(changed, 0) << "threads have other settings than before";
    std::vector<double> all = out.values();
    for (const auto& more : {lse.values(), dq.values(), dk.values(), dv.values(), by_definition, lse_by_definition}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

 private:
  static constexpr DType type = DType::float32;
  static constexpr std::array<Index, 4> queries{1, 40, 4, 8}, keys{1, 40, 2, 8}, heads{1, 40, 4, 1};
  const Shape shape{.sequence = 40, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const AttentionCase numbers_{{1, 40, 4, 2, 8}, {}, type, 3, 1};
  std::vector<double> q_ = numbers_.q(), k_ = numbers_.k(), v_ = numbers_.v(), dout_ = numbers_.dout();
  Options options_;
};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

TEST(LibraryArithmetic, OfTheCallerChangesNoBitAndIsHisAfterwards) {
  Computed computed;
  const std::vector<double> expected = computed.under(usual);
  const auto is_denormal = [](double x) { return x != 0 && std::abs(x) < 1e-38; };
  EXPECT_GT(std::count_if(expected.begin(), expected.end(), is_denormal), 100);
  for (const Arithmetic& callers : others) {
    EXPECT_TRUE(same_bits(computed.under(callers), expected)) << callers.name;
  }
}

/// A progress function must not call reference(), which would end the pass's settings in the middle of the pass.
TEST(LibraryArithmetic, AProgressFunctionMayNotCallTheDefinition) {
  const Plan plan({.sequence = 8, .heads = 2, .head_dim = 4}, {});
  const std::array<Index, 4> extents{1, 8, 2, 4}, heads{1, 8, 2, 1};
  const TestTensor q(std::vector<double>(64, 1.0), DType::float32, extents), out(DType::float32, extents);
  const TestTensor lse(DType::float32, heads);
  std::vector<std::byte> on_host = to_storage(std::vector<double>(64, 1.0), DType::float32);
  const Tensor x = contiguous(on_host.data(), DType::float32, extents);
  std::vector<double> row(8), lse_of_row(2);
  const auto definition = [&] { reference(plan, x, x, x, {3}, row.data(), lse_of_row.data()); };
  std::string told;
  forward(Communicator(), plan, {q.tensor(), q.tensor(), q.tensor(), out.tensor(), lse.tensor()},
          [&](double, const std::string&) {
            try {
              definition();
            } catch (const Error& error) {
              told = error.what();
            }
          });
  EXPECT_EQ(told.substr(0, 54), "reference: called by the progress function of a pass, ") << told;
  definition();
  EXPECT_EQ(row, std::vector<double>(8, 1.0)) << "after the pass it is accepted";
}

/// A program may block signals to handle them in one of its threads: they stay blocked, and none is lost.
TEST(LibraryArithmetic, SignalsThatTheCallerBlocksStayBlocked) {
  Computed computed;
  const std::vector<double> expected = computed.under(usual);
  sigset_t all, before, after, pending;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  raise(SIGUSR1);
  const std::vector<double> found = computed.under(usual);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  sigpending(&pending);
  std::signal(SIGUSR1, SIG_IGN);  // discards the pending SIGUSR1
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  std::signal(SIGUSR1, SIG_DFL);
  EXPECT_TRUE(same_bits(found, expected));
  EXPECT_EQ(sigismember(&pending, SIGUSR1), 1);
  for (const int signal : {SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGFPE}) EXPECT_EQ(sigismember(&after, signal), 1);
}

/// The default scale of a plan, 1 / sqrt(5), is not rounded with the caller's rounding mode.
TEST(LibraryArithmetic, OfTheCallerDoesNotRoundAPlansScale) {
  const Shape shape{.sequence = 8, .head_dim = 5};
  const double expected = Plan(shape, {}).made().problem.scale;
  for (const Arithmetic& callers : others) {
    set(callers);
    const double found = Plan(shape, {}).made().problem.scale;
    set(usual);
    EXPECT_EQ(found, expected) << callers.name;
  }
}

}  // namespace
}  // namespace annulus::test
