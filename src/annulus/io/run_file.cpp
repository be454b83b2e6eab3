#include "annulus/io/run_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "annulus/core/error.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/run_file_checks.hpp"
#include "annulus/io/run_file_keys.hpp"
#include "annulus/io/yaml_values.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

/// Words that may stand in a section ("" is the whole file): keys, and sections inside.
std::vector<std::string> words_in(std::string_view section) {
  std::vector<std::string> words;
  for (const Key& key : key_table()) {
    std::string_view name = key.info.name;
    while (!name.empty() && section_of(name) != section) name = section_of(name);  // "input.generate.seed" -> "input"
    const std::string word(word_of(name));
    if (!name.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

bool is_section(const std::string& name) { return !words_in(name).empty(); }

std::string join(std::string_view section, const std::string& word) {
  return section.empty() ? word : std::string(section) + "." + word;
}

/// The first key that ends in this word: "attention.causal" for "causal"; empty where there is none.
std::string full_name(const std::string& word) {
  for (const Key& key : key_table()) {
    if (key.info.name.ends_with("." + word)) return std::string(key.info.name);
  }
  return "";
}

/// Refuses unknown keys and sections that are none, and notes where every key was written.
void check_words(const YamlNode& node, const std::string& section, RunFile& run) {
  if (node.kind != YamlNode::Kind::section) {
    const std::string what = section.empty() ? "a run file" : section;
    fail(ErrorKind::usage, "{}{}: found {}, expected a section with the keys {}", node.place, what, describe(node),
         fmt::join(words_in(section), ", "));
  }
  const std::vector<std::string> words = words_in(section);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    const auto& [word, value] = node.entries[i];
    const std::string name = join(section, word);
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      const std::string elsewhere = full_name(word);
      fail(ErrorKind::usage, "{}unknown key '{}'{}{}", node.key_places[i], word,
           section.empty() ? "" : " in " + section,
           elsewhere.empty() ? suggest(word, words) : fmt::format(", did you mean '{}'?", elsewhere));
    }
    run.places[name] = node.key_places[i];
    if (is_section(name)) check_words(value, name, run);
  }
}

const YamlNode* find_path(const YamlNode& root, std::string_view name) {
  const std::string_view section = section_of(name);
  const YamlNode* parent = section.empty() ? &root : find_path(root, section);
  return parent == nullptr ? nullptr : parent->find(word_of(name));
}

/// Puts the value of one --set into the tree, in place of what the file says.
void apply_override(YamlNode& root, const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const std::string place = "--set " + argument + ": ";
  if (equals == std::string::npos || equals == 0) fail(ErrorKind::usage, "{}expected --set section.key=value", place);
  YamlNode value = parse_yaml(argument.substr(equals + 1), "", place);

  YamlNode* node = &root;
  std::stringstream path(argument.substr(0, equals));
  for (std::string word; std::getline(path, word, '.');) {
    // A file that has no such section yet gets it; one that has something else there is refused by check_words.
    if (node->kind == YamlNode::Kind::null) node->kind = YamlNode::Kind::section;
    if (node->find(word) == nullptr) {
      node->entries.emplace_back(word, YamlNode{});
      node->entries.back().second.place = place;
      node->key_places.push_back(place);
    }
    const auto same = [&](const auto& entry) { return entry.first == word; };
    const auto found = std::find_if(node->entries.begin(), node->entries.end(), same);
    YamlNode* child = &found->second;
    if (path.eof()) {
      node->key_places[std::size_t(found - node->entries.begin())] = place;
      *child = std::move(value);
      return;
    }
    node = child;
  }
  fail(ErrorKind::usage, "{}expected --set section.key=value", place);
}

/// Refuses what cannot be YAML; the names of the files are easily mixed up.
void check_is_text(const std::string& path, std::string_view text) {
  constexpr std::string_view hdf5_signature("\x89HDF\r\n\x1a\n", 8);
  if (text.starts_with(hdf5_signature)) {
    fail(ErrorKind::usage,
         "{}: is an HDF5 file, expected a run file (YAML): one that names it, with `input: {{file: {}}}` for run and "
         "plan, or the one that made it, for verify",
         path, std::filesystem::path(path).filename().string());
  }
  if (text.find('\0') != std::string_view::npos) {
    fail(ErrorKind::usage, "{}: is not a text file, expected a run file (YAML)", path);
  }
}

std::string read_text_file(const std::string& path) {
  const comm::Blocked inside("the reading of " + path);
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (std::filesystem::is_directory(path, ignored))
    fail(ErrorKind::usage, "{}: is a folder, expected a run file", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::usage, "{}: cannot be opened: {}", path, std::strerror(errno));
  // A file of tensors, or /dev/zero, is not read to its end.
  constexpr std::size_t most = std::size_t(16) << 20;
  std::string text(most + 1, '\0');
  text.resize(std::size_t(file.read(text.data(), std::streamsize(text.size())).gcount()));
  check_is_text(path, text);
  if (text.size() > most) fail(ErrorKind::usage, "{}: is larger than 16 MiB, expected a run file (YAML)", path);
  return text;
}

}  // namespace

