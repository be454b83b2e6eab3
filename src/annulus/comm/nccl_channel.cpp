#include "annulus/comm/nccl_channel.hpp"

#include <sched.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "annulus/comm/communicator.hpp"
#include "annulus/comm/watchdog.hpp"

namespace annulus::comm {

namespace {

/// One message as NCCL needs it: contiguous bytes. A message whose lines are not contiguous has a packed copy.
struct Wire {
  explicit Wire(NcclMessage&& message) : peer(message.peer), lines(std::move(message.lines)), bytes(0) {
    for (const core::Lines& one : lines) bytes += one.width * one.count;
    const bool is_whole = lines.size() == 1 && (lines[0].count == 1 || lines[0].pitch == lines[0].width);
    if (!is_whole) packed = core::Buffer("packed messages", bytes);
    data = is_whole ? lines[0].data : packed.data();
  }

  /// If there is a packed copy, calls copy(lines of the message, the same lines in the packed copy) for all lines.
  template <class Copy>
  void for_each_packed(Copy&& copy) const {
    if (packed.bytes() == 0) return;
    Index at = 0;
    for (const core::Lines& one : lines) {
      copy(one, core::Lines{packed.at(at), one.width, one.count, one.width});
      at += one.width * one.count;
    }
  }

  int peer;
  std::vector<core::Lines> lines;
  Index bytes;
  core::Buffer packed;
  void* data;
};

std::vector<Wire> wires_of(std::vector<NcclMessage>&& messages) {
  std::vector<Wire> all;
  for (NcclMessage& message : messages) {
    if (message.bytes() > 0) all.emplace_back(std::move(message));
  }
  return all;
}

std::vector<NcclChannel*>& channels() {
  static std::vector<NcclChannel*> all;
  return all;
}

}  // namespace

class NcclGroup {
 public:
  std::vector<Wire> sends, receives;
  core::When kernels_before;  // the kernels launched before start()
  bool is_issued = false, is_over = false;
  core::When over;
};

Index NcclMessage::bytes() const {
  Index all = 0;
  for (const core::Lines& one : lines) all += one.width * one.count;
  return all;
}

NcclMessage nccl_message(int peer, const RowBlock& block) {
  return {peer, {{block.first_row(), block.rows.size() * block.row_bytes, block.parts, block.held * block.row_bytes}}};
}

NcclChannel::NcclChannel(const Communicator& comm, const NcclFunctions& nccl, core::CopyQueue& queue)
    : nccl_(nccl), queue_(queue), rank_(comm.rank()), exceptions_(std::uncaught_exceptions()) {
  std::string id;
  agree(comm, [&] {
    NcclFunctions::Id made{};
    if (comm.is_root()) check(nccl_.make_id(&made), "ncclGetUniqueId");
    id.assign(made.data(), made.size());
  });
  id = comm.broadcast(id);
  NcclFunctions::Id known{};
  std::copy(id.begin(), id.end(), known.begin());
  check_begun(nccl_.init(&handle_, comm.size(), known, comm.rank()), "ncclCommInitRankConfig");
  wait_until([this] { return is_ready(); },
             [] {
               return std::vector<Outstanding>{{Outstanding::Kind::collective, 0, 0, "ncclCommInitRankConfig"}};
             });
  channels().push_back(this);
}

NcclChannel::~NcclChannel() {
  std::erase(channels(), this);
  bool is_idle = waiting_.empty() && !beginning_;
  for (const auto& group : begun_) is_idle = is_idle && group.expired();
  int state = nccl_success;
  if (is_idle && std::uncaught_exceptions() <= exceptions_ && nccl_.state(handle_, &state) == nccl_success &&
      state == nccl_success) {
    const int result = nccl_.finalize(handle_);
    if (result == nccl_success || result == nccl_in_progress) {
      do {
        sched_yield();
      } while (nccl_.state(handle_, &state) == nccl_success && state == nccl_in_progress);
      blocking_quietly(
          "ncclCommDestroy", +[](NcclChannel* one) { return one->nccl_.destroy(one->handle_); }, this);
      return;
    }
  }
  nccl_.abort(handle_);
}

void NcclChannel::check(int result, const char* call) {
  if (result != nccl_success) fail(result, call);
}

void NcclChannel::check_begun(int result, const char* call) {
  if (result != nccl_in_progress) check(result, call);
}

void NcclChannel::fail(int result, const char* call) {
  core::fail(core::ErrorKind::failure, "{} on rank {}: {} (NCCL {}; NCCL_DEBUG=INFO prints more)", call, rank_,
             nccl_.name_of(result), nccl_.version);
}

bool NcclChannel::is_ready() {
  int state = nccl_success;
  check(nccl_.state(handle_, &state), "ncclCommGetAsyncError");
  if (state != nccl_success && state != nccl_in_progress) fail(state, "NCCL");
  return state == nccl_success;
}

std::shared_ptr<NcclGroup> NcclChannel::start(std::vector<NcclMessage> sends, std::vector<NcclMessage> receives) {
  auto group = std::make_shared<NcclGroup>();
  group->sends = wires_of(std::move(sends));
  group->receives = wires_of(std::move(receives));
  if (group->sends.empty() && group->receives.empty()) {
    group->is_issued = group->is_over = true;
    return group;
  }
  group->kernels_before = queue_.kernels_so_far();
  waiting_.push_back(group);
  progress();
  return group;
}

void NcclChannel::issue(NcclGroup& group) {
  queue_.wait_for(group.kernels_before);
  for (const Wire& wire : group.sends) {
    wire.for_each_packed([&](const core::Lines& lines, const core::Lines& packed) { queue_.copy(lines, packed); });
  }
  check(nccl_.begin_group(), "ncclGroupStart");
  for (const Wire& wire : group.receives) {
    check_begun(nccl_.receive(wire.data, std::size_t(wire.bytes), wire.peer, handle_, queue_.stream()), "ncclRecv");
  }
  for (const Wire& wire : group.sends) {
    check_begun(nccl_.send(wire.data, std::size_t(wire.bytes), wire.peer, handle_, queue_.stream()), "ncclSend");
  }
  check_begun(nccl_.end_group(), "ncclGroupEnd");
}

/// Called when NCCL has put the group's messages into the queue.
void NcclChannel::settle(NcclGroup& group) {
  for (const Wire& wire : group.receives) {
    wire.for_each_packed([&](const core::Lines& lines, const core::Lines& packed) { queue_.copy(packed, lines); });
  }
  group.over = queue_.so_far();
  group.is_issued = true;
}

void NcclChannel::progress() {
  while (beginning_ || !waiting_.empty()) {
    if (beginning_) {
      if (!is_ready()) return;
      settle(*beginning_);
      begun_.push_back(beginning_);
      beginning_.reset();
      continue;
    }
    beginning_ = std::move(waiting_.front());
    waiting_.pop_front();
    issue(*beginning_);
  }
}

bool NcclChannel::is_over(const NcclGroup& group) {
  if (group.is_over) return true;
  is_ready();  // throws if NCCL has failed
  progress();
  return group.is_issued && queue_.is_over(group.over);
}

void NcclChannel::wait(const std::vector<std::shared_ptr<NcclGroup>>& groups) {
  const auto are_over = [&] {
    for (const auto& group : groups) {
      if (group->is_over) continue;
      if (!is_over(*group)) return false;
      group->is_over = true;
      watchdog_progress();
    }
    return true;
  };
  const auto outstanding = [&] {
    std::vector<Outstanding> open;
    for (const auto& group : groups) {
      if (group->is_over) continue;
      for (const Wire& wire : group->receives) open.push_back({Outstanding::Kind::receive, wire.peer, wire.bytes});
      for (const Wire& wire : group->sends) open.push_back({Outstanding::Kind::send, wire.peer, wire.bytes});
    }
    return open;
  };
  wait_until(are_over, outstanding);
  std::erase_if(begun_, [](const auto& group) { return group.expired() || group.lock()->is_over; });
}

void progress_nccl() {
  for (NcclChannel* const channel : channels()) channel->progress();
}

}  // namespace annulus::comm
