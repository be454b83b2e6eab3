// Parses YAML text into a plain tree in which every node has its location. Some things that YAML allows are refused by
// parse_yaml(): duplicate keys, several documents, merge keys, tags, keys that are not words, and too many aliases.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace annulus::runfile {

struct YamlNode {
  enum class Kind { null, scalar, list, section };
  struct Entry;

  Kind kind = Kind::null;
  std::string location;         ///< "FILE:LINE:COLUMN: ", which begins every error about the node
  std::string text;             ///< the text of a scalar
  bool quoted = false;          ///< a scalar in quotes is never a number or true/false
  std::vector<YamlNode> items;  ///< the items of a list
  std::vector<Entry> entries;   ///< the keys of a section, in the order of the text

  /// The value of `key`; nullptr if there is none.
  const YamlNode* find(std::string_view key) const;
};

struct YamlNode::Entry {
  std::string key;
  std::string location;  ///< where the key was written
  YamlNode value;
};

/// Parses one document. A location is "NAME:LINE:COLUMN: ", or `fixed_location` if that is given (--set). Empty text
/// gives a null node. Throws Error(usage).
YamlNode parse_yaml(const std::string& text, const std::string& name, const std::string& fixed_location = "");

/// Describes a node for error messages: "'abc'", "the quoted text 'abc'", "a list", "a section", "nothing".
std::string describe(const YamlNode& node);

}  // namespace annulus::runfile
