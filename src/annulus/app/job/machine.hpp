// Which machine a plan is made for, and what the machines of the ranks have in common: memory, instruction sets, GPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/machine.hpp"
#include "annulus/core/memory_bounds.hpp"

namespace annulus::app {

/// The machine that `file` describes, or the built-in default. `on_these_ranks`: the ranks of `comm` will run the plan,
/// so memory and room for windows are at most what is free on their nodes; without a file, ranks_per_node comes from
/// them, too. Collective; the same on every rank. Throws Error(usage).
core::Machine machine_of(const std::optional<std::string>& file, bool on_these_ranks, const comm::Communicator& comm);

/// What a rank gets of the tightest bound that it knows, bounds being shared evenly by the ranks of a node that name
/// them alike.
struct MemoryShare {
  double bytes = 0;    ///< 0: nothing is known
  std::string source;  ///< for the user: "memory cgroup /job_7/step_0, shared by 2 ranks of n1"
};

/// The poorest rank's share, the same on every rank; collective.
MemoryShare memory_share(const comm::Communicator& comm);

/// Bounds that the batch system has set and may hold ranks to without a cgroup: Slurm's --mem (MiB, for all ranks of a
/// node) and --mem-per-cpu (for each CPU of a rank), less the `resident` bytes that the program itself has.
std::vector<core::MemoryBound> batch_bounds(core::Index resident);

/// What plans may take of a GPU's free bytes: a sixteenth, at most 512 MiB, is left for what they do not count, such as
/// partial states and work lists of kernels, their code, which is loaded when it is first launched, and what the driver
/// rounds up to whole pages of 2 MiB.
core::Index plannable_gpu_memory(core::Index free);

/// Limits this rank to "baseline", "avx2", "avx512", "avx512_bf16" or "amx": to compare them, and to get the same bits
/// as on a machine with fewer instructions.
inline constexpr const char* instruction_set_variable = "ANNULUS_INSTRUCTION_SET";

/// Agrees on the instruction set of the kernels, which use it from then on: the best one that the machines of all ranks
/// have. Bits differ between sets, and rows are dealt evenly, so that the slowest machine sets the pace in any case.
/// Returns why some rank does not use its best one: "rank 3 has no avx512"; empty: every rank uses its best.
/// Collective. Throws Error(usage) on all ranks if the variable of any rank names no set.
std::string agree_on_instruction_set(const comm::Communicator& comm);

/// Ranks whose GPUs may add in different ways: their results would depend on who computes what. The first two that
/// differ among kinds of GPUs, by rank: "rank 0 has sm_90, rank 3 sm_80"; empty: there are none. Ranks without a GPU
/// (an empty kind) do not count: they are refused elsewhere.
std::string other_kinds(const std::vector<std::string>& kinds);
/// Names the kinds of the ranks' GPUs where they differ; collective.
std::string other_kinds(const comm::Communicator& comm);

}  // namespace annulus::app
