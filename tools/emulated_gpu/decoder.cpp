#include "decoder.hpp"

#include <algorithm>
#include <cctype>

namespace emulated_gpu {

Opcode::Opcode(std::string_view word) {
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t end = std::min(word.find('.', begin), word.size());
    parts.emplace_back(word.substr(begin, end - begin));
    begin = end + 1;
  }
  name = parts.front();
  for (std::size_t n = 1; n < parts.size(); ++n) {
    if (bytes_of_type(parts[n]) != 0) types.push_back(parts[n]);
  }
}

bool Opcode::has(std::string_view part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }

void decode(Module& module, const Module::Function& function, Kernel& kernel) {
  Decoder(module, kernel).decode(function);
}

void Decoder::decode(const Module::Function& function) {
  enter(function);
  read_body(read_kernel_parameters(function.name + 1));
  Instruction last;
  last.kind = Kind::exit;
  add(last);
  leave();
  place_open_arrays();
  kernel_.local_bytes = std::uint32_t((local_used + 15) / 16 * 16);
  if (is_set("EMULATED_GPU_FUSED")) fuse_products(kernel_);
}

void Decoder::enter(const Module::Function& function) {
  Frame& frame = frames_.emplace_back();
  frame.is_kernel = function.is_kernel;
  frame.outer_first_scope = first_scope;
  first_scope = scopes.size();
  scopes.emplace_back();
}

void Decoder::leave() {
  const Frame& frame = frames_.back();
  const auto place_of = [&](const std::string& label) {
    const auto entry = frame.labels.find(label);
    if (entry == frame.labels.end()) fail("no label " + label + " in " + kernel_.name);
    return entry->second;
  };
  for (const auto& [at, label] : frame.jumps) kernel_.code[at].target = place_of(label);
  for (const auto& [at, label] : frame.table_jumps) kernel_.tables[at] = place_of(label);
  for (const std::size_t at : frame.returns) kernel_.code[at].target = std::uint32_t(kernel_.code.size());
  scopes.resize(first_scope);
  first_scope = frame.outer_first_scope;
  frames_.pop_back();
}

/// (.param .u64 a, .param .align 8 .b8 b[264]) .maxntid 128, 1, 1 {
std::size_t Decoder::read_kernel_parameters(std::size_t i) {
  for (; text(i) != "{"; ++i) {
    if (text(i) == ".maxntid") {
      kernel_.most_threads = std::uint32_t(integer(i + 1));
      for (i += 2; text(i) == ","; i += 2) kernel_.most_threads *= std::uint32_t(integer(i + 1));
      --i;
    }
    if (text(i) == ".minnctapersm") kernel_.least_blocks = std::uint32_t(integer(i + 1));
    if (text(i) != ".param") continue;
    std::size_t align = 0, bytes = 0;
    std::string name;
    for (++i; text(i) != "," && text(i) != ")"; ++i) {
      if (text(i) == ".align") {
        align = std::size_t(integer(++i));
      } else if (text(i) == "[") {
        bytes *= std::size_t(integer(++i));
        ++i;
      } else if (text(i)[0] != '.') {
        name = std::string(text(i));
      } else if (const std::size_t of_type = bytes_of_type(text(i).substr(1)); of_type != 0) {
        bytes = of_type;
      }
    }
    if (align == 0) align = bytes;
    kernel_.parameter_bytes = std::uint32_t((kernel_.parameter_bytes + align - 1) / align * align);
    kernel_.parameters.push_back({kernel_.parameter_bytes, std::uint32_t(bytes)});
    scopes.back().symbols[name] = {Space::global, kernel_.parameter_bytes};
    kernel_.parameter_bytes += std::uint32_t(bytes);
  }
  return i + 1;
}

/// A called function's formal parameters become names of the symbols that the call gives.
std::size_t Decoder::read_arguments(std::size_t i, const std::vector<Symbol>& given) {
  std::size_t next = 0;
  for (; text(i) != "{"; ++i) {
    if (text(i) != ".param") continue;
    std::string name;
    for (++i; text(i) != "," && text(i) != ")"; ++i) {
      if (text(i)[0] != '.' && name.empty() && !std::isdigit(static_cast<unsigned char>(text(i)[0])))
        name = std::string(text(i));
    }
    scopes.back().symbols[name] = given.at(next++);
  }
  return i + 1;
}

/// Reads from the token after '{' to the token after its '}'.
std::size_t Decoder::read_body(std::size_t i) {
  for (int depth = 1; depth > 0;) {
    const std::string_view word = text(i);
    if (word == "{") {
      scopes.emplace_back();
      ++depth;
      ++i;
    } else if (word == "}") {
      if (--depth > 0) scopes.pop_back();
      ++i;
    } else if (word == ".reg") {
      i = read_registers(i + 1);
    } else if (word == ".shared" || word == ".local" || word == ".param") {
      i = read_variable(i);
    } else if (word == ".pragma" || word == ".loc" || word == ".file") {
      const std::uint32_t of = line(i);
      while (line(i) == of) ++i;
    } else if (text(i + 1) == ":") {
      i = read_label(i);
    } else if (word == ";") {
      ++i;
    } else {
      i = read_instruction(i);
    }
  }
  return i;
}

