#include "annulus/report/pass.hpp"

#include <cstdio>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/memory.hpp"

namespace annulus::report {
namespace {

void meet(const comm::Communicator& comm, const std::string& where) {
  const comm::Scope scope(where);
  const core::Span span("barrier");
  comm.barrier();
}

}  // namespace

Pass run_pass(const comm::Communicator& comm, const std::string& name,
              const std::function<core::LayerMetrics()>& work) {
  meet(comm, "the barrier before " + name);  // so that the time below is the pass's, not another rank's reading
  const double start = core::wall_seconds();
  Pass pass;
  try {
    const comm::Scope scope(name);
    const core::Span span(name.c_str(), core::SpanKind::pass);
    pass.metrics = work();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& error) {
    if (comm.size() == 1) throw;
    std::fprintf(stderr, "annulus: error: rank %d: %s\n", comm.rank(), error.what());
    std::fflush(stderr);
    comm::abort_job(int(core::ErrorKind::failure));
  }
  meet(comm, "the barrier after " + name);
  pass.seconds = core::wall_seconds() - start;
  pass.peak_bytes = core::memory_ledger().peak();
  return pass;
}

}  // namespace annulus::report
