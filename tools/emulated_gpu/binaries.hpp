// What nvcc has put into the program: device code of each file, and the kernels and variables that host code names.
#pragma once

#include <memory>
#include <string>

#include "program.hpp"

namespace emulated_gpu {

/// A file's device code; its PTX is unpacked and read when the first of its kernels or variables is asked for.
struct Binary {
  explicit Binary(const void* wrapper) : wrapper(wrapper) {}
  /// Null if the file has machine code only.
  Module* module();

  const void* wrapper;
  bool is_read = false;
  std::unique_ptr<Module> read;
};

struct Function {
  /// Ends the program where its file has no PTX.
  Kernel& kernel() const;

  Binary* binary = nullptr;
  std::string name;
  int most_dynamic = 48 * 1024;  // bytes of shared memory that a launch may add
};

void add_function(const void* host, Binary* binary, const char* name);
/// Finds a function by the host's pointer for it, or by its own address; null if there is none.
Function* function_of(const void* host_or_function);

void add_variable(const void* host, Binary* binary, const char* name);
/// Sets the variable's device address, 0 if no kernel uses it; returns false if there is no such variable.
bool find_variable(const void* host, std::uint64_t& address);

}  // namespace emulated_gpu
