// Turns PTX into instructions. Called functions are inlined.
#pragma once

#include "operands.hpp"

namespace emulated_gpu {

/// An opcode and its modifiers: "ld", "global", "v4", "f32".
struct Opcode {
  explicit Opcode(std::string_view word);
  bool has(std::string_view part) const;
  const std::string& type() const { return types.back(); }

  std::string name;                // without modifiers
  std::vector<std::string> parts;  // the name with modifiers
  std::vector<std::string> types;  // those of the parts that are types
};

/// Makes one FMA, which rounds once, of a product and a sum or difference that uses it, as ptxas may.
void fuse_products(Kernel& kernel);

class Decoder : private Operands {
 public:
  Decoder(Module& module, Kernel& kernel) : Operands(module, kernel) {}
  void decode(const Module::Function& function);

 private:
  /// A function while its body is read.
  struct Frame {
    std::unordered_map<std::string, std::uint32_t> labels;
    std::vector<std::pair<std::size_t, std::string>> jumps;        // instruction, label
    std::vector<std::pair<std::size_t, std::string>> table_jumps;  // entry of the kernel's tables, label
    std::vector<std::size_t> returns;
    std::size_t outer_first_scope = 0;
    bool is_kernel = false;
  };
  using Given = const std::vector<Operand>&;

  // decoder.cpp: functions
  void enter(const Module::Function& function);
  void leave();
  std::size_t read_kernel_parameters(std::size_t token);
  std::size_t read_arguments(std::size_t token, const std::vector<Symbol>& given);
  std::size_t read_body(std::size_t token);
  std::size_t read_label(std::size_t token);
  std::size_t read_registers(std::size_t token);
  std::size_t read_variable(std::size_t token);
  std::size_t read_call(std::size_t token, Instruction& instruction);

  // instructions.cpp
  std::size_t read_instruction(std::size_t token);
  std::size_t read_branch(std::size_t token, Instruction& instruction);
  void read_operation(Instruction& instruction, const Opcode& op, Given operands);
  void read_barrier(Instruction& instruction, const Opcode& op, Given operands);
  void read_move(Instruction& instruction, const Opcode& op, Given operands);
  void read_comparison(Instruction& instruction, const Opcode& op, Given operands);
  void read_conversion(Instruction& instruction, const Opcode& op, Given operands);
  void read_address_conversion(Instruction& instruction, const Opcode& op, Given operands);
  void read_arithmetic(Instruction& instruction, const Opcode& op, Given operands);

  // memory_instructions.cpp
  void read_memory(Instruction& instruction, const Opcode& op, Given operands);
  void read_atomic(Instruction& instruction, const Opcode& op, Given operands);
  void read_copy(Instruction& instruction, const Opcode& op, Given operands);
  void read_matrices(Instruction& instruction, const Opcode& op, Given operands);
  void read_product(Instruction& instruction, const Opcode& op, Given operands);
  void read_shuffle(Instruction& instruction, const Opcode& op, Given operands);
  void read_vote(Instruction& instruction, const Opcode& op, Given operands);

  /// The row of a source, as numbers of this many bytes; of a wider register it takes the low bytes.
  std::uint32_t source(const Operand& operand, std::size_t bytes);
  /// The row of a result; a wider register is filled with zeros, or the sign.
  std::uint32_t result(const Operand& operand, std::size_t bytes);
  /// Sets the operand `slot` and the displacement; returns the operand's space if known, otherwise `space`.
  std::string set_address(Instruction& instruction, const Operand& operand, std::size_t slot, const std::string& space);
  /// Adds the instruction, with the handler of that name.
  void finish(Instruction& instruction, const std::string& name);

  std::vector<Frame> frames_;
  std::unordered_map<std::string, std::vector<std::string>> tables_;
  std::vector<Instruction> behind_;  // these fill the rest of wider registers
  std::size_t here_ = 0;             // the instruction's token
  std::uint32_t carry_ = 0;          // row of the carries; 0 until one is needed
};

}  // namespace emulated_gpu