std::string RunFile::where(std::string_view key) const {
  auto found = places.find(key);
  while (found == places.end() && !key.empty()) {
    key = section_of(key);  // "" at last, which is the whole file
    found = places.find(key);
  }
  return found == places.end() ? name + ": " : found->second;
}

RunFile parse_run_file(const std::string& text, const std::string& path, const std::vector<std::string>& overrides) {
  RunFile run;
  run.name = path;
  YamlNode root = parse_yaml(text, path);
  for (const std::string& argument : overrides) apply_override(root, argument);
  if (root.kind == YamlNode::Kind::null) fail(ErrorKind::usage, "{}the run file is empty", root.place);
  check_words(root, "", run);
  run.places[""] = root.place;

  if (find_path(root, "input.generate") != nullptr) run.settings.input.generate.emplace();
  if (find_path(root, "layer") != nullptr) run.settings.layer.emplace();
  if (find_path(root, "train") != nullptr) run.settings.train.emplace();
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  for (const Key& key : key_table()) {
    const YamlNode* node = find_path(root, key.info.name);
    if (node != nullptr) key.access.read({*node, key.info.name, folder}, run.settings);
  }
  const auto entries = [&](const char* name) {
    const YamlNode* node = find_path(root, name);
    return node == nullptr ? 0 : node->items.size();
  };
  complete_and_check(run, entries("attention.segments"), entries("attention.dilations"));
  return run;
}

RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides,
                      const comm::Communicator& comm) {
  // One rank reads, so that all parse the same text even while someone edits the file.
  const std::string text = from_root(comm, [&] { return read_text_file(path); });
  RunFile run;
  comm::agree(comm, [&] { run = parse_run_file(text, path, overrides); });
  return run;
}

std::string resolved_text(const Settings& settings) {
  std::string text, open;  // `open`: the section whose keys are being written
  for (const Key& key : key_table()) {
    const std::string value = key.access.write(settings);
    if (value.empty()) continue;
    const std::string_view section = section_of(key.info.name);
    const bool nested = !section_of(section).empty();
    if (open.substr(0, open.find('.')) != section.substr(0, section.find('.'))) {
      text += fmt::format("{}:\n", section.substr(0, section.find('.')));
    }
    if (nested && open != section) text += fmt::format("  {}:\n", word_of(section));
    text += fmt::format("{}{}: {}\n", nested ? "    " : "  ", word_of(key.info.name), value);
    open = section;
  }
  return text;
}

std::vector<std::string> differences(const Settings& made, const Settings& asked, bool same_numbers) {
  std::vector<std::string> lines;
  const auto file_name = [](const Settings& s) { return std::filesystem::path(s.input.file.value_or("")).filename(); };
  for (const Key& key : key_table()) {
    if (!key.decides_result) continue;
    const std::string before = key.access.write(made), now = key.access.write(asked);
    const bool same =
        before == now || (key.info.name == "input.file" && (same_numbers || file_name(made) == file_name(asked)));
    if (!same) lines.push_back(fmt::format("{}: {} -> {}", key.info.name, before, now));
  }
  return lines;
}

}  // namespace annulus::io
