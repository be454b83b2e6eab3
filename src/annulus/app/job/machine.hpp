// The machine that a plan is made for, and what the ranks' machines have in common: memory, instruction sets, GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"
#include "annulus/core/memory_bounds.hpp"

namespace annulus::app {

/// The machine that `file` describes, or the built-in default. `on_these_ranks`: the ranks of `comm` will run the plan.
/// Memory and room for windows are then at most what is free on their nodes; without a file, ranks_per_node
/// is counted there, too. Collective; the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool on_these_ranks, const comm::Communicator& comm);

/// A rank's share of the tightest bound that it knows. Ranks of a node that name the same bound share it
/// evenly.
struct MemoryShare {
  double bytes = 0;    ///< 0: no bound is known
  std::string source;  ///< for the user: "memory cgroup /job_7/step_0, shared by 2 ranks of n1"
};

/// The smallest share of any rank; the same on every rank; collective.
MemoryShare memory_share(const comm::Communicator& comm);

/// Bounds that the batch system set, and may enforce without a cgroup: Slurm's --mem (MiB, for all ranks of a node) and
/// --mem-per-cpu (for each CPU of a rank). `resident`: bytes that the program itself uses; they are subtracted.
std::vector<core::MemoryBound> batch_bounds(core::Index resident);

/// How many of a GPU's free bytes a plan may use. A sixteenth, at most 512 MiB, is left for what plans do not count:
/// partial states and work lists of kernels, kernel code, which is loaded at the first launch, and the driver's
/// rounding to pages of 2 MiB.
core::Index plannable_gpu_memory(core::Index free);

/// Limits this rank to "baseline", "avx2", "avx512", "avx512_bf16" or "amx". A user sets it to compare them, or to get
/// the same bits as a machine with fewer instructions.
inline constexpr const char* instruction_set_variable = "ANNULUS_INSTRUCTION_SET";

/// Chooses one instruction set for the kernels of all ranks: the best that every machine has. Two sets
/// give different bits; and because rows are shared evenly, the slowest machine decides the speed
/// anyway. Returns why some rank does not use its best set, "rank 3 has no avx512"; empty: all ranks
/// use their best. Collective. Throws Error(usage) on all ranks if the variable of any rank names no
/// set.
std::string agree_on_instruction_set(const comm::Communicator& comm);

/// Names two ranks whose GPUs may add in different orders, so that results would depend on which rank computes what:
/// the first two kinds, "rank 0 has sm_90, rank 3 sm_80"; empty: all are alike. Ranks without a GPU (an empty kind) are
/// skipped; another check refuses them.
std::string other_kinds(const std::vector<std::string>& kinds);

}  // namespace annulus::app
