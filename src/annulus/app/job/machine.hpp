// The machine that a plan is made for, and what the ranks' machines have in common: memory, instruction sets, GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"
#include "annulus/core/memory_bounds.hpp"

namespace annulus::app {

/// The machine that `file` describes, or the built-in default. If `on_these_ranks`, the ranks of `comm` will run the
/// plan: then memory_per_rank is at most memory_share(), and window_per_rank is the smallest share that a rank has of
/// the free memory for MPI windows. If there is also no file, ranks_per_node is that of the fullest node. Collective;
/// the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool on_these_ranks, const comm::Communicator& comm);

/// The memory that a rank may use: the smallest of the rank's shares of memory bounds. If ranks of a node have the same
/// bound, such as the cgroup of a job, the bound is divided evenly among these ranks.
struct MemoryShare {
  double bytes = 0;    ///< 0: no bound is known
  std::string source;  ///< for the user: "memory cgroup /job_7/step_0, shared by 2 ranks of n1"
};

/// Returns the smallest MemoryShare of all ranks; the result is the same on every rank. Collective.
MemoryShare memory_share(const comm::Communicator& comm);

/// Memory limits, in bytes, that the batch system may enforce without a cgroup. This is Slurm's --mem, for all ranks of
/// a node together, or --mem-per-cpu times a rank's CPUs, minus `resident`, the bytes that this process uses. (For
/// --mem, memory_share() subtracts the resident bytes, after it has divided the limit.)
std::vector<core::MemoryBound> batch_bounds(core::Index resident);

/// Returns how many of a GPU's free bytes a plan may use. A sixteenth, at most 512 MiB, is left for what plans do not
/// count: partial states and work lists of kernels, code of kernels (loaded at the first launch), and the driver's
/// rounding to pages of 2 MiB.
core::Index plannable_gpu_memory(core::Index free);

/// Chooses one instruction set for the kernels of all ranks: the best that all their machines have. If sets differed,
/// bits of results would depend on which rank computes what. The common set costs little: ranks have equal parts of the
/// work, so the slowest machine decides the speed anyway. Returns why some rank does not use its best set, "rank 3 has
/// no avx512"; empty if all ranks use their best set. Collective. Throws Error(usage) on all ranks if, on some rank,
/// the environment variable core::instruction_set_variable has an invalid value.
std::string agree_on_instruction_set(const comm::Communicator& comm);

/// Names two ranks with GPUs of different kinds: "rank 0 has sm_90, rank 3 sm_80"; empty if all GPUs are of one kind.
/// Different kinds may add in different orders, so bits would depend on which rank computes what. `kinds` has one text
/// for each rank. Skips ranks without a GPU (an empty text), because another check refuses them.
std::string other_kinds(const std::vector<std::string>& kinds);

}  // namespace annulus::app
