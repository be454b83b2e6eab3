// A thread of a GPU from sm_80 on, as block programs see it (machine.hpp). This is the only file with PTX; the PTX ISA
// describes the instructions in its chapters on cp.async, ldmatrix, mma, cvt and ex2.
#pragma once

#include <Kokkos_Core.hpp>

#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/kernels/cuda/machine.hpp"

namespace annulus::kernels::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

/// The block's shared memory; the launch sets its size.
extern __shared__ __align__(128) unsigned char block_memory[];

class GpuMachine {
 public:
  __device__ GpuMachine() : start_(Shared(__cvta_generic_to_shared(block_memory))) {}

  __device__ int thread() const { return int(threadIdx.x); }
  __device__ void barrier() { __syncthreads(); }

  template <class T>
  __device__ T load(Shared at) const {
    return *reinterpret_cast<const T*>(block_memory + at);
  }
  template <class T>
  __device__ void store(Shared at, T x) {
    *reinterpret_cast<T*>(block_memory + at) = x;
  }

  __device__ void copy_16(Shared to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(start_ + to), "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
  }
  __device__ void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
  __device__ void wait() { asm volatile("cp.async.wait_group 0;\n" ::: "memory"); }

  __device__ Words4 load_matrices(Shared at) const {
    Words4 w;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(w.of[0]), "=r"(w.of[1]), "=r"(w.of[2]), "=r"(w.of[3])
                 : "r"(start_ + at)
                 : "memory");
    return w;
  }
  __device__ Words4 load_transposed(Shared at) const {
    Words4 w;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(w.of[0]), "=r"(w.of[1]), "=r"(w.of[2]), "=r"(w.of[3])
                 : "r"(start_ + at)
                 : "memory");
    return w;
  }

  template <class Stored>
  __device__ void multiply_16(float (&c)[4], const Words4& a, std::uint32_t b0, std::uint32_t b1) const {
    if constexpr (std::is_same_v<Stored, core::BFloat16>) {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1));
    } else {
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1));
    }
  }
  __device__ void multiply_tf32(float (&c)[4], const Words4& a, std::uint32_t b0, std::uint32_t b1) const {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.of[0]), "r"(a.of[1]), "r"(a.of[2]), "r"(a.of[3]), "r"(b0), "r"(b1));
  }
  __device__ void multiply_64(double (&c)[2], double a, double b) const {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};\n"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
  }

  template <class Stored>
  __device__ std::uint32_t pack(float low, float high) const {
    std::uint32_t both;
    if constexpr (std::is_same_v<Stored, core::BFloat16>) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(both) : "f"(high), "f"(low));
    }
    return both;
  }
  /// GPUs from sm_90 on round with one instruction, ties to even. Older GPUs take three instructions, and round ties
  /// away from zero.
  __device__ std::uint32_t round_tf32(float x) const {
    std::uint32_t rounded;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(x));
#else
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(rounded) : "f"(x));
#endif
    return rounded;
  }
  __device__ float exp2(float x) const {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
    return power;
  }
  __device__ double exp2(double x) const { return core::exp2(x); }
  __device__ float larger(float x, float y) const { return fmaxf(x, y); }
  __device__ double larger(double x, double y) const { return fmax(x, y); }

  template <class T>
  __device__ T from_lane_xor(T x, int mask) const {
    return __shfl_xor_sync(0xffffffffu, x, mask);
  }
  __device__ bool any(bool flag) const { return __any_sync(0xffffffffu, flag) != 0; }

 private:
  Shared start_;  // address of block_memory in PTX's state space of shared memory
};

#endif

}  // namespace annulus::kernels::cuda
