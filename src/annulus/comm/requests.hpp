// Messages and collectives in flight, and wait_until(), the only loop in which this program waits for them.
#pragma once

#include <mpi.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "annulus/core/metrics.hpp"
#include "annulus/core/types.hpp"

namespace annulus::comm {

using core::Index;

/// Describes a request, for messages about a stalled run.
struct Outstanding {
  enum class Kind { receive, send, collective };
  Kind kind = Kind::collective;
  int peer = 0;           ///< unused for collectives
  Index bytes = 0;        ///< unused for collectives
  const char* call = "";  ///< name of MPI's or NCCL's function; printed for collectives

  bool operator==(const Outstanding&) const = default;
};

/// Returns "receive of 8 bytes from rank 1, send of ... outstanding; 8 bytes in and 4 bytes out are missing".
std::string describe(const std::vector<Outstanding>& outstanding);

/// Calls `done` again and again until `done` returns true. Does not block inside MPI, so that the watchdog can end a
/// stalled wait. `done` must let MPI move data. `outstanding` returns the requests that are still open.
void wait_until(const std::function<bool()>& done, const std::function<std::vector<Outstanding>()>& outstanding);

/// Requests that are started together and waited for together.
class Requests {
 public:
  Requests() = default;
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  bool empty() const { return requests_.empty(); }
  /// Returns the address at which an MPI call must store its request; it is valid until the next add().
  MPI_Request* add(const Outstanding& what);
  /// Use this function for an MPI call that must wait until ready() returns true. begin(request) makes this MPI call.
  /// add_when() itself calls begin() if possible; otherwise a later advance() or wait() of any Requests calls it. The
  /// process makes all such calls in the order of their add_when(), so that messages match as if each add_when() had
  /// made its call itself.
  void add_when(const Outstanding& what, std::function<bool()> ready, std::function<void(MPI_Request*)> begin);
  /// Lets MPI move data, because many MPIs move data only inside their calls. Calls completed(i) for each request that
  /// has become complete; i counts from 0 in the order of add(). Cheap when nothing is in flight. Throws Error(failure)
  /// if MPI reports that a request failed; the message describes the request and names the peer. So a rank that
  /// computes, and calls this function now and then, also notices that another rank has died.
  void advance(const std::function<void(std::size_t)>& completed = {});
  /// Returns when all requests are complete; see wait_until().
  void wait();
  /// Returns when done(), which must call advance(), returns true.
  void wait(const std::function<bool()>& done);

 private:
  struct Later;
  static std::deque<Later>& later();
  static void begin_ready();
  friend void wait_until(const std::function<bool()>&, const std::function<std::vector<Outstanding>()>&);
  std::vector<Outstanding> outstanding() const;

  std::vector<MPI_Request> requests_;  // MPI_REQUEST_NULL: complete, or not begun
  std::vector<Outstanding> about_;
  std::vector<bool> begun_;
  std::size_t not_begun_ = 0;
  std::vector<int> finished_;  // finished_ and statuses_ are memory for the results of MPI_Testsome
  std::vector<MPI_Status> statuses_;
};

/// Runs one non-blocking collective: start(MPI_Request*) starts it and returns MPI's code. Returns when the collective
/// is complete.
template <class Start>
void run_collective(const char* call, Start&& start);

/// The part of run_collective() that needs no template.
void check_started(int code, const char* call);

template <class Start>
void run_collective(const char* call, Start&& start) {
  const double begin = core::wall_seconds();
  Requests requests;
  check_started(start(requests.add({Outstanding::Kind::collective, 0, 0, call})), call);
  requests.wait();
  core::note_call(call, begin);
}

}  // namespace annulus::comm
