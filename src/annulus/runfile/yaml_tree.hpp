// YAML text as a plain tree in which every node knows its location. Everything that YAML allows and a run file should
// not is refused here: duplicate keys, several documents, merge keys, tags, keys that are no words, alias bombs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace annulus::runfile {

struct YamlNode {
  enum class Kind { null, scalar, list, section };
  struct Entry;

  Kind kind = Kind::null;
  std::string location;         ///< "FILE:LINE:COLUMN: ", in front of every error about the node
  std::string text;             ///< of a scalar
  bool quoted = false;          ///< a scalar in quotes is never a number or true/false
  std::vector<YamlNode> items;  ///< of a list
  std::vector<Entry> entries;   ///< of a section, in the order of the text

  /// The value of `key`, or nullptr.
  const YamlNode* find(std::string_view key) const;
};

struct YamlNode::Entry {
  std::string key;
  std::string location;  ///< of the key
  YamlNode value;
};

/// Parses one document. Locations are "NAME:LINE:COLUMN: ", or `fixed_location` when that is given (--set). An empty
/// text gives a null node. Throws Error(usage).
YamlNode parse_yaml(const std::string& text, const std::string& name, const std::string& fixed_location = "");

/// How an error message calls what was found: "the text 'abc'", "a list", "nothing".
std::string describe(const YamlNode& node);

}  // namespace annulus::runfile
