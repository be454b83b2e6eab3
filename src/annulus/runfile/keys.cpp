#include "annulus/runfile/keys.hpp"

#include <algorithm>

#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {
namespace {

using core::ErrorKind;
using core::fail;
using Names = std::vector<std::string>;

/// The last words of the keys and sections that are directly in `section`; "" means the whole file.
Names words_in(std::string_view section, const Names& names) {
  Names words;
  for (std::string_view name : names) {
    while (!name.empty() && section_of(name) != section) name = section_of(name);  // section "": "a.b.c" -> "a"
    const std::string word(word_of(name));
    if (!name.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

/// Returns a suggestion for an unknown word: the key with this word in another section, or a similar word.
std::string meant(const std::string& word, const Names& words, const Names& names) {
  const auto ends = [&](const std::string& name) { return name.ends_with("." + word); };
  const auto elsewhere = std::find_if(names.begin(), names.end(), ends);
  return elsewhere == names.end() ? suggest(word, words) : fmt::format(", did you mean '{}'?", *elsewhere);
}

/// Does the work of check_words() for one section; "" means the whole file.
void check_section(const YamlNode& node, const std::string& section, const Names& names, const std::string& what,
                   Locations& locations) {
  const Names words = words_in(section, names);
  if (node.kind != YamlNode::Kind::section) {
    fail(ErrorKind::usage, "{}{}: found {}, expected a section with the keys {}", node.location,
         section.empty() ? what : section, describe(node), fmt::join(words, ", "));
  }
  for (const auto& [word, location, value] : node.entries) {
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      fail(ErrorKind::usage, "{}unknown key '{}'{}{}", location, word, section.empty() ? "" : " in " + section,
           meant(word, words, names));
    }
    const std::string name = section.empty() ? word : section + "." + word;
    locations[name] = location;
    if (!words_in(name, names).empty()) check_section(value, name, names, what, locations);
  }
}

}  // namespace

std::string_view section_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == std::string_view::npos ? "" : key.substr(0, dot);
}

std::string_view word_of(std::string_view key) { return key.substr(key.rfind('.') + 1); }

const YamlNode* find_path(const YamlNode& root, std::string_view name) {
  const std::string_view section = section_of(name);
  const YamlNode* parent = section.empty() ? &root : find_path(root, section);
  return parent == nullptr ? nullptr : parent->find(word_of(name));
}

Locations check_words(const YamlNode& root, const std::vector<std::string>& names, const std::string& what) {
  Locations locations{{"", root.location}};
  check_section(root, "", names, what, locations);
  return locations;
}

const std::string& location_of(const Locations& locations, std::string_view key) {
  auto found = locations.find(key);
  while (found == locations.end()) {
    key = section_of(key);  // ends at "", which means the whole file
    found = locations.find(key);
  }
  return found->second;
}

std::string sections_text(const std::vector<KeyLine>& lines) {
  std::string text, open;  // `open`: the section that is being written
  const auto indent = [](std::string_view name) { return 2 * std::count(name.begin(), name.end(), '.'); };
  const auto add_headings = [&](const auto& self, std::string_view section) -> void {
    if (section.empty() || (open + ".").starts_with(std::string(section) + ".")) return;
    self(self, section_of(section));
    text += fmt::format("{:{}}{}:\n", "", indent(section), word_of(section));
  };
  for (const auto& [name, value, comment] : lines) {
    add_headings(add_headings, section_of(name));
    text += fmt::format("{:{}}{}: {}{}{}\n", "", indent(name), word_of(name), value, comment.empty() ? "" : "  # ",
                        comment);
    open = section_of(name);
  }
  return text;
}

}  // namespace annulus::runfile
