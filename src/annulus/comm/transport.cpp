#include "annulus/comm/transport.hpp"

#include <Kokkos_Core.hpp>
#include <map>

#include "annulus/comm/runtime.hpp"
#include "annulus/core/gpu_driver.hpp"

namespace annulus::comm {
namespace {

/// What carries rows: NCCL and this queue, or MPI if both are null.
struct Way {
  const NcclFunctions* nccl = nullptr;
  core::CopyQueue* queue = nullptr;
};
Way& way() {
  static Way one;
  return one;
}

/// A queue only for messages; it is destroyed before Kokkos ends.
core::CopyQueue& own_queue() {
  static std::unique_ptr<core::CopyQueue> queue;
  if (!queue) {
    queue = core::make_copy_queue();
    Kokkos::push_finalize_hook([] { queue.reset(); });
  }
  return *queue;
}

int end_channel(MPI_Comm, int, void* channel, void*) {
  delete static_cast<NcclChannel*>(channel);
  return MPI_SUCCESS;
}

/// The key under which MPI stores a communicator's channel; MPI destroys the channel when it frees the communicator.
int channel_key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    call_mpi("MPI_Comm_create_keyval", MPI_Comm_create_keyval, MPI_COMM_NULL_COPY_FN, end_channel, &made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

void require_own_gpus(const std::vector<std::pair<std::string, std::string>>& locations) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < locations.size(); ++rank) ranks[locations[rank]].push_back(rank);
  for (const auto& [location, sharing] : ranks) {
    if (sharing.size() == 1) continue;
    core::fail(core::ErrorKind::usage,
               "distribution.transport: nccl needs a GPU for every rank, but ranks {} share GPU {} of {}; start fewer "
               "ranks per node, or set transport: mpi",
               fmt::join(sharing, ", "), location.second, location.first);
  }
}

void choose_transport(Transport wanted, const Communicator& comm) {
  way() = {};
  if (wanted == Transport::mpi) return;
  agree(comm, [] {
    if (const std::string trouble = why_no_nccl(); !trouble.empty()) {
      core::fail(core::ErrorKind::usage, "distribution.transport: nccl is not available: {}; expected mpi", trouble);
    }
  });
  const std::vector<std::string> hosts = comm.gather_all(host_name()), gpus = comm.gather_all(core::gpu_address());
  std::vector<std::pair<std::string, std::string>> locations;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) locations.emplace_back(hosts[rank], gpus[rank]);
  agree(comm, [&] { require_own_gpus(locations); });
  way() = {&nccl_library(), &own_queue()};
}

NcclChannel* channel_of(const Communicator& comm) {
  if (way().nccl == nullptr) return nullptr;
  void* channel = nullptr;
  int found = 0;
  call_mpi("MPI_Comm_get_attr", MPI_Comm_get_attr, comm.handle(), channel_key(), &channel, &found);
  if (found != 0) return static_cast<NcclChannel*>(channel);
  auto made = std::make_unique<NcclChannel>(comm, *way().nccl, *way().queue);
  call_mpi("MPI_Comm_set_attr", MPI_Comm_set_attr, comm.handle(), channel_key(), made.get());
  return made.release();
}

std::string nccl_in_use() { return way().nccl == nullptr ? "" : "NCCL " + way().nccl->version; }

void transport_by(const NcclFunctions* nccl, core::CopyQueue* queue) { way() = {nccl, queue}; }

}  // namespace annulus::comm