/// A label in the code, or a table of labels: name: .branchtargets a, b;
std::size_t Decoder::read_label(std::size_t i) {
  const std::string label(text(i));
  i += 2;
  if (text(i) == ".branchtargets") {
    std::vector<std::string>& targets = tables_[label];
    targets.clear();
    for (++i; text(i) != ";"; ++i) {
      if (text(i) != ",") targets.emplace_back(text(i));
    }
    return i + 1;
  }
  if (text(i) == ".callprototype" || text(i) == ".calltargets") unknown(i, "this kind of label");
  frames_.back().labels[label] = std::uint32_t(kernel_.code.size());
  return i;
}

/// .reg .b32 %r<19>, a;
std::size_t Decoder::read_registers(std::size_t i) {
  const auto bytes = std::uint8_t(bytes_of_type(text(i).substr(1)));
  if (bytes == 0 || bytes > 8) unknown(i, "a register's type");
  for (++i; text(i) != ";"; ++i) {
    if (text(i) == ",") continue;
    const std::string name(text(i));
    if (text(i + 1) == "<") {
      const int count = integer(i + 2);
      for (int n = 0; n < count; ++n) scopes.back().registers[name + std::to_string(n)] = {new_row(bytes), bytes};
      i += 3;
    } else {
      scopes.back().registers[name] = {new_row(bytes), bytes};
    }
  }
  return i + 1;
}

/// .shared .align 4 .b8 name[512]; what a call hands over (.param) is local memory.
std::size_t Decoder::read_variable(std::size_t i) {
  const bool is_shared = text(i) == ".shared";
  std::size_t align = 0, bytes = 0;
  std::string name;
  for (++i; text(i) != ";"; ++i) {
    if (text(i) == ".align") {
      align = std::size_t(integer(++i));
    } else if (text(i) == "[") {
      bytes *= std::size_t(integer(++i));
      ++i;
    } else if (text(i)[0] == '.') {
      bytes = bytes_of_type(text(i).substr(1));
    } else {
      name = std::string(text(i));
    }
  }
  if (align == 0) align = std::clamp<std::size_t>(bytes, 1, 16);
  std::size_t& used = is_shared ? shared_used : local_used;
  used = (used + align - 1) / align * align;
  scopes.back().symbols[name] = {is_shared ? Space::shared : Space::local, used + (is_shared ? first_shared : 0)};
  used += bytes;
  return i + 1;
}

/// call.uni (result), function, (argument, argument);
std::size_t Decoder::read_call(std::size_t i, Instruction& instruction) {
  const auto places = [&](std::vector<Symbol>& found) {
    for (++i; text(i) != ")"; ++i) {
      if (text(i) == ",") continue;
      const Symbol* symbol = symbol_of(std::string(text(i)));
      if (symbol == nullptr) unknown(i, "what a call is given");
      found.push_back(*symbol);
    }
    ++i;
  };
  std::vector<Symbol> results, given;
  if (text(i) == "(") {
    places(results);
    ++i;  // ,
  }
  const std::string name(text(i++));
  if (text(i) == ",") {
    ++i;
    if (text(i) == "(") places(given);
  }
  while (text(i) != ";") ++i;
  const auto function = module_.functions.find(name);
  if (function == module_.functions.end()) {
    if (name != "__assertfail" && name != "vprintf") unknown(here_, "the function " + name);
    if (!given.empty()) instruction.number = std::int64_t(given[0].address);
    finish(instruction, name);
    return i + 1;
  }
  if (frames_.size() > 40) unknown(here_, "a function that calls itself");
  Instruction around = instruction;
  around.kind = Kind::branch;
  around.guard_is_negated = !around.guard_is_negated;
  const std::size_t jump = around.is_guarded ? add(around) : 0;
  enter(function->second);
  const std::size_t formal = function->second.name;
  if (text(formal - 1) == ")") {  // .func (.param .b32 result) name
    std::size_t at = formal - 2;
    while (text(at)[0] == ']' || text(at)[0] == '[' || std::isdigit(static_cast<unsigned char>(text(at)[0]))) --at;
    scopes.back().symbols[std::string(text(at))] = results.at(0);
  }
  read_body(read_arguments(formal + 1, given));
  leave();
  if (around.is_guarded) kernel_.code[jump].target = std::uint32_t(kernel_.code.size());
  return i + 1;
}

}  // namespace emulated_gpu
