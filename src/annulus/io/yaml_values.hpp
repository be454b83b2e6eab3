// Single values of a run file, read strictly: what looks like one thing is never taken for another.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/io/yaml_tree.hpp"

namespace annulus::io {

// Each throws Error(usage) with the node's place, `key`, what was found and what is expected.

/// A whole number in decimal, between the bounds. Refused: 010 and 0x10 (octal, hexadecimal), 1e3, 1.5, '12'.
core::Index read_integer(const YamlNode& node, std::string_view key, core::Index least, core::Index most);

/// The one entry, called `word`, of a section: "{base: 10000}". Refused: anything else.
const YamlNode& read_only_entry(const YamlNode& node, std::string_view key, std::string_view word,
                                const std::string& expected);

/// A finite number > 0. Refused as above, and .inf, .nan, 1e999.
double read_positive_number(const YamlNode& node, std::string_view key);

/// `true` or `false`, and none of YAML's further words for them.
bool read_flag(const YamlNode& node, std::string_view key);

/// Any text but an empty one.
std::string read_text(const YamlNode& node, std::string_view key);

/// One of `choices`; the error suggests the nearest. Returns its position.
std::size_t read_choice(const YamlNode& node, std::string_view key, const std::vector<std::string>& choices);

/// A list of one entry at least.
const std::vector<YamlNode>& read_list(const YamlNode& node, std::string_view key);

/// True when the node is the plain or quoted word.
bool is_word(const YamlNode& node, std::string_view word);

/// `text` as a YAML scalar that reads back as the same text: quoted unless made of plain letters.
std::string quote(const std::string& text);

}  // namespace annulus::io
