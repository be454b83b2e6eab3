#include "operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace emulated_gpu {
namespace {

bool is_number(std::string_view word) { return std::isdigit(static_cast<unsigned char>(word[0])) != 0; }

/// 16, 0x10, 0f3F800000, 0d3FF0000000000000
std::uint64_t number_of(std::string_view word) {
  const std::string text(word);
  const bool is_float =
      text.size() > 2 && text[0] == '0' && std::string_view("fFdD").find(text[1]) != std::string_view::npos;
  return is_float ? std::strtoull(text.c_str() + 2, nullptr, 16) : std::strtoull(text.c_str(), nullptr, 0);
}

const Register* special_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Special> known = {{"%tid.x", tid_x},
                                                                      {"%tid.y", tid_y},
                                                                      {"%tid.z", tid_z},
                                                                      {"%ntid.x", ntid_x},
                                                                      {"%ntid.y", ntid_y},
                                                                      {"%ntid.z", ntid_z},
                                                                      {"%ctaid.x", ctaid_x},
                                                                      {"%ctaid.y", ctaid_y},
                                                                      {"%ctaid.z", ctaid_z},
                                                                      {"%nctaid.x", nctaid_x},
                                                                      {"%nctaid.y", nctaid_y},
                                                                      {"%nctaid.z", nctaid_z},
                                                                      {"%laneid", laneid},
                                                                      {"%warpid", warpid},
                                                                      {"%smid", smid},
                                                                      {"%lanemask_eq", lanemask_eq},
                                                                      {"%lanemask_lt", lanemask_lt},
                                                                      {"%lanemask_le", lanemask_le},
                                                                      {"%lanemask_gt", lanemask_gt},
                                                                      {"%lanemask_ge", lanemask_ge},
                                                                      {"%dynamic_smem_size", dynamic_smem_size},
                                                                      {"%total_smem_size", total_smem_size}};
  const auto entry = known.find(name);
  if (entry == known.end()) return nullptr;
  static Register registers[special_registers];
  registers[entry->second] = {entry->second * 4 * lanes_of_warp, 4};
  return &registers[entry->second];
}

}  // namespace

int Operands::integer(std::size_t token) const { return std::atoi(std::string(text(token)).c_str()); }

void Operands::unknown(std::size_t token, const std::string& what) const {
  fail(fmt::format("PTX that is not known here: {}\n  in line {}: {}\n  of {}", what, line(token),
                   module_.line(line(token)), kernel_.name));
}

std::uint32_t Operands::new_row(std::size_t bytes) {
  const std::uint32_t at = kernel_.register_bytes;
  kernel_.register_bytes += std::uint32_t(bytes * lanes_of_warp);
  return at;
}

std::uint32_t Operands::constant_row(std::uint64_t value, std::size_t bytes) {
  const auto [entry, is_new] = known_constants_.try_emplace({value, bytes});
  if (is_new) {
    entry->second = new_row(bytes);
    kernel_.constants.push_back({entry->second, std::uint8_t(bytes), value});
  }
  return entry->second;
}

std::size_t Operands::add(const Instruction& instruction) {
  kernel_.code.push_back(instruction);
  return kernel_.code.size() - 1;
}

const Register* Operands::register_of(const std::string& name) const {
  for (std::size_t i = scopes.size(); i-- > first_scope;) {
    const auto entry = scopes[i].registers.find(name);
    if (entry != scopes[i].registers.end()) return &entry->second;
  }
  return special_of(name);
}

const Symbol* Operands::symbol_of(const std::string& name) {
  const auto shared = module_.shared_variables.find(name);
  if (shared != module_.shared_variables.end()) {  // one for all functions that the kernel calls
    const auto [entry, is_new] = scopes.front().symbols.try_emplace(name);
    if (is_new) {
      shared_used = (shared_used + 15) / 16 * 16;
      entry->second = {Space::shared, first_shared + shared_used};
      shared_used += shared->second.bytes;
    }
    return &entry->second;
  }
  for (std::size_t i = scopes.size(); i-- > first_scope;) {
    const auto entry = scopes[i].symbols.find(name);
    if (entry != scopes[i].symbols.end()) return &entry->second;
  }
  return nullptr;
}

