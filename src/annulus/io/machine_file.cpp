#include "annulus/io/machine_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "annulus/io/root.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/io/yaml_values.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;
using core::Machine;

/// A number of the file; `share` may be 0 and is at most 1.
struct Number {
  const char* section;  ///< "" at the top
  const char* word;
  const char* unit;
  double& (*in)(Machine&);
  bool share = false;
};
constexpr std::array numbers{
    Number{"kernel", "float64_factor", "time with float64 arithmetic over float32",
           [](Machine& m) -> double& { return m.float64_factor; }},
    Number{"kernel", "half_factor", "time with float16 or bfloat16 tensors over float32",
           [](Machine& m) -> double& { return m.half_factor; }},
    Number{"kernel", "single_factor", "time of a rank that computes alone on its node over the rates above",
           [](Machine& m) -> double& { return m.single_factor; }},
    Number{"inside_node", "seconds_per_message", "s, while all ranks talk to a neighbour",
           [](Machine& m) -> double& { return m.inside_node.seconds_per_message; }},
    Number{"inside_node", "seconds_per_byte", "s per byte that a rank receives, while all ranks talk",
           [](Machine& m) -> double& { return m.inside_node.seconds_per_byte; }},
    Number{"between_nodes", "seconds_per_message", "s",
           [](Machine& m) -> double& { return m.between_nodes.seconds_per_message; }},
    Number{"between_nodes", "seconds_per_byte", "s per byte",
           [](Machine& m) -> double& { return m.between_nodes.seconds_per_byte; }},
    Number{"", "overlap", "share of a transfer that compute can hide, 0 to 1",
           [](Machine& m) -> double& { return m.overlap; }, true},
    Number{"", "seconds_per_copied_byte", "s per byte of rows collected for a message",
           [](Machine& m) -> double& { return m.seconds_per_copied_byte; }},
    Number{"", "memory_per_rank", "bytes", [](Machine& m) -> double& { return m.memory_per_rank; }},
};

std::string full_name(const char* section, const char* word) {
  return *section == '\0' ? word : fmt::format("{}.{}", section, word);
}

/// Words that may stand in a section ("": at the top).
std::vector<std::string> words_in(const std::string& section) {
  std::vector<std::string> words;
  if (section.empty()) words = {"kernel", "inside_node", "between_nodes", "ranks_per_node"};
  if (section == "kernel") words = {"head_dims", "seconds_per_gflop"};
  for (const Number& number : numbers) {
    if (section == number.section) words.emplace_back(number.word);
  }
  return words;
}

void check_words(const YamlNode& node, const std::string& section) {
  const std::vector<std::string> words = words_in(section);
  if (node.kind != YamlNode::Kind::section) {
    fail(ErrorKind::usage, "{}{}: found {}, expected a section with the keys {}", node.place,
         section.empty() ? "a machine file" : section, describe(node), fmt::join(words, ", "));
  }
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    const std::string& word = node.entries[i].first;
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      fail(ErrorKind::usage, "{}unknown key '{}'{}{}", node.key_places[i], word,
           section.empty() ? "" : " in " + section, suggest(word, words));
    }
  }
}

const YamlNode& required(const YamlNode& root, const char* section, const char* word) {
  const YamlNode* parent = *section == '\0' ? &root : root.find(section);
  const YamlNode* node = parent == nullptr ? nullptr : parent->find(word);
  if (node == nullptr) {
    fail(ErrorKind::usage, "{}{} is missing", parent == nullptr ? root.place : parent->place, full_name(section, word));
  }
  return *node;
}

double read_number(const YamlNode& node, const Number& number) {
  const std::string name = full_name(number.section, number.word);
  if (number.share && is_word(node, "0")) return 0;
  const double value = read_positive_number(node, name);
  if (number.share && value > 1) fail(ErrorKind::usage, "{}{}: found {}, expected 0 to 1", node.place, name, value);
  return value;
}

std::vector<core::KernelRate> read_rates(const YamlNode& root) {
  const YamlNode& dims = required(root, "kernel", "head_dims");
  const YamlNode& seconds = required(root, "kernel", "seconds_per_gflop");
  const auto& sizes = read_list(dims, "kernel.head_dims");
  const auto& rates = read_list(seconds, "kernel.seconds_per_gflop");
  if (sizes.size() != rates.size()) {
    fail(ErrorKind::usage, "{}kernel.seconds_per_gflop: {} entries, kernel.head_dims has {}", seconds.place,
         rates.size(), sizes.size());
  }
  std::vector<core::KernelRate> read;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const Index least = i == 0 ? 1 : read.back().head_dim + 1;  // ascending
    read.push_back({read_integer(sizes[i], "kernel.head_dims", least, 256),
                    read_positive_number(rates[i], "kernel.seconds_per_gflop")});
  }
  return read;
}

}  // namespace

Machine parse_machine_file(const std::string& text, const std::string& path) {
  const YamlNode root = parse_yaml(text, path);
  check_words(root, "");
  for (const char* section : {"kernel", "inside_node", "between_nodes"}) {
    if (const YamlNode* node = root.find(section)) check_words(*node, section);
  }
  Machine machine;
  machine.source = path;
  machine.kernel = read_rates(root);
  for (const Number& number : numbers) {
    number.in(machine) = read_number(required(root, number.section, number.word), number);
  }
  machine.ranks_per_node = read_integer(required(root, "", "ranks_per_node"), "ranks_per_node", 1, 65536);
  return machine;
}

Machine read_machine_file(const std::string& path, const comm::Communicator& comm) {
  const std::string text = from_root(comm, [&]() -> std::string {
    const comm::Blocked inside("the reading of " + path);
    std::ifstream file(path, std::ios::binary);
    if (!file) fail(ErrorKind::usage, "{}: cannot be opened: {}", path, std::strerror(errno));
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  });
  Machine machine;
  comm::agree(comm, [&] { machine = parse_machine_file(text, path); });
  return machine;
}

std::string machine_file_text(const Machine& machine, const std::vector<std::string>& provenance) {
  std::string text;
  for (const std::string& line : provenance) text += "# " + line + "\n";
  std::vector<Index> sizes;
  std::vector<std::string> rates;
  for (const core::KernelRate& rate : machine.kernel) {
    sizes.push_back(rate.head_dim);
    rates.push_back(fmt::format("{:.4g}", rate.seconds_per_gflop));
  }
  text += fmt::format("kernel:\n  head_dims: [{}]  # rates hold for heads of up to so many numbers\n",
                      fmt::join(sizes, ", "));
  text +=
      fmt::format("  seconds_per_gflop: [{}]  # s of one rank per GFLOP of attention, float32, all ranks computing\n",
                  fmt::join(rates, ", "));
  std::string open = "kernel";
  Machine copy = machine;  // the table hands out references to change
  for (const Number& number : numbers) {
    if (open != number.section && *number.section != '\0') text += fmt::format("{}:\n", number.section);
    open = number.section;
    text += fmt::format("{}{}: {:.6g}  # {}\n", open.empty() ? "" : "  ", number.word, number.in(copy), number.unit);
  }
  return text + fmt::format("ranks_per_node: {}\n", machine.ranks_per_node);
}

}  // namespace annulus::io
