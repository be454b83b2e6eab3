// Instructions that compute, and branches: which handler, and which rows.
#include "decoder.hpp"

namespace emulated_gpu {
namespace {

using What = Operand::What;

bool is_any(std::string_view word, std::initializer_list<std::string_view> of) {
  for (const std::string_view one : of) {
    if (word == one) return true;
  }
  return false;
}

/// A copy of the low bytes, or into a wider row.
Instruction resizing(std::uint32_t to, std::size_t to_bytes, std::uint32_t from, std::size_t from_bytes) {
  Instruction instruction;
  instruction.run = handler_of("resize");
  instruction.of[0] = to;
  instruction.of[1] = from;
  instruction.bytes = std::uint8_t(to_bytes);
  instruction.elements = std::uint8_t(from_bytes);
  return instruction;
}

}  // namespace

std::uint32_t Decoder::source(const Operand& operand, std::size_t bytes) {
  switch (operand.what) {
    case What::in_register: {
      if (operand.reg.bytes < bytes) unknown(here_, "a register too small");
      if (operand.reg.bytes == bytes) return operand.reg.at;
      const std::uint32_t low = new_row(bytes);
      add(resizing(low, bytes, operand.reg.at, operand.reg.bytes));
      return low;
    }
    case What::number:
      return constant_row(bytes == 1 ? std::uint64_t(operand.number != 0) : operand.number, bytes);
    case What::symbol:
      return address_row(operand, bytes, here_);
    default:
      unknown(here_, "a source");
  }
}

std::uint32_t Decoder::result(const Operand& operand, std::size_t bytes) {
  if (operand.what == What::none) return new_row(bytes);
  if (operand.what != What::in_register || operand.reg.bytes < bytes) unknown(here_, "a result");
  if (operand.reg.bytes == bytes) return operand.reg.at;
  const std::uint32_t low = new_row(bytes);
  behind_.push_back(resizing(operand.reg.at, operand.reg.bytes, low, bytes));
  return low;
}

void Decoder::finish(Instruction& instruction, const std::string& name) {
  instruction.run = handler_of(name);
  if (instruction.run == nullptr) unknown(here_, name);
  add(instruction);
  for (Instruction& more : behind_) {
    more.is_guarded = instruction.is_guarded;
    more.guard_is_negated = instruction.guard_is_negated;
    more.guard = instruction.guard;
    more.is_signed = instruction.is_signed;
    more.line = instruction.line;
    add(more);
  }
  behind_.clear();
}

/// @!%p1 add.s32 %r1, %r2, 16;
std::size_t Decoder::read_instruction(std::size_t i) {
  Instruction instruction;
  if (text(i) == "@") {
    instruction.is_guarded = true;
    instruction.guard_is_negated = text(++i) == "!";
    if (instruction.guard_is_negated) ++i;
    const Register* guard = register_of(std::string(text(i++)));
    if (guard == nullptr) unknown(i, "a guard");
    instruction.guard = guard->at;
  }
  instruction.line = line(i);
  here_ = i;
  const Opcode op(text(i++));
  if (op.name == "call") return read_call(i, instruction);
  if (op.name == "bra" || op.name == "brx") return read_branch(i, instruction);
  std::vector<Operand> operands;
  i = read_all(i, operands);
  instruction.is_signed = !op.types.empty() && op.types[0][0] == 's';
  read_operation(instruction, op, operands);
  return i;
}

/// bra label;  brx.idx %r1, table;
std::size_t Decoder::read_branch(std::size_t i, Instruction& instruction) {
  if (text(i + 1) == ";") {
    instruction.kind = Kind::branch;
    frames_.back().jumps.emplace_back(add(instruction), std::string(text(i)));
    return i + 2;
  }
  const Register* number = register_of(std::string(text(i)));
  if (number == nullptr || number->bytes != 4) unknown(i, "the number of a branch");
  instruction.kind = Kind::branch_table;
  instruction.of[0] = number->at;
  instruction.target = std::uint32_t(kernel_.tables.size());
  for (const std::string& target : tables_.at(std::string(text(i + 2)))) {
    frames_.back().table_jumps.emplace_back(kernel_.tables.size(), target);
    kernel_.tables.push_back(0);
  }
  add(instruction);
  return i + 4;
}

void Decoder::read_operation(Instruction& instruction, const Opcode& op, Given operands) {
  const std::string& name = op.name;
  if (name == "ret" && !frames_.back().is_kernel) {
    instruction.kind = Kind::branch;
    frames_.back().returns.push_back(add(instruction));
  } else if (name == "ret" || name == "exit") {
    instruction.kind = Kind::exit;
    add(instruction);
  } else if (is_any(name, {"membar", "fence"})) {
    kernel_.has_fences = true;  // nothing to do: accesses of a thread are complete at once
  } else if (is_any(name, {"nanosleep", "prefetch", "prefetchu", "discard", "pmevent"})) {
  } else if (name == "trap" || name == "brkpt") {
    finish(instruction, "trap");
  } else if (name == "bar" || name == "barrier") {
    read_barrier(instruction, op, operands);
  } else if (name == "mov") {
    read_move(instruction, op, operands);
  } else if (is_any(name, {"ld", "ldu", "st"})) {
    read_memory(instruction, op, operands);
  } else if (name == "atom" || name == "red") {
    read_atomic(instruction, op, operands);
  } else if (name == "cp") {
    read_copy(instruction, op, operands);
  } else if (name == "ldmatrix") {
    read_matrices(instruction, op, operands);
  } else if (name == "mma") {
    read_product(instruction, op, operands);
  } else if (name == "shfl") {
    read_shuffle(instruction, op, operands);
  } else if (is_any(name, {"vote", "activemask", "redux"})) {
    read_vote(instruction, op, operands);
  } else if (name == "setp") {
    read_comparison(instruction, op, operands);
  } else if (name == "cvt") {
    read_conversion(instruction, op, operands);
  } else if (name == "cvta" || name == "isspacep") {
    read_address_conversion(instruction, op, operands);
  } else {
    read_arithmetic(instruction, op, operands);
  }
}

void Decoder::read_barrier(Instruction& instruction, const Opcode& op, Given operands) {
  if (op.has("warp")) {
    instruction.kind = Kind::warp_wide;
    instruction.members = source(operands[0], 4);
    return finish(instruction, "bar.warp.sync");
  }
  if (op.has("red") || op.has("arrive")) unknown(here_, "this kind of barrier");
  instruction.kind = Kind::barrier;
  instruction.of[0] = source(operands[0], 4);
  instruction.of[1] = operands.size() > 1 ? source(operands[1], 4) : constant_row(0, 4);  // 0: all threads
  add(instruction);
}

void Decoder::read_move(Instruction& instruction, const Opcode& op, Given operands) {
  const std::size_t bytes = bytes_of_type(op.type());
  const bool packs = operands[1].what == What::list;
  if (packs || operands[0].what == What::list) {
    const std::vector<Operand>& list = operands[packs ? 1 : 0].list;
    instruction.elements = std::uint8_t(list.size());
    instruction.bytes = std::uint8_t(bytes / list.size());
    instruction.of[0] = packs ? result(operands[0], bytes) : source(operands[1], bytes);
    for (std::size_t n = 0; n < list.size(); ++n)
      instruction.of[n + 1] = packs ? source(list[n], instruction.bytes) : result(list[n], instruction.bytes);
    return finish(instruction, packs ? "pack" : "unpack");
  }
  instruction.of[0] = result(operands[0], bytes);
  instruction.of[1] = source(operands[1], bytes);
  finish(instruction, bytes == 1 ? "mov.pred" : "mov.b" + std::to_string(8 * bytes));
}

/// setp.lt.and.s32 %p1|%p2, %r1, %r2, %p3;
void Decoder::read_comparison(Instruction& instruction, const Opcode& op, Given operands) {
  const std::size_t bytes = bytes_of_type(op.type());
  instruction.of[0] = result(operands[0], 1);
  instruction.of[1] = source(operands[1], bytes);
  instruction.of[2] = source(operands[2], bytes);
  instruction.of[3] = operands[0].second.bytes != 0 ? operands[0].second.at : new_row(1);
  if (operands.size() > 3) {
    instruction.of[4] = source(operands[3], 1);
    instruction.is_negated = operands[3].is_negated;
    instruction.combination = op.has("and") ? Combination::both : op.has("or") ? Combination::either : Combination::one;
  }
  finish(instruction, "setp." + op.parts[1] + "." + op.type());
}

/// cvt.rzi.s32.f32 %r1, %f1;  cvt.rn.bf16x2.f32 %r1, %f1, %f2;
void Decoder::read_conversion(Instruction& instruction, const Opcode& op, Given operands) {
  std::string name = "cvt";
  for (const std::string& part : op.parts) {
    if (is_any(part, {"rni", "rzi", "rmi", "rpi", "rz", "rm", "rp"})) name += "." + part;
    if (is_any(part, {"rna", "rs", "sat", "relu", "satfinite"})) unknown(here_, "this kind of conversion");
  }
  instruction.of[0] = result(operands[0], bytes_of_type(op.types[0]));
  for (std::size_t n = 1; n < operands.size(); ++n) instruction.of[n] = source(operands[n], bytes_of_type(op.types[1]));
  finish(instruction, name + "." + op.types[0] + "." + op.types[1]);
}

/// cvta.to.shared.u64 %rd1, %rd2; global and generic addresses are the same.
void Decoder::read_address_conversion(Instruction& instruction, const Opcode& op, Given operands) {
  const bool asks = op.name == "isspacep";
  if (!asks && op.type() != "u64") unknown(here_, "addresses of 32 bits");
  instruction.of[0] = result(operands[0], asks ? 1 : 8);
  instruction.of[1] = source(operands[1], 8);
  const std::string space = op.has("shared") ? "shared" : op.has("local") ? "local" : "global";
  if (asks) return finish(instruction, "isspacep." + space);
  finish(instruction, space == "global" ? "mov.b64" : std::string(op.has("to") ? "cvta.to." : "cvta.") + space);
}

/// What has one result and up to four sources.
void Decoder::read_arithmetic(Instruction& instruction, const Opcode& op, Given operands) {
  const std::string& name = op.name;
  if (op.types.empty() || operands.size() < 2) unknown(here_, name);
  const std::string& type = op.types[0];
  const std::size_t bytes = bytes_of_type(type), twice = 2 * bytes;
  const bool is_wide = op.has("wide"), is_approximate = op.has("approx");
  const auto bytes_of_source = [&](std::size_t n) -> std::size_t {
    if (is_any(name, {"shl", "shr"}) && n == 2) return 4;
    if (name == "bfe" && n > 1) return 4;
    if (name == "bfi" && n > 2) return 4;
    if (name == "selp" && n == 3) return 1;
    if (is_wide && n == 3) return twice;
    return bytes;
  };
  const std::size_t bytes_of_result = is_wide                                  ? twice
                                      : is_any(name, {"popc", "clz", "bfind"}) ? 4
                                      : name == "testp"                        ? 1
                                                                               : bytes;
  instruction.of[0] = result(operands[0], bytes_of_result);
  for (std::size_t n = 1; n < operands.size(); ++n) instruction.of[n] = source(operands[n], bytes_of_source(n));
  if (name == "selp") {
    instruction.is_negated = operands[3].is_negated;
    return finish(instruction, "selp.b" + std::to_string(8 * bytes));
  }
  instruction.may_fuse = type[0] == 'f' && is_any(name, {"mul", "add", "sub"}) && op.parts.size() == 2;
  if (op.has("cc") || is_any(name, {"addc", "subc", "madc"})) {
    if (carry_ == 0) carry_ = new_row(1);
    instruction.of[carry_operand] = carry_;
  }
  std::string known = name;
  for (std::size_t n = 1; n < op.parts.size(); ++n) {
    const std::string& part = op.parts[n];
    if (is_any(part, {"rn", "lo", "full", "approx"}) || bytes_of_type(part) != 0) continue;
    if (part == "ftz" && is_approximate) continue;
    known += "." + part;
  }
  finish(instruction, known + "." + type);
}

}  // namespace emulated_gpu
