// A table of all keys of a file with sections (run file, machine file). The functions that read and write such files,
// the suggestions for unknown words and the test of input/reference.yaml use this table. So code that reads or writes
// files does not change when a key is added.
#pragma once

#include <map>

#include "annulus/core/error.hpp"
#include "annulus/runfile/codecs.hpp"

namespace annulus::runfile {

/// The location of each key or section that was written: "FILE:LINE:COLUMN: " or "--set ...: ". The key "" means the
/// whole file.
using Locations = std::map<std::string, std::string, std::less<>>;

/// One key of a file whose values go into a `Root`.
template <class Root>
struct Key {
  std::string name;                                    ///< full name with sections: "attention.scale"
  std::string range;                                   ///< allowed values, with their unit
  std::function<void(const KeyValue&, Root&)> read;    ///< throws Error(usage)
  std::function<std::string(const Root&)> write;       ///< returns the value as YAML; empty if there is no value
  std::function<bool(const Root&)> has_section;        ///< true if the Root has the part that holds this key's value
  std::function<bool(const Root&)> has_use = nullptr;  ///< if it returns false, the key is not written
  bool required = false;                               ///< true: if has_section(root), the file must have the key
  bool decides_result = false;                         ///< another value may change the numbers of the result

  std::string text(const Root& root) const {
    return has_section(root) && (!has_use || has_use(root)) ? write(root) : "";
  }
};

/// Adds the keys of a section to a table. get(root) returns a pointer to the part of the Root (const or not) that holds
/// the values of these keys; nullptr if the Root lacks this part.
template <class Root, class Get>
class Section {
 public:
  Section(std::vector<Key<Root>>& keys, std::string name, Get get, bool decides_result = false)
      : keys_(keys), name_(std::move(name)), get_(get), decides_result_(decides_result) {}

  /// `range` says which values are allowed; {} in it stands for Codec::range.
  template <class Part, class T>
  Key<Root>& field(const std::string& word, T Part::*member, const Codec<T>& codec, std::string range = "{}") {
    if (const std::size_t at = range.find("{}"); at != std::string::npos) range.replace(at, 2, codec.range);
    const Get get = get_;
    keys_.push_back({name_.empty() ? word : name_ + "." + word, range,
                     [=](const KeyValue& value, Root& root) { codec.read(value, get(root)->*member); },
                     [=](const Root& root) { return codec.write(get(root)->*member); },
                     [=](const Root& root) { return get(root) != nullptr; }, nullptr, false, decides_result_});
    return keys_.back();
  }

 private:
  std::vector<Key<Root>>& keys_;
  std::string name_;
  Get get_;
  bool decides_result_;
};

/// Splits off the last word: "attention.scale" gives "attention" and "scale"; "attention" gives "" and "attention".
std::string_view section_of(std::string_view key);
std::string_view word_of(std::string_view key);

const YamlNode* find_path(const YamlNode& root, std::string_view name);  ///< nullptr: the file lacks this key

/// Returns where each key was written. Throws Error(usage) for a key that is not in `names`, and for a plain value or a
/// list in place of a section. `what` describes the file: "a run file".
Locations check_words(const YamlNode& root, const std::vector<std::string>& names, const std::string& what);

/// Returns the location of the key or, if the file lacks the key, of the innermost section around the key.
const std::string& location_of(const Locations& locations, std::string_view key);

/// Calls check_words(), reads all keys that the file has, and returns where they were written. Throws Error(usage).
template <class Root>
Locations read_keys(const std::vector<Key<Root>>& keys, const YamlNode& file, const std::string& what,
                    const std::string& folder, Root& to) {
  std::vector<std::string> names;
  for (const Key<Root>& key : keys) names.push_back(key.name);
  Locations locations = check_words(file, names, what);
  for (const Key<Root>& key : keys) {
    if (const YamlNode* node = find_path(file, key.name)) key.read({*node, key.name, folder}, to);
  }
  return locations;
}

/// Throws Error(usage) if the file lacks a required key of `section`; "" means every section. Checks only keys whose
/// part the Root has (Key::has_section).
template <class Root>
void check_required(const std::vector<Key<Root>>& keys, const Locations& locations, const Root& root,
                    std::string_view section = "") {
  for (const Key<Root>& key : keys) {
    if (!key.required || !key.has_section(root) || locations.contains(key.name)) continue;
    if (!section.empty() && section_of(key.name) != section) continue;
    core::fail(core::ErrorKind::usage, "{}{} is missing, expected {}", location_of(locations, key.name), key.name,
               key.range);
  }
}

/// One line of a file with sections; `comment` may be empty.
struct KeyLine {
  std::string name, value, comment;
};
/// The lines as YAML with section headings. Lines of a section must follow one another.
std::string sections_text(const std::vector<KeyLine>& lines);

}  // namespace annulus::runfile
