// Small kernels, written as text, on the emulated GPU.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "memory.hpp"
#include "program.hpp"
#include "warp.hpp"

namespace emulated_gpu::test {

/// A kernel k(out, in) with registers %p, %h (16 bits), %r, %f, %d (floating) and %x (64 bits). %x1 is out, %x2 in, %r1
/// the thread's number, %x3 8 times it. `before` is text before the kernel; a .shared array s has `shared` bytes.
struct Text {
  std::string body;
  std::string before = "";
  int shared = 0;

  std::string whole() const {
    const std::string array = shared > 0 ? ".shared .align 16 .b8 s[" + std::to_string(shared) + "];\n" : "";
    return ".version 9.0\n.target sm_90\n.address_size 64\n" + before +
           "\n.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1)\n{\n" + array +
           ".reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<40>;\n.reg .f32 %f<9>;\n.reg .f64 %d<9>;\n.reg .b64 "
           "%x<9>;\n"
           "ld.param.u64 %x1, [k_param_0];\nld.param.u64 %x2, [k_param_1];\nmov.u32 %r1, %tid.x;\n"
           "mul.wide.u32 %x3, %r1, 8;\n" +
           body + "\nret;\n}\n";
  }
};

/// Runs the kernel. Returns what `threads` threads of each block leave in `out`, eight bytes for each; `in` is the
/// second parameter.
inline std::vector<std::uint64_t> run_text(const Text& text, std::uint32_t threads,
                                           const std::vector<std::uint64_t>& in = {0}, std::uint32_t blocks = 1) {
  Module module(text.whole());
  const std::size_t bytes = threads * blocks * 8, in_bytes = in.size() * 8;
  const std::uint64_t out_at = allocate(bytes), in_at = allocate(in_bytes);
  std::memcpy(found(in_at, in_bytes), in.data(), in_bytes);
  Launch launch;
  launch.kernel = module.kernel("k");
  launch.grid.x = blocks;
  launch.block.x = threads;
  launch.parameters.resize(16);
  std::memcpy(launch.parameters.data(), &out_at, 8);
  std::memcpy(launch.parameters.data() + 8, &in_at, 8);
  run(launch);
  std::vector<std::uint64_t> out(threads * blocks);
  std::memcpy(out.data(), found(out_at, bytes), bytes);
  free_device(out_at);
  free_device(in_at);
  return out;
}

/// Stores %x4, or %r4, as the thread's result.
inline const std::string store_x4 = "add.s64 %x5, %x1, %x3;\nst.global.u64 [%x5], %x4;\n";
inline const std::string store_r4 = "cvt.u64.u32 %x4, %r4;\n" + store_x4;

}  // namespace emulated_gpu::test
