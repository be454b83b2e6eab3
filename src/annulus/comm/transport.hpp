// What carries tensors' rows between ranks, as distribution.transport says: MPI, or NCCL between GPUs.
#pragma once

#include "annulus/comm/nccl_channel.hpp"

namespace annulus::comm {

enum class Transport { mpi, nccl };

/// Decides for all messages from now on; collective, the same on all ranks. `nccl` needs the library, and a GPU of
/// its own for every rank: throws an AgreedError with what is missing, or who shares what.
void choose_transport(Transport wanted, const Communicator& comm);

/// Throws Error(usage) where two ranks have the same GPU, which NCCL refuses. `places` has every rank's {host, GPU}.
void require_own_gpus(const std::vector<std::pair<std::string, std::string>>& places);

/// The channel of a communicator, made when it is first asked for; null where MPI carries messages. Collective the
/// first time. It lives as long as the communicator.
NcclChannel* channel_of(const Communicator& comm);

/// Whether NCCL carries rows, and its version: "NCCL 2.28.9"; empty where MPI does.
std::string nccl_in_use();

/// For tests: from now on messages go by these functions and this queue; null: by MPI.
void transport_by(const NcclFunctions* nccl, core::CopyQueue* queue);

}  // namespace annulus::comm
