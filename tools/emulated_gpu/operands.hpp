// Operands of PTX as they are written, and the names of registers and addresses.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "program.hpp"
#include "warp.hpp"

namespace emulated_gpu {

struct Register {
  std::uint32_t at = 0;
  std::uint8_t bytes = 0;
};

/// A named location. A kernel's parameters are in `global`: their address is an offset into the launch's parameters.
struct Symbol {
  Space space = Space::local;
  std::uint64_t address = 0;
};

/// %r1, %r1|%p2, 16, name+8, [%rd1+16], {%r1, %r2}, !%p1
struct Operand {
  enum class What { none, in_register, number, symbol, address, list } what = What::none;
  Register reg;
  Register second;           // behind '|'; 0 bytes: none
  bool is_negated = false;   // !
  std::uint64_t number = 0;  // or displacement
  std::string name;          // of a symbol
  std::vector<Operand> list;
};

/// Names of a function, or of a part of it in braces.
struct Scope {
  std::unordered_map<std::string, Register> registers;
  std::unordered_map<std::string, Symbol> symbols;
};

/// Reads operands from a module's tokens and gives rows of the kernel's register file to what they name.
class Operands {
 public:
  Operands(Module& module, Kernel& kernel) : module_(module), kernel_(kernel) {}

  std::string_view text(std::size_t token) const { return module_.tokens[token].text; }
  std::uint32_t line(std::size_t token) const { return module_.tokens[token].line; }
  int integer(std::size_t token) const;
  /// Ends the program with a message: what is not known, and its line.
  [[noreturn]] void unknown(std::size_t token, const std::string& what) const;

  /// A row for 32 numbers.
  std::uint32_t new_row(std::size_t bytes);
  /// The row of one number, which is the same for all lanes.
  std::uint32_t constant_row(std::uint64_t value, std::size_t bytes);

  /// One operand, or all up to ';'; both return the token behind.
  std::size_t read(std::size_t token, Operand& operand);
  std::size_t read_all(std::size_t token, std::vector<Operand>& operands);

  const Register* register_of(const std::string& name) const;
  const Symbol* symbol_of(const std::string& name);
  bool is_open_array(const std::string& name) const;
  /// The row of a name's address.
  std::uint32_t address_row(const Operand& operand, std::size_t bytes, std::size_t token);

  /// Scopes of the function that is read begin at `first_scope`: a called one does not see its caller's.
  std::vector<Scope> scopes;
  std::size_t first_scope = 0;
  std::size_t shared_used = 0, local_used = 0;  // bytes

 protected:
  std::size_t add(const Instruction& instruction);
  /// Open arrays begin behind the kernel's own shared memory, whose size is known at the end.
  void place_open_arrays();
  void begins_in_open_array(std::size_t instruction) { open_displacements_.push_back(instruction); }

  Module& module_;
  Kernel& kernel_;

 private:
  std::size_t read_address(std::size_t token, Operand& operand);

  std::map<std::pair<std::uint64_t, std::size_t>, std::uint32_t> known_constants_;
  std::vector<std::size_t> open_constants_, open_displacements_;
};

}  // namespace emulated_gpu
