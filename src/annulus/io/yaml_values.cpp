#include "annulus/io/yaml_values.hpp"

#include <algorithm>

#include "annulus/core/error.hpp"
#include "annulus/io/numbers.hpp"
#include "annulus/io/run_file.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

[[noreturn]] void refuse(const YamlNode& node, std::string_view key, const std::string& expected) {
  fail(ErrorKind::usage, "{}{}: found {}, expected {}", node.place, key, describe(node), expected);
}

/// The number of a plain scalar; quoted, or anything else, it is none.
template <class Number>
Number number_of(const YamlNode& node, std::string_view key, const Parsed<Number>& parsed) {
  if (node.kind != YamlNode::Kind::scalar || node.quoted || !parsed.number) refuse(node, key, parsed.expected);
  return *parsed.number;
}

}  // namespace

core::Index read_integer(const YamlNode& node, std::string_view key, core::Index least, core::Index most) {
  return number_of(node, key, parse_whole(node.text, {least, most}));
}

double read_positive_number(const YamlNode& node, std::string_view key) {
  return number_of(node, key, parse_positive(node.text));
}

const YamlNode& read_only_entry(const YamlNode& node, std::string_view key, std::string_view word,
                                const std::string& expected) {
  if (node.kind != YamlNode::Kind::section) refuse(node, key, expected);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    if (node.entries[i].first == word) continue;
    fail(ErrorKind::usage, "{}unknown key '{}' in {}{}", node.key_places[i], node.entries[i].first, key,
         suggest(node.entries[i].first, {std::string(word)}));
  }
  if (node.entries.empty()) refuse(node, key, expected);
  return node.entries[0].second;
}

bool read_flag(const YamlNode& node, std::string_view key) {
  const bool plain = node.kind == YamlNode::Kind::scalar && !node.quoted;
  if (plain && node.text == "true") return true;
  if (plain && node.text == "false") return false;
  if (node.quoted) refuse(node, key, "true or false, without quotes");
  refuse(node, key, "true or false" + suggest(node.text, {"true", "false"}));
}

std::string read_text(const YamlNode& node, std::string_view key) {
  if (node.kind != YamlNode::Kind::scalar || node.text.empty()) refuse(node, key, "a name");
  return node.text;
}

std::size_t read_choice(const YamlNode& node, std::string_view key, const std::vector<std::string>& choices) {
  const std::string expected = fmt::format("one of {}", fmt::join(choices, ", "));
  if (node.kind != YamlNode::Kind::scalar) refuse(node, key, expected);
  const auto found = std::find(choices.begin(), choices.end(), node.text);
  if (found == choices.end()) refuse(node, key, expected + suggest(node.text, choices));
  return std::size_t(found - choices.begin());
}

const std::vector<YamlNode>& read_list(const YamlNode& node, std::string_view key) {
  if (node.kind != YamlNode::Kind::list) {
    const bool scalar = node.kind == YamlNode::Kind::scalar;
    refuse(node, key, scalar ? "a list, for example [" + node.text + "]" : "a list");
  }
  if (node.items.empty()) fail(ErrorKind::usage, "{}{}: the list is empty, one entry at least", node.place, key);
  return node.items;
}

bool is_word(const YamlNode& node, std::string_view word) {
  return node.kind == YamlNode::Kind::scalar && node.text == word;
}

std::string quote(const std::string& text) {
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' ||
           c == '_';
  };
  // A number, or one of YAML's words for nothing, would not read back as text.
  const bool starts_well = !text.empty() && (text[0] == '/' || (text[0] >= 'a' && text[0] <= 'z')) && text != "null";
  if (starts_well && std::all_of(text.begin(), text.end(), harmless)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;  // UTF-8 stays as it is
    }
  }
  return quoted + "\"";
}

}  // namespace annulus::io
