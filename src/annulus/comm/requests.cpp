#include "annulus/comm/requests.hpp"

#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "annulus/comm/communicator.hpp"
#include "annulus/comm/nccl_channel.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

// A wait first tests without pauses, because most waits are short. Later it pauses between tests to free the core. On
// Linux a pause of 20 us lasts about 75 us. This is short compared with a hop, and too short for a network card to
// become idle.
constexpr double eager_seconds = 1e-3;
constexpr std::chrono::microseconds pause{20};

/// Returns "receive of 512 bytes from rank 1".
std::string describe_one(const Outstanding& one) {
  if (one.kind == Outstanding::Kind::collective) return fmt::format("{} with all ranks", one.call);
  const bool receive = one.kind == Outstanding::Kind::receive;
  return fmt::format("{} of {} bytes {} rank {}", receive ? "receive" : "send", one.bytes, receive ? "from" : "to",
                     one.peer);
}

}  // namespace

std::string describe(const std::vector<Outstanding>& outstanding) {
  std::string text;
  Index in = 0, out = 0;
  bool messages = false;
  for (const Outstanding& one : outstanding) {
    if (!text.empty()) text += ", ";
    text += describe_one(one);
    if (one.kind == Outstanding::Kind::collective) continue;
    (one.kind == Outstanding::Kind::receive ? in : out) += one.bytes;
    messages = true;
  }
  if (messages) text += fmt::format(" outstanding; {} bytes in and {} bytes out are missing", in, out);
  return text;
}

void wait_until(const std::function<bool()>& done, const std::function<std::vector<Outstanding>()>& outstanding) {
  if (done()) return;
  const double start = core::wall_seconds();
  const Waiting waiting;
  std::vector<Outstanding> reported;
  while (!done()) {
    Requests::begin_ready();  // calls of all Requests, because other ranks may wait for messages of any of them
    progress_nccl();
    if (std::vector<Outstanding> now = outstanding(); now != reported) {
      waiting.about(now);
      reported = std::move(now);
    }
    waiting.look();
    if (core::wall_seconds() - start < eager_seconds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(pause);
    }
  }
}

/// A call to be made when ready() is true. Its request is of->requests_[index].
struct Requests::Later {
  Requests* of;
  std::size_t index;
  std::function<bool()> ready;
  std::function<void(MPI_Request*)> begin;
};

std::deque<Requests::Later>& Requests::later() {
  static std::deque<Later> all;
  return all;
}

void Requests::begin_ready() {
  std::deque<Later>& all = later();
  while (!all.empty() && all.front().ready()) {
    const Later next = std::move(all.front());
    all.pop_front();
    next.of->begun_[next.index] = true;
    --next.of->not_begun_;
    next.begin(&next.of->requests_[next.index]);
  }
}

void check_started(int code, const char* call) { check_mpi(code, call); }

Requests::~Requests() {
  // Requests are still open here only while an error unwinds. We cancel the messages and free their requests;
  // collectives can be neither cancelled nor freed. A message whose data already travel goes on, and Open MPI cancels
  // no send at all. The program `annulus` then ends the job. But a program that calls the library may go on, so the
  // library keeps the buffers (core::BuffersStay) and afterwards refuses the communicator (Communicator::abandon()).
  std::erase_if(later(), [this](const Later& one) { return one.of == this; });
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL || about_[i].kind == Outstanding::Kind::collective) continue;
    MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
}

MPI_Request* Requests::add(const Outstanding& what) {
  core::BuffersStay::message_starts();
  about_.push_back(what);
  begun_.push_back(true);
  finished_.push_back(0);
  statuses_.emplace_back();
  return &requests_.emplace_back(MPI_REQUEST_NULL);
}

void Requests::add_when(const Outstanding& what, std::function<bool()> ready, std::function<void(MPI_Request*)> begin) {
  add(what);
  begun_.back() = false;
  ++not_begun_;
  later().push_back({this, begun_.size() - 1, std::move(ready), std::move(begin)});
  begin_ready();
}

void Requests::advance(const std::function<void(std::size_t)>& completed) {
  begin_ready();
  if (requests_.empty()) return;
  int count = 0;
  const int code = MPI_Testsome(int(requests_.size()), requests_.data(), &count, finished_.data(), statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      const int error = statuses_[std::size_t(i)].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      core::fail(core::ErrorKind::failure, "{}: {}", describe_one(about_[std::size_t(finished_[std::size_t(i)])]),
                 mpi_error(error));
    }
  }
  check_mpi(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED) {  // no request is active
    if (not_begun_ > 0) return;
    requests_.clear();
    about_.clear();
    begun_.clear();
    finished_.clear();
    statuses_.clear();
    return;
  }
  if (completed) {
    for (int i = 0; i < count; ++i) completed(std::size_t(finished_[std::size_t(i)]));
  }
  if (count > 0) watchdog_progress();
}

void Requests::wait() {
  wait([this] {
    advance();
    return empty();
  });
}

void Requests::wait(const std::function<bool()>& done) {
  wait_until(done, [this] { return outstanding(); });
}

std::vector<Outstanding> Requests::outstanding() const {
  std::vector<Outstanding> open;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] != MPI_REQUEST_NULL || !begun_[i]) open.push_back(about_[i]);
  }
  return open;
}

}  // namespace annulus::comm
