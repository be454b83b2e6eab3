// Instructions that touch memory, and those that a warp's lanes run together: which handler, and which rows.
#include "decoder.hpp"

namespace emulated_gpu {
namespace {

using What = Operand::What;

/// Parameters and constants are global memory.
std::string space_of(const Opcode& op) {
  for (const std::string& part : op.parts) {
    if (part.starts_with("shared")) return "shared";
    if (part == "local") return "local";
    if (part == "global" || part == "const" || part.starts_with("param")) return "global";
  }
  return "generic";
}

}  // namespace

std::string Decoder::set_address(Instruction& instruction, const Operand& operand, std::size_t slot,
                                 const std::string& space) {
  instruction.number = std::int64_t(operand.number);
  if (operand.reg.bytes != 0) {
    instruction.of[slot] = operand.reg.at;
    instruction.has_narrow_address = operand.reg.bytes == 4;
    return space;
  }
  instruction.of[slot] = constant_row(0, 8);
  if (is_open_array(operand.name)) {
    begins_in_open_array(kernel_.code.size());
    return "shared";
  }
  if (const Symbol* symbol = symbol_of(operand.name)) {
    instruction.number += std::int64_t(symbol->address);
    return symbol->space == Space::global ? "parameter" : symbol->space == Space::shared ? "shared" : "local";
  }
  const std::uint64_t address = operand.name.empty() ? 0 : module_.variable(operand.name);
  if (address == 0 && !operand.name.empty()) unknown(here_, "the name " + operand.name);
  instruction.of[slot] = constant_row(address, 8);
  return space;
}

/// ld.global.v2.f32 {%f1, %f2}, [%rd1+8];  st.shared.u64 [name], %rd1;
void Decoder::read_memory(Instruction& instruction, const Opcode& op, Given operands) {
  const bool stores = op.name == "st";
  instruction.bytes = std::uint8_t(bytes_of_type(op.type()));
  const Operand& value = operands[stores ? 1 : 0];
  const std::vector<Operand> list = value.what == What::list ? value.list : std::vector<Operand>{value};
  instruction.elements = std::uint8_t(list.size());
  for (std::size_t n = 0; n < list.size(); ++n)
    instruction.of[n + 1] = stores ? source(list[n], instruction.bytes) : result(list[n], instruction.bytes);
  const std::string space = set_address(instruction, operands[stores ? 0 : 1], 0, space_of(op));
  finish(instruction, op.name.substr(0, 2) + "." + space);
}

/// atom.global.cas.b32 %r1, [%rd1], %r2, %r3;  red.shared.add.f32 [%rd1], %f1;
void Decoder::read_atomic(Instruction& instruction, const Opcode& op, Given operands) {
  const std::size_t bytes = bytes_of_type(op.type()), address = op.name == "red" ? 0 : 1;
  instruction.bytes = std::uint8_t(bytes);
  instruction.of[1] = address == 0 ? new_row(bytes) : result(operands[0], bytes);
  for (std::size_t n = address + 1; n < operands.size(); ++n)
    instruction.of[n - address + 1] = source(operands[n], bytes);
  const std::string space = set_address(instruction, operands[address], 0, space_of(op));
  for (const std::string& part : op.parts) {
    if (const std::string name = "atom." + space + "." + part + "." + op.type(); handler_of(name) != nullptr)
      return finish(instruction, name);
  }
  unknown(here_, "an atomic operation");
}

/// cp.async.cg.shared.global [%r1], [%rd1], 16, %r2;  cp.async.wait_group 0;
void Decoder::read_copy(Instruction& instruction, const Opcode& op, Given operands) {
  if (op.has("commit_group")) return finish(instruction, "cp.async.commit_group");
  if (op.has("wait_group") || op.has("wait_all")) {
    instruction.number = op.has("wait_all") ? 0 : std::int64_t(operands[0].number);
    return finish(instruction, op.has("wait_all") ? "cp.async.wait_all" : "cp.async.wait_group");
  }
  if (!op.has("async") || op.has("bulk") || operands.size() < 3) unknown(here_, "this kind of copy");
  set_address(instruction, operands[1], 1, "global");
  if (instruction.number != 0 || operands[1].reg.bytes != 8) unknown(here_, "where a copy comes from");
  set_address(instruction, operands[0], 0, "shared");
  instruction.bytes = std::uint8_t(operands[2].number);
  instruction.of[2] = operands.size() > 3 ? source(operands[3], 4) : constant_row(instruction.bytes, 4);
  finish(instruction, "cp.async");
}

/// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5];
void Decoder::read_matrices(Instruction& instruction, const Opcode& op, Given operands) {
  instruction.kind = Kind::warp_wide;
  instruction.members = constant_row(all_lanes, 4);
  instruction.elements = std::uint8_t(operands[0].list.size());
  for (std::size_t n = 0; n < operands[0].list.size(); ++n) instruction.of[n + 1] = result(operands[0].list[n], 4);
  set_address(instruction, operands[1], 0, "shared");
  finish(instruction, op.has("trans") ? "ldmatrix.trans" : "ldmatrix");
}

/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {a}, {b}, {c};
void Decoder::read_product(Instruction& instruction, const Opcode& op, Given operands) {
  instruction.kind = Kind::warp_wide;
  instruction.members = constant_row(all_lanes, 4);
  const std::string& type = op.types[1];  // of a; d's first
  const std::size_t bytes = type == "f64" ? 8 : 4;
  std::size_t slot = 0;
  for (std::size_t n = 0; n < 4; ++n) {
    for (const Operand& element : operands[n].list)
      instruction.of[slot++] = n == 0 ? result(element, bytes) : source(element, bytes);
  }
  finish(instruction, "mma." + op.parts[3] + "." + type);
}

/// shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;
void Decoder::read_shuffle(Instruction& instruction, const Opcode& op, Given operands) {
  instruction.kind = Kind::warp_wide;
  instruction.of[0] = result(operands[0], 4);
  instruction.of[1] = operands[0].second.bytes != 0 ? operands[0].second.at : new_row(1);
  for (std::size_t n = 1; n < 4; ++n) instruction.of[n + 1] = source(operands[n], 4);
  instruction.members = source(operands[4], 4);
  finish(instruction, "shfl." + op.parts[2]);
}

/// vote.sync.any.pred %p1, %p2, -1;  redux.sync.add.s32 %r1, %r2, -1;  activemask.b32 %r1;
void Decoder::read_vote(Instruction& instruction, const Opcode& op, Given operands) {
  if (op.name == "activemask") {
    instruction.of[0] = result(operands[0], 4);
    return finish(instruction, "activemask");
  }
  const bool is_vote = op.name == "vote";
  instruction.kind = Kind::warp_wide;
  instruction.of[0] = result(operands[0], op.has("pred") ? 1 : 4);
  instruction.of[1] = source(operands[1], is_vote ? 1 : 4);
  instruction.is_negated = operands[1].is_negated;
  instruction.members = source(operands[2], 4);
  finish(instruction, op.name + "." + op.parts[2] + (is_vote ? "" : "." + op.type()));
}

}  // namespace emulated_gpu
