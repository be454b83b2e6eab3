// Chooses what carries tensors' rows between ranks, as distribution.transport says: MPI, or NCCL between GPUs.
#pragma once

#include "annulus/comm/nccl_channel.hpp"

namespace annulus::comm {

enum class Transport { mpi, nccl };

/// Decides what carries rows from now on (windows and exchanges with Carrier::mpi always use MPI); collective, with the
/// same result on all ranks. `nccl` needs NCCL's library and one GPU per rank. Without them this function throws an
/// AgreedError that names what is missing, or which ranks share a GPU.
void choose_transport(Transport wanted, const Communicator& comm);

/// Throws Error(usage) if two ranks use the same GPU, which NCCL forbids. `locations` has every rank's {host, GPU}.
void require_own_gpus(const std::vector<std::pair<std::string, std::string>>& locations);

/// The channel of a communicator; null if MPI carries messages. The first call for a communicator is collective and
/// makes the channel, which lives as long as the communicator.
NcclChannel* channel_of(const Communicator& comm);

/// Returns NCCL's name and version ("NCCL 2.28.9") if NCCL carries rows; empty if MPI does.
std::string nccl_in_use();

/// For tests: from now on these functions and this queue carry messages; if both are null, MPI does.
void transport_by(const NcclFunctions* nccl, core::CopyQueue* queue);

}  // namespace annulus::comm
