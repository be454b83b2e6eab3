#include "annulus/runfile/codecs.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "annulus/core/error.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {
namespace {

/// The number in a plain scalar. Refuses a quoted scalar, and everything that is not a scalar or not a valid number.
template <class Number>
Number plain_number(const KeyValue& value, const Parsed<Number>& parsed) {
  if (value.node.kind != YamlNode::Kind::scalar || value.node.quoted || !parsed.number) value.refuse(parsed.expected);
  return *parsed.number;
}

std::string text_of(const KeyValue& value) {
  if (value.node.kind != YamlNode::Kind::scalar || value.node.text.empty()) value.refuse("a name");
  return value.node.text;
}

std::string quote_some(const std::string& text) { return text.empty() ? "" : quote(text); }

/// Writes a large power of ten as "10^6".
std::string short_form(Index number) {
  const std::string digits = std::to_string(number);
  const bool power = digits[0] == '1' && digits.find_first_not_of('0', 1) == std::string::npos;
  return power && digits.size() > 6 ? fmt::format("10^{}", digits.size() - 1) : digits;
}

}  // namespace

bool KeyValue::is_word(std::string_view word) const { return node.kind == YamlNode::Kind::scalar && node.text == word; }

void KeyValue::refuse(const std::string& expected) const {
  core::fail(core::ErrorKind::usage, "{}{}: found {}, expected {}", node.location, name, describe(node),
             words.empty() ? expected : words + "or " + expected);
}

KeyValue KeyValue::or_word(const std::string& word) const {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  if (std::equal(node.text.begin(), node.text.end(), word.begin(), word.end(), same)) refuse(word);
  return {node, name, folder, words + word + ", "};
}

const std::vector<YamlNode>& KeyValue::list() const {
  if (node.kind == YamlNode::Kind::scalar) refuse("a list, for example [" + node.text + "]");
  if (node.kind != YamlNode::Kind::list) refuse("a list");
  if (node.items.empty()) {
    core::fail(core::ErrorKind::usage, "{}{}: the list is empty, expected at least one entry", node.location, name);
  }
  return node.items;
}

void KeyValue::each_entry(const std::vector<std::string>& keys, const std::string& ending,
                          const std::function<void(const std::string&, const KeyValue&)>& take) const {
  for (const auto& [key, location, entry] : node.entries) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      core::fail(core::ErrorKind::usage, "{}unknown key '{}' in {}{}{}", location, key, name, suggest(key, keys),
                 ending);
    }
    take(key, {entry, fmt::format("{}: {}", name, key), folder});
  }
}

Codec<bool> flag() {
  const auto read = [](const KeyValue& value, bool& to) {
    if (value.node.quoted) value.refuse("true or false, without quotes");
    to = value.is_word("true");
    if (to || value.is_word("false")) return;
    if (value.is_word("auto")) value.refuse("true or false; leave the key out for its default");
    value.refuse("true or false" + suggest(value.node.text, {"true", "false"}));
  };
  return {"true | false", read, [](bool from) { return from ? "true" : "false"; }};
}

Codec<std::string> text() {
  return {"a name", [](const KeyValue& value, std::string& to) { to = text_of(value); }, quote_some};
}

Codec<std::string> path() {
  const auto read = [](const KeyValue& value, std::string& to) {
    // If a key allows the word `none`, word_or() reads this word and does not call this function.
    if (value.is_word("none")) value.refuse("a path; ./none for a file of this name");
    to = without_dots(std::filesystem::path(value.folder) / text_of(value)).string();
  };
  return {"a path", read, quote_some};
}

Codec<double> positive() {
  const auto read = [](const KeyValue& value, double& to) {
    to = plain_number(value, parse_positive(value.node.text));
  };
  return {"a number above 0", read, [](double from) { return from > 0 ? fmt::format("{}", from) : ""; }};
}

Codec<Index> whole(Index least, Index most) {
  const auto read = [=](const KeyValue& value, Index& to) {
    to = plain_number(value, parse_whole(value.node.text, {least, most}));
  };
  return {most == INT64_MAX ? fmt::format("{} or more", least) : fmt::format("{} to {}", least, short_form(most)), read,
          [=](Index from) { return from < least ? "" : std::to_string(from); }};
}

Codec<Index> bytes() {
  const auto read = [](const KeyValue& value, Index& to) { to = plain_number(value, parse_bytes(value.node.text)); };
  return {"bytes, like 512MiB or 2GiB", read, [](Index from) { return from < 1 ? "" : bytes_text(from); }};
}

Codec<comm::FileHints> hints() {
  const auto read = [](const KeyValue& value, comm::FileHints& to) {
    if (value.node.kind != YamlNode::Kind::section) value.refuse("hints by name, like {striping_factor: 8}, or {}");
    to.clear();
    for (const auto& [name, location, hint] : value.node.entries) {
      const std::string full = fmt::format("{}.{}", value.name, name);
      if (int(name.size()) > comm::longest_hint_name()) {
        core::fail(core::ErrorKind::usage, "{}{}: this MPI takes names of {} letters at most", location, full,
                   comm::longest_hint_name());
      }
      if (hint.kind != YamlNode::Kind::scalar || hint.text.empty() ||
          int(hint.text.size()) > comm::longest_hint_value()) {
        KeyValue{hint, full, value.folder}.refuse(
            fmt::format("a number or text of {} letters at most", comm::longest_hint_value()));
      }
      to.emplace_back(name, hint.text);
    }
  };
  return {"hints for MPI-IO by name", read, [](const comm::FileHints& from) {
            std::vector<std::string> words;
            for (const auto& [name, hint] : from) words.push_back(quote(name) + ": " + quote_some(hint));
            return fmt::format("{{{}}}", fmt::join(words, ", "));
          }};
}

std::size_t choose(const KeyValue& value, const std::vector<std::string>& words) {
  const std::string expected = fmt::format("one of {}", fmt::join(words, ", "));
  if (value.node.kind != YamlNode::Kind::scalar) value.refuse(expected);
  const auto found = std::find(words.begin(), words.end(), value.node.text);
  if (found == words.end()) value.refuse(expected + suggest(value.node.text, words));
  return std::size_t(found - words.begin());
}

std::vector<std::size_t> choose_some(const KeyValue& value, const std::vector<std::string>& words) {
  std::set<std::size_t> chosen;
  if (value.node.kind == YamlNode::Kind::list && value.node.items.empty()) return {};
  for (const YamlNode& item : value.list()) {
    if (chosen.insert(choose({item, value.name, value.folder}, words)).second) continue;
    core::fail(core::ErrorKind::usage, "{}{}: {} occurs twice", item.location, value.name, item.text);
  }
  return {chosen.begin(), chosen.end()};
}

std::string quote(const std::string& text) {
  const auto harmless = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' ||
           c == '_';
  };
  // Text that could be read as a number, or as one of YAML's words for null, must be quoted.
  const bool starts_well = !text.empty() && (text[0] == '/' || (text[0] >= 'a' && text[0] <= 'z')) && text != "null";
  if (starts_well && std::all_of(text.begin(), text.end(), harmless)) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;  // UTF-8 is not changed
    }
  }
  return quoted + "\"";
}

}  // namespace annulus::runfile
