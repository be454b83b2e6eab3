// The scheduler. Lanes of a warp that are at the same instruction run it together, those furthest behind first:
// branches join again, and a loop that some lanes have left is finished before the others go on.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "memory.hpp"
#include "warp.hpp"

namespace emulated_gpu {
namespace {

void set_special(Warp& warp) {
  const Block& block = *warp.block;
  const Launch& launch = *block.launch;
  std::uint32_t(*rows)[lanes_of_warp] = reinterpret_cast<std::uint32_t(*)[lanes_of_warp]>(warp.registers);
  for (std::uint32_t lane = 0; lane < lanes_of_warp; ++lane) {
    const std::uint32_t thread = warp.index * lanes_of_warp + lane;
    rows[tid_x][lane] = thread % launch.block.x;
    rows[tid_y][lane] = thread / launch.block.x % launch.block.y;
    rows[tid_z][lane] = thread / launch.block.x / launch.block.y;
    rows[ntid_x][lane] = launch.block.x;
    rows[ntid_y][lane] = launch.block.y;
    rows[ntid_z][lane] = launch.block.z;
    rows[ctaid_x][lane] = block.index.x;
    rows[ctaid_y][lane] = block.index.y;
    rows[ctaid_z][lane] = block.index.z;
    rows[nctaid_x][lane] = launch.grid.x;
    rows[nctaid_y][lane] = launch.grid.y;
    rows[nctaid_z][lane] = launch.grid.z;
    rows[laneid][lane] = lane;
    rows[warpid][lane] = warp.index;
    rows[smid][lane] = 0;
    rows[lanemask_eq][lane] = 1u << lane;
    rows[lanemask_lt][lane] = (1u << lane) - 1;
    rows[lanemask_le][lane] = (2u << lane) - 1;
    rows[lanemask_gt][lane] = ~((2u << lane) - 1);
    rows[lanemask_ge][lane] = ~((1u << lane) - 1);
    rows[dynamic_smem_size][lane] = launch.dynamic_bytes;
    rows[total_smem_size][lane] = launch.dynamic_bytes + launch.kernel->shared_bytes;
  }
}

void set_constants(Warp& warp, const Kernel& kernel) {
  for (const Constant& constant : kernel.constants) {
    for (int lane = 0; lane < lanes_of_warp; ++lane)
      std::memcpy(warp.registers + constant.at + std::size_t(lane) * constant.bytes, &constant.value, constant.bytes);
  }
}

std::uint32_t guarded(Warp& warp, const Instruction& instruction, std::uint32_t lanes) {
  if (!instruction.is_guarded) return lanes;
  const auto* guard = warp.row<std::uint8_t>(instruction.guard);
  std::uint32_t mask = 0;
  for (int lane = 0; lane < lanes_of_warp; ++lane)
    mask |= std::uint32_t((guard[lane] != 0) != instruction.guard_is_negated) << lane;
  return lanes & mask;
}

/// Ready lanes that are at the same place.
struct Group {
  std::uint32_t lanes = 0;
  std::uint32_t pc = 0;
  std::uint32_t next = ~0u;  // the first instruction where other lanes wait: there they join
};

Group furthest_behind(const Warp& warp) {
  Group group;
  group.pc = ~0u;
  for_lanes(warp.ready, [&](int lane) { group.pc = std::min(group.pc, warp.pc[lane]); });
  for_lanes(warp.ready, [&](int lane) {
    if (warp.pc[lane] == group.pc) {
      group.lanes |= 1u << lane;
    } else {
      group.next = std::min(group.next, warp.pc[lane]);
    }
  });
  return group;
}

void set_pc(Warp& warp, std::uint32_t lanes, std::uint32_t pc) {
  for_lanes(lanes, [&](int lane) { warp.pc[lane] = pc; });
}

/// An instruction of several lanes: it runs when all lanes that take part have reached it or have exited.
void run_together(Warp& warp, const Instruction& instruction, const Group& group, std::uint32_t lanes) {
  set_pc(warp, group.lanes & ~lanes, group.pc + 1);
  if (lanes == 0) return;
  std::uint32_t present = lanes;
  for_lanes(warp.blocked, [&](int lane) {
    if (warp.pc[lane] == group.pc) present |= 1u << lane;
  });
  const std::uint32_t members = warp.row<std::uint32_t>(instruction.members)[std::countr_zero(lanes)];
  if ((members & ~warp.exited & ~present) != 0) {
    set_pc(warp, lanes, group.pc);
    warp.blocked |= lanes;
    warp.ready &= ~lanes;
    return;
  }
  instruction.run(warp, instruction, present);
  warp.blocked &= ~present;
  warp.ready |= present;
  set_pc(warp, present, group.pc + 1);
}

void arrive_at_barrier(Warp& warp, const Instruction& instruction, std::uint32_t lanes, std::uint32_t pc) {
  for_lanes(lanes, [&](int lane) {
    warp.barrier[lane] = warp.row<std::uint32_t>(instruction.of[0])[lane];
    warp.barrier_threads[lane] = warp.row<std::uint32_t>(instruction.of[1])[lane];
    warp.pc[lane] = pc + 1;
  });
  warp.at_barrier |= lanes;
  warp.ready &= ~lanes;
}

/// Lanes that wait for lanes that exit need not wait any more.
void exit_lanes(Warp& warp, std::uint32_t lanes) {
  warp.exited |= lanes;
  warp.ready = (warp.ready & ~lanes) | warp.blocked;
  warp.blocked = 0;
}

void take_branch(Warp& warp, const Instruction& instruction, const Group& group, std::uint32_t lanes) {
  set_pc(warp, group.lanes & ~lanes, group.pc + 1);
  if (instruction.kind == Kind::branch) {
    set_pc(warp, lanes, instruction.target);
    return;
  }
  const auto* number = warp.row<std::uint32_t>(instruction.of[0]);
  const auto& tables = warp.block->launch->kernel->tables;
  for_lanes(lanes, [&](int lane) { warp.pc[lane] = tables[instruction.target + number[lane]]; });
}

/// Runs a group until its lanes part, wait, or meet others.
void run_group(Warp& warp, const std::vector<Instruction>& code, Group group) {
  while (group.pc < group.next) {
    const Instruction& instruction = code[group.pc];
    const std::uint32_t lanes = guarded(warp, instruction, group.lanes);
    switch (instruction.kind) {
      case Kind::plain:
        if (lanes != 0) instruction.run(warp, instruction, lanes);
        ++group.pc;
        break;
      case Kind::branch:
        if (lanes != group.lanes && lanes != 0) return take_branch(warp, instruction, group, lanes);
        group.pc = lanes != 0 ? instruction.target : group.pc + 1;
        break;
      case Kind::branch_table:
        return take_branch(warp, instruction, group, lanes);
      case Kind::warp_wide:
        return run_together(warp, instruction, group, lanes);
      case Kind::exit:
        set_pc(warp, group.lanes, group.pc + 1);
        return exit_lanes(warp, lanes);
      case Kind::barrier:
        set_pc(warp, group.lanes, group.pc + 1);
        return arrive_at_barrier(warp, instruction, lanes, group.pc);
    }
  }
  set_pc(warp, group.lanes, group.pc);
}

/// Releases threads at barriers that all have reached; returns whether there were any.
bool pass_barriers(Block& block) {
  bool has_passed = false;
  for (std::uint32_t barrier = 0; barrier < 16; ++barrier) {
    std::uint64_t arrived = 0, alive = 0, expected = 0;
    for (Warp& warp : block.warps) {
      alive += std::uint64_t(std::popcount(warp.ready | warp.blocked | warp.at_barrier));
      for_lanes(warp.at_barrier, [&](int lane) {
        if (warp.barrier[lane] != barrier) return;
        ++arrived;
        expected = warp.barrier_threads[lane];
      });
    }
    if (arrived == 0 || arrived < (expected == 0 ? alive : expected)) continue;
    for (Warp& warp : block.warps) {
      for_lanes(warp.at_barrier, [&](int lane) {
        if (warp.barrier[lane] != barrier) return;
        warp.at_barrier &= ~(1u << lane);
        warp.ready |= 1u << lane;
      });
    }
    ++block.epoch;
    has_passed = true;
  }
  return has_passed;
}

[[noreturn]] void fail_stuck(const Block& block) {
  std::string text = fmt::format("block {},{},{} is stuck: threads wait for others that do not come\n  in {}",
                                 block.index.x, block.index.y, block.index.z, block.launch->kernel->name);
  const Kernel& kernel = *block.launch->kernel;
  for (const Warp& warp : block.warps) {
    for_lanes(warp.blocked | warp.at_barrier, [&](int lane) {
      const bool waits_for_warp = (warp.blocked >> lane & 1) != 0;
      const std::uint32_t line = kernel.code[warp.pc[lane] - (waits_for_warp ? 0 : 1)].line;
      text += fmt::format("\n  thread {} in line {}: {}", warp.index * lanes_of_warp + std::uint32_t(lane), line,
                          kernel.module->line(line));
    });
  }
  fail(text);
}

/// Counts the blocks of all launches from 1; 0 in notes about memory means that no block has touched it.
std::uint32_t blocks_so_far = 1;

void begin(Block& block) {
  const std::uint64_t threads = block.launch->block.count();
  std::fill(block.shared.begin(), block.shared.end(), std::byte(0xff));
  std::fill(block.touched.begin(), block.touched.end(), Touched{});
  block.epoch = 1;
  block.number = blocks_so_far++;
  for (Warp& warp : block.warps) {
    const std::uint64_t lanes =
        std::min<std::uint64_t>(threads - std::uint64_t(warp.index) * lanes_of_warp, lanes_of_warp);
    warp.ready = lanes == lanes_of_warp ? all_lanes : (1u << lanes) - 1;
    warp.exited = ~warp.ready;
    warp.blocked = warp.at_barrier = 0;
    warp.pc.fill(0);
    warp.group.fill(0);
    for (auto& copies : warp.copies) copies.clear();
    std::fill(warp.local.begin(), warp.local.end(), std::byte(0xff));
    set_special(warp);
  }
}

/// downwards: warps are run in descending order.
void run_block(Block& block, bool downwards) {
  begin(block);
  const std::size_t count = block.warps.size();
  for (;;) {
    bool is_over = true;
    for (std::size_t i = 0; i < count; ++i) {
      Warp& warp = block.warps[downwards ? count - 1 - i : i];
      while (warp.ready != 0) run_group(warp, block.launch->kernel->code, furthest_behind(warp));
      is_over &= warp.blocked == 0 && warp.at_barrier == 0;
    }
    if (is_over) return;
    if (!pass_barriers(block)) fail_stuck(block);
  }
}

}  // namespace

void run(Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  const bool downwards = is_set("EMULATED_GPU_DOWNWARDS");
  if (!kernel.parameters.empty()) {
    launch.parameter_address = allocate(std::max<std::size_t>(kernel.parameter_bytes, 16));
    if (launch.parameter_address == 0) fail("no memory for the parameters of " + kernel.name);
    std::memcpy(found(launch.parameter_address, kernel.parameter_bytes), launch.parameters.data(),
                kernel.parameter_bytes);
  }
  launch.first_block = blocks_so_far;
  launch.looks_for_races = is_set("EMULATED_GPU_RACES");
  Block block;
  block.launch = &launch;
  block.shared.resize(kernel.shared_bytes + launch.dynamic_bytes);
  if (launch.looks_for_races) block.touched.resize(block.shared.size());
  const std::size_t warps = std::size_t((launch.block.count() + lanes_of_warp - 1) / lanes_of_warp);
  const std::size_t each = (kernel.register_bytes + 63) / 64 * 64;
  auto* registers = static_cast<std::byte*>(std::aligned_alloc(64, warps * each));
  block.warps.resize(warps);
  for (std::size_t i = 0; i < warps; ++i) {
    block.warps[i].registers = registers + i * each;
    block.warps[i].block = &block;
    block.warps[i].index = std::uint32_t(i);
    block.warps[i].local.resize(std::size_t(kernel.local_bytes) * lanes_of_warp);
    set_constants(block.warps[i], kernel);
  }
  for (block.index.z = 0; block.index.z < launch.grid.z; ++block.index.z)
    for (block.index.y = 0; block.index.y < launch.grid.y; ++block.index.y)
      for (block.index.x = 0; block.index.x < launch.grid.x; ++block.index.x) run_block(block, downwards);
  std::free(registers);
  if (launch.parameter_address != 0) free_device(launch.parameter_address);
}

}  // namespace emulated_gpu
