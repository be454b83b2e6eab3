// A file of keys in sections (run file, machine file) as one table: a key's line in it is all that reading, writing,
// suggestions for unknown words and the test of input/reference.yaml know of the key.
#pragma once

#include <map>

#include "annulus/core/error.hpp"
#include "annulus/runfile/codecs.hpp"

namespace annulus::runfile {

/// A key, or the name of a section -> where it was written: "FILE:LINE:COLUMN: " or "--set ...: ". "": the whole file.
using Locations = std::map<std::string, std::string, std::less<>>;

/// One key of a file that fills a `Root`.
template <class Root>
struct Key {
  std::string name;                                    ///< with its sections: "attention.scale"
  std::string range;                                   ///< what may be written, with the unit
  std::function<void(const KeyValue&, Root&)> read;    ///< throws Error(usage)
  std::function<std::string(const Root&)> write;       ///< as YAML; empty where there is no value
  std::function<bool(const Root&)> has_section;        ///< the part that the key is a member of is there
  std::function<bool(const Root&)> has_use = nullptr;  ///< where it gives false the key is not written
  bool required = false;                               ///< no default
  bool decides_result = false;                         ///< another value may give other numbers

  std::string text(const Root& root) const {
    return has_section(root) && (!has_use || has_use(root)) ? write(root) : "";
  }
};

/// Adds keys to a table. `get` returns a pointer to the part of a Root (const or not) that the keys are members of, or
/// null where it is not there.
template <class Root, class Get>
class Section {
 public:
  Section(std::vector<Key<Root>>& keys, std::string name, Get get, bool decides_result = false)
      : keys_(keys), name_(std::move(name)), get_(get), decides_result_(decides_result) {}

  /// `range` says what may be written; {} in it stands for the codec's own words.
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

/// "attention.scale" -> "attention" and "scale"; "attention" -> "" and "attention".
std::string_view section_of(std::string_view key);
std::string_view word_of(std::string_view key);

const YamlNode* find_path(const YamlNode& root, std::string_view name);

/// Refuses words that are none of the keys `names` and sections that are none, and notes where all were written. `what`
/// is a name for the whole: "a run file". Throws Error(usage).
Locations check_words(const YamlNode& root, const std::vector<std::string>& names, const std::string& what);

/// The location of the key, else of the nearest section around it that was written.
const std::string& location_of(const Locations& locations, std::string_view key);

/// Reads all keys that the file has, after check_words(). Throws Error(usage).
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

/// Throws Error(usage) where a required key of `section` ("": of any section that is there) is missing.
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

/// One line of a file in sections; `comment` may be empty.
struct KeyLine {
  std::string name, value, comment;
};
/// The lines under the headings of their sections, as YAML.
std::string sections_text(const std::vector<KeyLine>& lines);

}  // namespace annulus::runfile
