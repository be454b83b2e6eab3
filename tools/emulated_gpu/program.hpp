// Programs as the emulated GPU runs them: a module's variables, and its kernels as lists of instructions whose operands
// are rows of a warp's register file. Source of what instructions mean: NVIDIA, PTX ISA 9.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace emulated_gpu {

inline constexpr int lanes_of_warp = 32;
inline constexpr std::uint32_t all_lanes = 0xffffffffu;
/// Bytes of shared memory that an sm_90 keeps for itself: a block's begin behind them.
inline constexpr std::uint32_t first_shared = 1024;

struct Warp;
struct Instruction;
using Handler = void (*)(Warp&, const Instruction&, std::uint32_t lanes);

/// How the scheduler treats an instruction.
enum class Kind : std::uint8_t { plain, branch, branch_table, exit, barrier, warp_wide };
/// How the result of a comparison is combined with a further predicate.
enum class Combination : std::uint8_t { none, both, either, one };

/// Operands are byte offsets from the start of the warp's registers. The values of 32 lanes lie there one after
/// another; so do constants of the program.
struct Instruction {
  Handler run = nullptr;
  Kind kind = Kind::plain;
  bool is_guarded = false, guard_is_negated = false;
  bool is_negated = false;          // of a predicate among the operands
  bool is_signed = false;           // what fills the rest of a wider register
  bool may_fuse = false;            // a product, sum or difference that ptxas may round together with another
  bool has_narrow_address = false;  // of 32 bits
  Combination combination = Combination::none;
  std::uint8_t elements = 1;  // of a vector
  std::uint8_t bytes = 0;     // of one element, or of a copy
  std::uint32_t guard = 0;
  std::uint32_t members = 0;  // warp_wide: lanes that must take part
  std::uint32_t of[14] = {};  // results first; of an access to memory the address first
  std::int64_t number = 0;    // displacement of an address, offset of a parameter
  std::uint32_t target = 0;   // of a branch; first entry of a table of targets
  std::uint32_t line = 0;     // of the module's text, for messages
};

/// The operand of additions with a carry that is the carry's row.
inline constexpr std::size_t carry_operand = 5;

/// Rows of 32-bit numbers that each warp has in front of the program's registers.
enum Special : std::uint32_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  smid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  dynamic_smem_size,
  total_smem_size,
  special_registers
};
inline constexpr std::uint32_t bytes_of_special = special_registers * 4 * lanes_of_warp;

struct Constant {
  std::uint32_t at;    // row of the register file
  std::uint8_t bytes;  // of each lane's number
  std::uint64_t value;
};

struct Parameter {
  std::uint32_t offset, bytes;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::uint32_t> tables;  // targets of branches by number
  std::vector<Constant> constants;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t register_bytes = bytes_of_special;
  std::uint32_t local_bytes = 0;   // of a thread
  std::uint32_t shared_bytes = 0;  // of a block, without what the launch adds
  std::uint32_t most_threads = 1024;
  std::uint32_t least_blocks = 1;  // side by side on a multiprocessor, as the program asks
  bool has_fences = false;         // so its blocks may wait for one another
  const struct Module* module = nullptr;
};

/// A file's device code. Kernels are read when they are first asked for.
struct Module {
  struct Token {
    std::string_view text;
    std::uint32_t line;
  };
  struct Function {
    std::size_t name = 0;  // token
    bool is_kernel = false;
  };
  struct Variable {
    std::size_t bytes = 0;
    std::size_t element = 1;  // bytes of one
    std::size_t initial = 0;  // token behind '='; 0: zeros
    std::uint64_t address = 0;
  };

  explicit Module(std::string text);
  /// Null if there is none of that name.
  Kernel* kernel(const std::string& name);
  /// Device address of a variable, 0 if there is none; the first call allocates memory.
  std::uint64_t variable(const std::string& name);
  std::string_view line(std::uint32_t number) const;

  std::string text;
  std::vector<Token> tokens;
  std::unordered_map<std::string, Function> functions;
  std::unordered_map<std::string, Variable> variables, shared_variables;
  std::vector<std::string> open_arrays;  // of shared memory, whose size the launch says

 private:
  std::size_t read_function(std::size_t token);
  std::size_t read_variable(std::size_t token);
  void place_variables();

  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;
  bool has_memory_ = false;
};

/// Bytes of a type as PTX names it, "f32": 4; 0 where it is none.
std::size_t bytes_of_type(std::string_view type);

/// The handler of an instruction, "add.s32", whose operands are rows. Null if it is unknown.
Handler handler_of(const std::string& name);

/// Reads a kernel; ends the program if it has an unknown instruction or operand.
void decode(Module& module, const Module::Function& function, Kernel& kernel);

/// Ends the program with a message.
[[noreturn]] void fail(const std::string& message);

}  // namespace emulated_gpu
