#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "memory.hpp"
#include "program.hpp"

namespace emulated_gpu {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '.' || c == '%';
}

std::vector<Module::Token> tokens_of(std::string_view text) {
  std::vector<Module::Token> tokens;
  std::uint32_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    std::size_t end = i + 1;
    if (c == '\n') ++line;
    if (std::isspace(static_cast<unsigned char>(c)) || c == '\0') {
      i = end;
      continue;
    }
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '"') {
      end = text.find('"', i + 1) + 1;
    } else if (is_word(c)) {
      while (end < text.size() && (is_word(text[end]) || text.substr(end, 2) == "::")) end += text[end] == ':' ? 2 : 1;
    }
    tokens.push_back({text.substr(i, end - i), line});
    i = end;
  }
  return tokens;
}

}  // namespace

void fail(const std::string& message) {
  std::fprintf(stderr, "emulated GPU: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

std::size_t bytes_of_type(std::string_view type) {
  if (type == "pred") return 1;
  if (type == "f16x2" || type == "bf16x2" || type == "tf32") return 4;
  if (type == "bf16") return 2;
  const bool is_type = type.size() >= 2 && std::string_view("busf").find(type[0]) != std::string_view::npos &&
                       std::isdigit(static_cast<unsigned char>(type[1]));
  return is_type ? std::size_t(std::atoi(std::string(type.substr(1)).c_str())) / 8 : 0;
}

Module::Module(std::string given) : text(std::move(given)), tokens(tokens_of(text)) {
  for (std::size_t i = 0; i < tokens.size();) {
    const std::string_view word = tokens[i].text;
    if (word == ".version" || word == ".target" || word == ".address_size") {
      const std::uint32_t line = tokens[i].line;
      while (i < tokens.size() && tokens[i].line == line) ++i;
    } else if (word == ".func" || word == ".entry") {
      i = read_function(i);
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      i = read_variable(i);
    } else {
      ++i;
    }
  }
}

/// Notes where the function is, and returns the token after it.
std::size_t Module::read_function(std::size_t i) {
  const bool is_kernel = tokens[i].text == ".entry";
  std::size_t name = i + 1;
  if (tokens[name].text == "(") {  // what it returns
    while (tokens[name].text != ")") ++name;
    ++name;
  }
  for (i = name; tokens[i].text != "{";) {
    if (tokens[i++].text == ";") return i;  // declared, not defined
  }
  functions[std::string(tokens[name].text)] = {name, is_kernel};
  int depth = 0;
  do {
    depth += tokens[i].text == "{" ? 1 : tokens[i].text == "}" ? -1 : 0;
    ++i;
  } while (depth > 0);
  return i;
}

/// .global .align 8 .b8 name[16] = {...};
std::size_t Module::read_variable(std::size_t i) {
  const bool is_shared = tokens[i].text == ".shared";
  Variable variable;
  std::string name;
  for (++i; tokens[i].text != ";" && tokens[i].text != "=";) {
    const std::string_view part = tokens[i].text;
    if (part == ".align") {
      i += 2;
    } else if (part == ".attribute") {
      while (tokens[i].text != ")") ++i;
      ++i;
    } else if (part == "[") {
      const bool is_open = tokens[i + 1].text == "]";
      variable.bytes *= is_open ? 0 : std::size_t(std::atoll(std::string(tokens[i + 1].text).c_str()));
      i += is_open ? 2 : 3;
    } else if (part[0] == '.') {
      variable.bytes = variable.element = bytes_of_type(part.substr(1));
      ++i;
    } else {
      name = std::string(part);
      ++i;
    }
  }
  if (tokens[i].text == "=") variable.initial = i + 1;
  while (tokens[i].text != ";") ++i;
  if (is_shared && variable.bytes == 0) {
    open_arrays.push_back(name);
  } else {
    (is_shared ? shared_variables : variables)[name] = variable;
  }
  return i + 1;
}

void Module::place_variables() {
  has_memory_ = true;
  for (auto& [name, variable] : variables) {
    variable.address = allocate(variable.bytes);
    if (variable.address == 0) fail("no memory for variable " + name);
    std::memset(found(variable.address, variable.bytes), 0, variable.bytes);
  }
  for (auto& [name, variable] : variables) {
    if (variable.initial == 0) continue;
    std::byte* to = found(variable.address, variable.bytes);
    for (std::size_t i = variable.initial; tokens[i].text != ";"; ++i) {
      const std::string word(tokens[i].text);
      if (word == "{" || word == "}" || word == ",") continue;
      std::uint64_t value = 0;
      if (word == "generic") {  // the address of another one
        const auto other = variables.find(std::string(tokens[i + 2].text));
        if (other == variables.end()) fail("the initial value of " + name + " is an address that is not known");
        value = other->second.address;
        i += 3;
      } else if (word[0] == '0' && (word[1] == 'f' || word[1] == 'd')) {
        value = std::strtoull(word.c_str() + 2, nullptr, 16);
      } else if (word == "-") {
        value = std::uint64_t(-std::strtoll(std::string(tokens[++i].text).c_str(), nullptr, 0));
      } else if (std::isdigit(static_cast<unsigned char>(word[0]))) {
        value = std::strtoull(word.c_str(), nullptr, 0);
      } else {
        fail("an initial value of " + name + " that is not known: " + word);
      }
      std::memcpy(to, &value, variable.element);
      to += variable.element;
    }
  }
}

std::uint64_t Module::variable(const std::string& name) {
  if (!has_memory_) place_variables();
  const auto entry = variables.find(name);
  return entry == variables.end() ? 0 : entry->second.address;
}

Kernel* Module::kernel(const std::string& name) {
  const auto known = kernels_.find(name);
  if (known != kernels_.end()) return known->second.get();
  const auto function = functions.find(name);
  if (function == functions.end() || !function->second.is_kernel) return nullptr;
  auto kernel = std::make_unique<Kernel>();
  kernel->name = name;
  kernel->module = this;
  decode(*this, function->second, *kernel);
  return (kernels_[name] = std::move(kernel)).get();
}

std::string_view Module::line(std::uint32_t number) const {
  std::size_t begin = 0;
  for (std::uint32_t i = 1; i < number; ++i) begin = text.find('\n', begin) + 1;
  return std::string_view(text).substr(begin, text.find('\n', begin) - begin);
}

}  // namespace emulated_gpu
