// The one table of the run file's keys: it drives parsing, the check for unknown keys, the resolved text, and the test
// that holds input/reference.yaml to the code.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/io/run_file.hpp"
#include "annulus/io/yaml_tree.hpp"

namespace annulus::io {

/// One value of the run file: the node, its key's full name, and the folder that relative paths start from.
struct KeyValue {
  const YamlNode& node;
  std::string_view name;
  const std::string& folder;
};

/// How a key gets into the settings and out again.
struct Access {
  std::function<void(const KeyValue&, Settings&)> read;  ///< throws Error(usage)
  /// The value as YAML; empty when the settings do not have this key (file and generate exclude each other).
  std::function<std::string(const Settings&)> write;
};

struct Key {
  KeyInfo info;
  Access access;
  bool decides_result;  ///< another value may give other numbers
};

/// In the order of input/reference.yaml; keys of one section stand together.
const std::vector<Key>& key_table();

/// Those of the sections layer and train.
std::vector<Key> layer_keys();

/// A path of the run file, relative to its folder.
std::string absolute(const std::string& path, const std::string& folder);

/// "attention.scale" -> "attention" and "scale"; "attention" -> "" and "attention".
std::string_view section_of(std::string_view key);
std::string_view word_of(std::string_view key);

}  // namespace annulus::io
