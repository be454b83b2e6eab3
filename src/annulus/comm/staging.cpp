#include "annulus/comm/staging.hpp"

#include "annulus/core/buffer.hpp"

namespace annulus::comm {
namespace {

/// Calls copy(address in the block, address in the packed copy, bytes) for every part.
template <class Copy>
void for_each_part(const RowBlock& block, std::byte* packed, Copy&& copy) {
  const Index bytes = block.rows.size() * block.row_bytes;
  for (Index part = 0; part < block.parts; ++part) {
    auto* at = static_cast<std::byte*>(block.data) + (part * block.held + block.rows.begin) * block.row_bytes;
    copy(at, packed + part * bytes, bytes);
  }
}

/// How this process' messages travel; as on a process of one rank until choose_transfers() says more.
struct Choice {
  bool straight;
  std::string words;
};
Choice& choice() {
  static Choice one = core::device_is_host() ? Choice{true, "host memory, straight to MPI"}
                                             : Choice{false, "device memory staged through host memory"};
  return one;
}

}  // namespace

void choose_transfers(GpuAware wanted, const Communicator& comm, const std::function<std::string()>& trial) {
  if (core::device_is_host()) return;
  const std::string straight = "device memory, straight to MPI", staged = "device memory staged through host memory";
  if (wanted == GpuAware::automatic) {
    const std::string trouble = comm.broadcast(comm.is_root() ? trial() : std::string());
    choice() =
        trouble.empty()
            ? Choice{true, straight + " (distribution.gpu_aware: auto, a device self-send arrived)"}
            : Choice{false, staged + " (distribution.gpu_aware: auto, a trial send of device memory " + trouble + ")"};
    return;
  }
  choice() = wanted == GpuAware::on ? Choice{true, straight + " (distribution.gpu_aware: on)"}
                                    : Choice{false, staged + " (distribution.gpu_aware: off)"};
}

const std::string& transfers() { return choice().words; }

int send_device_memory_to_self() {
  constexpr Index bytes = 1 << 20;  // beyond any library's limit for small messages
  const core::Buffer from("self-send", bytes), to("self-send", bytes);
  std::vector<unsigned char> sent(bytes), arrived(bytes, 0);
  for (Index i = 0; i < bytes; ++i) sent[std::size_t(i)] = static_cast<unsigned char>(i * 7 + i / 251);
  core::copy_to_device(from.data(), sent.data(), bytes);
  core::fill_zero(to.data(), bytes);
  if (blocking("MPI_Sendrecv", MPI_Sendrecv, from.data(), int(bytes), MPI_BYTE, 0, 0, to.data(), int(bytes), MPI_BYTE,
               0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
    return 1;
  }
  core::copy_to_host(arrived.data(), to.data(), bytes);
  return arrived == sent ? 0 : 1;
}

Staged::Staged(const RowBlock& block) : origin_(block), visible_(block) {
  if (choice().straight || block.rows.empty()) return;
  copy_.resize(std::size_t(block.bytes()));
  visible_ = {copy_.data(), block.parts, block.rows.size(), block.row_bytes, {0, block.rows.size()}};
}

void Staged::load() {
  if (copy_.empty()) return;
  for_each_part(origin_, copy_.data(), [](void* device, void* host, Index n) { core::copy_to_host(host, device, n); });
}

void Staged::store() {
  if (copy_.empty()) return;
  for_each_part(origin_, copy_.data(),
                [](void* device, void* host, Index n) { core::copy_to_device(device, host, n); });
}

}  // namespace annulus::comm