bool Operands::is_open_array(const std::string& name) const {
  return std::find(module_.open_arrays.begin(), module_.open_arrays.end(), name) != module_.open_arrays.end();
}

std::uint32_t Operands::address_row(const Operand& operand, std::size_t bytes, std::size_t token) {
  if (is_open_array(operand.name)) {
    const std::uint32_t at = new_row(bytes);
    open_constants_.push_back(kernel_.constants.size());
    kernel_.constants.push_back({at, std::uint8_t(bytes), operand.number});
    return at;
  }
  const Symbol* symbol = symbol_of(operand.name);
  if (symbol != nullptr && symbol->space == Space::global) {  // where the launch puts its parameters
    Instruction instruction;
    instruction.run = handler_of("parameter_address");
    instruction.of[0] = new_row(8);
    instruction.number = std::int64_t(symbol->address + operand.number);
    instruction.line = line(token);
    add(instruction);
    return instruction.of[0];
  }
  if (symbol != nullptr) return constant_row(symbol->address + operand.number, bytes);
  const std::uint64_t address = module_.variable(operand.name);
  if (address == 0) unknown(token, "the name " + operand.name);
  return constant_row(address + operand.number, bytes);
}

void Operands::place_open_arrays() {
  const bool has_open = !open_constants_.empty() || !open_displacements_.empty();
  kernel_.shared_bytes = std::uint32_t(has_open ? (shared_used + 127) / 128 * 128 : shared_used);
  const std::uint64_t first = first_shared + kernel_.shared_bytes;
  for (const std::size_t at : open_constants_) kernel_.constants[at].value += first;
  for (const std::size_t at : open_displacements_) kernel_.code[at].number += std::int64_t(first);
}

std::size_t Operands::read_address(std::size_t i, Operand& operand) {
  operand.what = Operand::What::address;
  const std::string name(text(i));
  if (const Register* base = register_of(name)) {
    operand.reg = *base;
  } else if (is_number(name)) {
    operand.number = number_of(name);
  } else {
    operand.name = name;
  }
  ++i;
  bool is_negative = false;
  for (; text(i) != "]"; ++i) {
    if (text(i) == "-") {
      is_negative = true;
    } else if (text(i) != "+") {
      operand.number += is_negative ? -number_of(text(i)) : number_of(text(i));
    }
  }
  return i + 1;
}

std::size_t Operands::read(std::size_t i, Operand& operand) {
  if (text(i) == "[") return read_address(i + 1, operand);
  if (text(i) == "{") {
    operand.what = Operand::What::list;
    for (++i; text(i) != "}";) {
      if (text(i) == ",") {
        ++i;
      } else {
        i = read(i, operand.list.emplace_back());
      }
    }
    return i + 1;
  }
  if (text(i) == "!") {
    operand.is_negated = true;
    ++i;
  }
  const bool is_negative = text(i) == "-";
  if (is_negative) ++i;
  const std::string name(text(i));
  if (is_number(name)) {
    operand.what = Operand::What::number;
    operand.number = is_negative ? -number_of(name) : number_of(name);
  } else if (is_negative) {
    unknown(i, "a minus sign");
  } else if (const Register* found = register_of(name)) {
    operand.what = Operand::What::in_register;
    operand.reg = *found;
  } else if (name != "_") {
    operand.what = Operand::What::symbol;
    operand.name = name;
  }
  ++i;
  if (text(i) == "|") {
    Operand second;
    i = read(i + 1, second);
    operand.second = second.reg;
  }
  if (operand.what == Operand::What::symbol && text(i) == "+") {
    operand.number = number_of(text(i + 1));
    i += 2;
  }
  return i;
}

std::size_t Operands::read_all(std::size_t i, std::vector<Operand>& operands) {
  while (text(i) != ";") {
    if (text(i) == ",") {
      ++i;
    } else {
      i = read(i, operands.emplace_back());
    }
  }
  return i + 1;
}

}  // namespace emulated_gpu
