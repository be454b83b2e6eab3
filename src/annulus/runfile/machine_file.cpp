#include "annulus/runfile/machine_file.hpp"

#include <set>

#include "annulus/comm/root.hpp"
#include "annulus/core/head_dim.hpp"
#include "annulus/runfile/keys.hpp"
#include "annulus/runfile/user_files.hpp"

namespace annulus::runfile {
namespace {

using core::ErrorKind;
using core::fail;
using core::KernelRate;
using core::Link;
using core::Machine;
using Keys = std::vector<Key<Machine>>;

/// A measured number above 0. It is written with `digits` significant digits.
Codec<double> measured(int digits = 6) {
  return {"", positive().read, [=](double from) { return fmt::format("{:.{}g}", from, digits); }};
}

/// A number from 0 to 1.
Codec<double> share() {
  const auto read = [](const KeyValue& value, double& to) {
    to = 0;
    for (const char* zero : {"0", "0.0", "0."})
      if (value.is_word(zero) && !value.node.quoted) return;
    positive().read(value, to);
    if (to > 1) fail(ErrorKind::usage, "{}{}: found {}, expected 0 to 1", value.node.location, value.name, to);
  };
  return {"", read, measured().write};
}

/// kernel.head_dims: the head sizes of the kernel rates. The head sizes must be ascending.
Codec<std::vector<KernelRate>> head_dims() {
  const auto read = [](const KeyValue& value, std::vector<KernelRate>& rates) {
    const std::vector<YamlNode>& items = value.list();
    rates.resize(std::max(rates.size(), items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const Index least = i == 0 ? 1 : rates[i - 1].head_dim + 1;
      const KeyValue size{items[i], value.name, value.folder};
      if (least > core::most_head_dim) size.refuse(fmt::format("ascending head sizes up to {}", core::most_head_dim));
      whole(least, core::most_head_dim).read(size, rates[i].head_dim);
    }
  };
  return {"", read, column(&KernelRate::head_dim, whole(1, core::most_head_dim)).write};
}

const Keys& machine_keys() {
  static const Keys table = [] {
    Keys keys;
    Section top(keys, "", [](auto& machine) { return &machine; });
    Section kernel(keys, "kernel", [](auto& machine) { return &machine; });
    Section inside(keys, "inside_node", [](auto& machine) { return &machine.inside_node; });
    Section between(keys, "between_nodes", [](auto& machine) { return &machine.between_nodes; });
    kernel.field("head_dims", &Machine::kernel, head_dims(), "rates hold for heads of up to this many numbers");
    kernel.field("seconds_per_gflop", &Machine::kernel, column(&KernelRate::seconds_per_gflop, measured(4)),
                 "s of one rank per GFLOP of attention, float32, all ranks computing");
    kernel.field("float64_factor", &Machine::float64_factor, measured(),
                 "time with float64 arithmetic, divided by that with float32");
    kernel.field("half_factor", &Machine::half_factor, measured(),
                 "time with float16 or bfloat16 tensors, divided by that with float32");
    kernel.field("bfloat16_factor", &Machine::bfloat16_factor, measured(),
                 "time with products of bfloat16, divided by that with products of float32");
    kernel.field("3xbfloat16_factor", &Machine::three_bfloat16_factor, measured(), "the same for 3xbfloat16");
    kernel.field("6xbfloat16_factor", &Machine::six_bfloat16_factor, measured(), "the same for 6xbfloat16");
    kernel.field("single_factor", &Machine::single_factor, measured(),
                 "time of a rank that computes alone on its node, divided by the time at the rates above");
    inside.field("seconds_per_message", &Link::seconds_per_message, measured(),
                 "s, while every rank exchanges messages with a neighbour");
    inside.field("seconds_per_byte", &Link::seconds_per_byte, measured(),
                 "s per byte that a rank receives, while all ranks exchange messages");
    between.field("seconds_per_message", &Link::seconds_per_message, measured(), "s");
    between.field("seconds_per_byte", &Link::seconds_per_byte, measured(), "s per byte");
    top.field("overlap", &Machine::overlap, share(), "share of a transfer that compute can hide, 0 to 1");
    top.field("seconds_per_copied_byte", &Machine::seconds_per_copied_byte, measured(),
              "s per byte of rows collected for a message");
    top.field("seconds_per_call", &Machine::seconds_per_call, measured(),
              "s to make work for the kernel and start it, for each pair and block of keys");
    top.field("seconds_per_row", &Machine::seconds_per_row, measured(),
              "s to pack a row of one head for a pair, and for its running softmax");
    top.field("seconds_per_communicator", &Machine::seconds_per_communicator, measured(),
              "s to make and free a communicator; all ranks take part");
    Section window(keys, "window", [](auto& machine) { return &machine.window; });
    window.field("seconds_per_message", &Link::seconds_per_message, measured(),
                 "s to make and free a window that all ranks read");
    window.field("seconds_per_byte", &Link::seconds_per_byte, measured(), "s per byte of the window");
    top.field("read_rate", &Machine::read_rate, measured(),
              "bytes per s that a rank reads of a file that is not in memory, while all ranks read");
    top.field("memory_per_rank", &Machine::memory_per_rank, measured(), "bytes");
    top.field("ranks_per_node", &Machine::ranks_per_node, whole(1, 65536), "ranks, {}");
    // Machine files of older versions lack these keys, and must still be readable.
    const std::set<std::string> later{
        "kernel.bfloat16_factor",     "kernel.3xbfloat16_factor", "kernel.6xbfloat16_factor",
        "seconds_per_call",           "seconds_per_row",          "seconds_per_communicator",
        "window.seconds_per_message", "window.seconds_per_byte",  "read_rate"};
    for (Key<Machine>& key : keys) key.required = later.count(key.name) == 0;
    return keys;
  }();
  return table;
}

}  // namespace

Machine parse_machine_file(const std::string& text, const std::string& path) {
  const YamlNode root = parse_yaml(text, path);
  Machine machine;
  machine.source = path;
  const Locations locations = read_keys(machine_keys(), root, "a machine file", "", machine);
  check_required(machine_keys(), locations, machine);
  const YamlNode& rates = *find_path(root, "kernel.seconds_per_gflop");
  if (const std::size_t sizes = find_path(root, "kernel.head_dims")->items.size(); rates.items.size() != sizes) {
    fail(ErrorKind::usage, "{}kernel.seconds_per_gflop: {} entries, kernel.head_dims has {}", rates.location,
         rates.items.size(), sizes);
  }
  return machine;
}

Machine read_machine_file(const std::string& path, const comm::Communicator& comm) {
  const std::string text = comm::from_root(comm, [&] { return read_text_file(path, "a machine file (YAML)"); });
  Machine machine;
  comm::agree(comm, [&] { machine = parse_machine_file(text, path); });
  return machine;
}

std::string machine_file_text(const Machine& machine, const std::vector<std::string>& provenance) {
  std::string text;
  for (const std::string& line : provenance) text += "# " + line + "\n";
  std::vector<KeyLine> lines;
  for (const Key<Machine>& key : machine_keys()) lines.push_back({key.name, key.text(machine), key.range});
  return text + sections_text(lines);
}

}  // namespace annulus::runfile
