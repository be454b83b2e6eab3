// The functions of NCCL that annulus uses, made from MPI and a fake device. Groups of calls run late, when the device
// runs them, and only their order decides which send meets which receive. Calls that NCCL would refuse are refused.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "annulus/comm/nccl_functions.hpp"
#include "support/fake_device.hpp"

namespace annulus::test {

class FakeNccl {
 public:
  static constexpr int system_error = 2, invalid_usage = 5;
  struct Call {
    bool sends;
    int peer;
    std::size_t bytes;
    bool operator==(const Call&) const = default;
  };

  FakeNccl() { MPI_Comm_dup(MPI_COMM_WORLD, &world_); }
  ~FakeNccl() { MPI_Comm_free(&world_); }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;

  comm::NcclFunctions functions() {
    comm::NcclFunctions f;
    f.make_id = [this](auto* id) { return make_id(*id); };
    f.init = [this](void** handle, int ranks, const auto& id, int rank) { return init(handle, ranks, id, rank); };
    f.state = [this](void* handle, int* state) { return look(*static_cast<Comm*>(handle), *state); };
    f.begin_group = [this] { return group_depth_++ == 0 && !is_busy() ? comm::nccl_success : invalid_usage; };
    f.end_group = [this] { return end_group(); };
    f.send = [this](const void* data, std::size_t bytes, int peer, void* handle, void* stream) {
      return add({true, peer, bytes}, const_cast<void*>(data), handle, stream);
    };
    f.receive = [this](void* data, std::size_t bytes, int peer, void* handle, void* stream) {
      std::memset(data, 0xff, bytes);
      return add({false, peer, bytes}, data, handle, stream);
    };
    f.finalize = [this](void*) { return is_busy() ? invalid_usage : comm::nccl_success; };
    f.destroy = [this](void*) { return ++destroyed, comm::nccl_success; };
    f.abort = [this](void*) { return ++aborted, comm::nccl_success; };
    f.name_of = [](int result) { return "result " + std::to_string(result); };
    f.version = "0.0.0";
    return f;
  }

  /// Whether a communicator is still being made, or has a group that has not yet been added to its queue.
  bool is_busy() const {
    for (const auto& one : comms_) {
      if (one->busy > 0) return true;
    }
    return false;
  }

  std::vector<std::vector<Call>> groups;  ///< in the order of the calls
  int made = 0, destroyed = 0, aborted = 0;
  bool fails_now = false;  ///< from now on communicators report an error

 private:
  struct Comm {
    int tag;
    std::vector<int> world_ranks;
    int busy = 0;  // number of calls of look() until it is no longer busy
    std::function<void()> then;
  };
  struct Operation {
    Call call;
    void* data;
  };

  int make_id(comm::NcclFunctions::Id& id) {
    int tag_and_root[2] = {next_tag_++, 0};
    MPI_Comm_rank(world_, &tag_and_root[1]);
    std::memcpy(id.data(), tag_and_root, sizeof tag_and_root);
    return comm::nccl_success;
  }
  /// Rank 0 of the new communicator, which made the id, receives every rank's rank in world_ and sends all of them
  /// back.
  int init(void** handle, int ranks, const comm::NcclFunctions::Id& id, int rank) {
    int tag_and_root[2], self = 0;
    std::memcpy(tag_and_root, id.data(), sizeof tag_and_root);
    MPI_Comm_rank(world_, &self);
    auto comm = std::make_unique<Comm>();
    comm->tag = 1000 * (tag_and_root[1] + 1) + tag_and_root[0];
    comm->world_ranks.resize(std::size_t(ranks));
    comm->world_ranks[std::size_t(rank)] = self;
    if (rank == 0) {
      for (int i = 1; i < ranks; ++i) {
        int who[2];
        MPI_Recv(who, 2, MPI_INT, MPI_ANY_SOURCE, comm->tag, world_, MPI_STATUS_IGNORE);
        comm->world_ranks[std::size_t(who[0])] = who[1];
      }
      for (int i = 1; i < ranks; ++i) {
        MPI_Send(comm->world_ranks.data(), ranks, MPI_INT, comm->world_ranks[std::size_t(i)], comm->tag, world_);
      }
    } else {
      const int who[2] = {rank, self};
      MPI_Send(who, 2, MPI_INT, tag_and_root[1], comm->tag, world_);
      MPI_Recv(comm->world_ranks.data(), ranks, MPI_INT, tag_and_root[1], comm->tag, world_, MPI_STATUS_IGNORE);
    }
    comm->busy = 3;
    *handle = comms_.emplace_back(std::move(comm)).get();
    ++made;
    return comm::nccl_in_progress;
  }
  int look(Comm& comm, int& state) {
    if (comm.busy > 0 && --comm.busy == 0 && comm.then) std::exchange(comm.then, nullptr)();
    state = fails_now ? system_error : comm.busy > 0 ? comm::nccl_in_progress : comm::nccl_success;
    return comm::nccl_success;
  }
  int add(const Call& call, void* data, void* handle, void* stream) {
    if (group_depth_ != 1 || is_busy() || call.bytes == 0) return invalid_usage;
    comm_ = static_cast<Comm*>(handle);
    stream_ = stream;
    operations_.push_back({call, data});
    return comm::nccl_success;
  }
  /// The group is added to its queue only after some calls of look(), as if NCCL first had to connect the ranks.
  int end_group() {
    if (--group_depth_ != 0 || operations_.empty()) return invalid_usage;
    std::vector<Call>& calls = groups.emplace_back();
    for (const Operation& one : operations_) calls.push_back(one.call);
    comm_->busy = 2;
    comm_->then = [this, comm = comm_, stream = stream_, operations = std::exchange(operations_, {})] {
      auto requests = std::make_shared<std::vector<MPI_Request>>();
      FakeDevice::add(stream, [this, comm, operations, requests] { return run(*comm, operations, *requests); });
    };
    return comm::nccl_in_progress;
  }
  bool run(const Comm& comm, const std::vector<Operation>& operations, std::vector<MPI_Request>& requests) {
    if (requests.empty()) {
      for (const Operation& one : operations) {
        MPI_Request& request = requests.emplace_back(MPI_REQUEST_NULL);
        const int peer = comm.world_ranks[std::size_t(one.call.peer)], bytes = int(one.call.bytes);
        one.call.sends ? MPI_Isend(one.data, bytes, MPI_BYTE, peer, comm.tag, world_, &request)
                       : MPI_Irecv(one.data, bytes, MPI_BYTE, peer, comm.tag, world_, &request);
      }
    }
    int done = 0;
    MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    return done != 0;
  }

  MPI_Comm world_ = MPI_COMM_NULL;
  std::vector<std::unique_ptr<Comm>> comms_;
  int next_tag_ = 0, group_depth_ = 0;
  Comm* comm_ = nullptr;  // the communicator of the group that is being made
  void* stream_ = nullptr;
  std::vector<Operation> operations_;
};

}  // namespace annulus::test
