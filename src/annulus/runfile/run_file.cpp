#include "annulus/runfile/run_file.hpp"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "annulus/comm/root.hpp"
#include "annulus/core/error.hpp"
#include "annulus/runfile/run_file_checks.hpp"
#include "annulus/runfile/user_files.hpp"

namespace annulus::runfile {
namespace {

using core::ErrorKind;
using core::fail;

/// The end of `text` that YAML ignores as a comment; empty if there is none. It begins at the first # after a blank and
/// outside quotes. The text before a # in quotes is not valid YAML, because it lacks the closing quote.
std::string comment_in(const std::string& text) {
  for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#', at + 1)) {
    if (at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t') continue;
    try {
      parse_yaml(text.substr(0, at), "", "");
      return text.substr(at);
    } catch (const core::Error&) {
      continue;
    }
  }
  return "";
}

/// Puts the value of one --set into the tree, in place of the file's value.
void apply_override(YamlNode& root, const std::string& argument) {
  const std::size_t equals = argument.find('=');
  const std::string location = "--set " + argument + ": ", key = argument.substr(0, equals);
  if (equals == std::string::npos || key.empty() || key.ends_with('.')) {
    fail(ErrorKind::usage, "{}expected --set section.key=value", location);
  }
  const std::string value = argument.substr(equals + 1);
  const bool is_one_line = value.find('\n') == std::string::npos;  // a block of text may have lines that begin with #
  if (const std::string comment = comment_in(value); is_one_line && !comment.empty()) {
    fail(ErrorKind::usage, "{}YAML ignores '{}' as a comment; if it belongs to the value, write --set '{}=\"{}\"'",
         location, comment, key, value);
  }
  put(root, key, parse_yaml(value, "", location), location);
}

}  // namespace

std::string folder_of_paths(const std::string& path) {
  const std::filesystem::path file = without_dots(std::filesystem::absolute(path));
  const bool is_stream = file == "/dev/stdin" || file.parent_path() == "/dev/fd" || file.string().starts_with("/proc/");
  return (is_stream ? std::filesystem::current_path() : file.parent_path()).string();
}

std::string RunFile::where(std::string_view key) const {
  return locations.empty() ? name + ": " : location_of(locations, key);
}

void put(YamlNode& root, const std::string& key, YamlNode value, const std::string& location) {
  YamlNode* node = &root;
  std::stringstream path(key);
  for (std::string word; std::getline(path, word, '.');) {
    if (node->kind == YamlNode::Kind::null) node->kind = YamlNode::Kind::section;  // the file lacks this section
    if (node->kind != YamlNode::Kind::section) {
      fail(ErrorKind::usage, "{}expected a section before '.{}', found {} ({})", location, word, describe(*node),
           node->location.substr(0, node->location.size() - 2));
    }
    const auto same = [&](const YamlNode::Entry& entry) { return entry.key == word; };
    auto found = std::find_if(node->entries.begin(), node->entries.end(), same);
    if (found == node->entries.end()) {
      found = node->entries.insert(found, {word, location, {}});
      found->value.location = location;
    }
    if (path.eof()) found->location = location;
    node = &found->value;
  }
  *node = std::move(value);
}

RunFileTree parse_run_file_tree(const std::string& text, const std::string& path,
                                const std::vector<std::string>& overrides) {
  RunFileTree tree{path, parse_yaml(text, path)};
  for (const std::string& argument : overrides) apply_override(tree.root, argument);
  if (tree.root.kind == YamlNode::Kind::null) fail(ErrorKind::usage, "{}the run file is empty", tree.root.location);
  return tree;
}

RunFile keys_of(const RunFileTree& tree) {
  RunFile run;
  run.name = tree.name;
  if (find_path(tree.root, "input.generate") != nullptr) run.settings.input.generate.emplace();
  if (find_path(tree.root, "layer") != nullptr) run.settings.layer.emplace();
  if (find_path(tree.root, "train") != nullptr) run.settings.train.emplace();
  if (find_path(tree.root, "bench") != nullptr) run.settings.bench.emplace();
  run.locations = read_keys(run_file_keys(), tree.root, "a run file", folder_of_paths(tree.name), run.settings);
  return run;
}

RunFile settings_of(const RunFileTree& tree) {
  RunFile run = keys_of(tree);
  const auto entries = [&](const char* name) {
    const YamlNode* node = find_path(tree.root, name);
    return node == nullptr ? 0 : node->items.size();
  };
  complete_and_check(run, entries("attention.segments"), entries("attention.dilations"));
  return run;
}

RunFile parse_run_file(const std::string& text, const std::string& path, const std::vector<std::string>& overrides) {
  return settings_of(parse_run_file_tree(text, path, overrides));
}

RunFile read_run_file(const std::string& path, const std::vector<std::string>& overrides,
                      const comm::Communicator& comm) {
  const RunFileTree tree = read_run_file_tree(path, overrides, comm);
  RunFile run;
  comm::agree(comm, [&] { run = settings_of(tree); });
  return run;
}

RunFileTree read_run_file_tree(const std::string& path, const std::vector<std::string>& overrides,
                               const comm::Communicator& comm) {
  // Only rank 0 reads, so that all ranks parse the same text, also if a user edits the file meanwhile.
  const std::string text = comm::from_root(comm, [&] {
    return read_text_file(path, "a run file (YAML)",
                          fmt::format(": one that names it, with `input: {{file: {}}}` for run and plan, or the one "
                                      "that made it, for verify",
                                      std::filesystem::path(path).filename().string()));
  });
  RunFileTree tree;
  comm::agree(comm, [&] { tree = parse_run_file_tree(text, path, overrides); });
  return tree;
}

std::string resolved_text(const Settings& settings) {
  std::vector<KeyLine> lines;
  for (const Key<Settings>& key : run_file_keys()) {
    const std::string value = key.text(settings);
    if (!value.empty()) lines.push_back({key.name, value, ""});
  }
  return sections_text(lines);
}

std::vector<std::string> differences(const Settings& made, const Settings& asked,
                                     const std::vector<std::string_view>& excused) {
  std::vector<std::string> lines;
  const auto file_name = [](const Settings& s) { return std::filesystem::path(s.input.file.value_or("")).filename(); };
  for (const Key<Settings>& key : run_file_keys()) {
    if (!key.decides_result) continue;
    const std::string before = key.text(made), now = key.text(asked);
    const bool both = !before.empty() && !now.empty();
    const bool is_excused = both && std::find(excused.begin(), excused.end(), key.name) != excused.end();
    const bool same_file = key.name == "input.file" && file_name(made) == file_name(asked);
    if (before != now && !is_excused && !same_file) lines.push_back(fmt::format("{}: {} -> {}", key.name, before, now));
  }
  return lines;
}

}  // namespace annulus::runfile
