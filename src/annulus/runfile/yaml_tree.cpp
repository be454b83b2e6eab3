#include "annulus/runfile/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "annulus/core/error.hpp"

namespace annulus::runfile {
namespace {

using core::ErrorKind;
using core::fail;

// A run file has some dozens of nodes. A limit is needed because aliases repeat nodes, so that a short text can stand
// for billions of nodes.
constexpr int max_nodes = 10000;
constexpr int max_levels = 500;  // yaml-cpp's own limit; without it, an alias inside its own node would never end

class TreeBuilder {
 public:
  TreeBuilder(const std::string& name, const std::string& fixed_location)
      : name_(name), fixed_location_(fixed_location) {}

  std::string location(const YAML::Mark& mark) const {
    if (!fixed_location_.empty()) return fixed_location_;
    // Marks count from 0. In the mark of an empty document, line and column are -1.
    return fmt::format("{}:{}:{}: ", name_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1);
  }

  YamlNode build(const YAML::Node& from) {
    YamlNode node;
    node.location = location(from.Mark());
    if (++nodes_ > max_nodes) {
      fail(ErrorKind::usage, "{}more than {} values; aliases that multiply?", node.location, max_nodes);
    }
    if (++level_ > max_levels) {
      fail(ErrorKind::usage, "{}nested too deeply; an alias inside itself?", node.location);
    }
    const std::string& tag = from.Tag();  // "?": plain, "!": quoted, otherwise the user wrote a tag
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(ErrorKind::usage, "{}the tag {} is not understood, write the value without it", node.location, tag);
    }
    if (from.IsScalar()) {
      node.kind = YamlNode::Kind::scalar;
      node.text = from.Scalar();
      node.quoted = tag == "!";
    } else if (from.IsSequence()) {
      node.kind = YamlNode::Kind::list;
      for (const YAML::Node& item : from) node.items.push_back(build(item));
    } else if (from.IsMap()) {
      node.kind = YamlNode::Kind::section;
      for (const auto& entry : from) add_entry(node, entry.first, entry.second);
    }
    --level_;
    return node;
  }

 private:
  void add_entry(YamlNode& section, const YAML::Node& key, const YAML::Node& value) {
    const std::string at = location(key.Mark());
    if (!key.IsScalar()) fail(ErrorKind::usage, "{}a key must be a word", at);
    const std::string& word = key.Scalar();
    if (word == "<<") fail(ErrorKind::usage, "{}merge keys (<<) are not understood, write the keys out", at);
    const auto same = [&](const YamlNode::Entry& entry) { return entry.key == word; };
    const auto earlier = std::find_if(section.entries.begin(), section.entries.end(), same);
    if (earlier != section.entries.end()) {
      const std::string& first = earlier->location;
      fail(ErrorKind::usage, "{}duplicate key '{}', the first is at {}", at, word, first.substr(0, first.size() - 2));
    }
    section.entries.push_back({word, at, build(value)});
    YamlNode& added = section.entries.back().value;
    if (added.kind == YamlNode::Kind::null) added.location = at;  // an empty value has no location of its own
  }

  std::string name_;
  std::string fixed_location_;
  int nodes_ = 0;
  int level_ = 0;
};

/// Finds the location of a document's first value; `mark` is empty if the document is empty, or its value is null.
class FirstValue final : public YAML::EventHandler {
 public:
  std::optional<YAML::Mark> mark;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override { is_begun_ = true; }
  void OnAlias(const YAML::Mark& at, YAML::anchor_t) override { note(at); }
  void OnScalar(const YAML::Mark& at, const std::string&, YAML::anchor_t, const std::string&) override { note(at); }
  void OnSequenceStart(const YAML::Mark& at, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    note(at);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& at, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    note(at);
  }
  void OnMapEnd() override {}

 private:
  void note(const YAML::Mark& at) {
    if (!is_begun_) mark = at;
    is_begun_ = true;
  }
  bool is_begun_ = false;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The line, counted from 0, of the last document marker. An empty second document starts there.
int last_marker(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  const auto found =
      std::find_if(lines.rbegin(), lines.rend(), [](const auto& line) { return line.starts_with("---"); });
  return int(lines.rend() - found) - 1;
}

/// Throws an Error(usage) that says what yaml-cpp found. Frequent mistakes are explained in our own words.
[[noreturn]] void explain(const YAML::Exception& error, const std::string& text, const TreeBuilder& builder) {
  if (error.msg == YAML::ErrorMsg::BAD_FILE) {  // yaml-cpp's message for more than 500 levels
    fail(ErrorKind::usage, "{}not valid YAML, nested too deeply", builder.location(error.mark));
  }
  const std::vector<std::string> lines = lines_of(text);
  if (std::size_t(error.mark.line) < lines.size()) {
    const std::string& line = lines[std::size_t(error.mark.line)];
    const std::size_t tab = line.find('\t');
    YAML::Mark mark = error.mark;
    mark.column = int(tab);
    if (tab < line.find_first_not_of(" \t")) {
      fail(ErrorKind::usage, "{}not valid YAML: a tab in the indentation, only spaces may indent",
           builder.location(mark));
    }
  }
  fail(ErrorKind::usage, "{}not valid YAML: {}", builder.location(error.mark), error.msg);
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

YamlNode parse_yaml(const std::string& text, const std::string& name, const std::string& fixed_location) {
  TreeBuilder builder(name, fixed_location);
  try {
    // YAML::LoadAll() is not used, because from some invalid texts it makes empty documents without end.
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    FirstValue first, second;
    if (parser.HandleNextDocument(first) && parser.HandleNextDocument(second)) {
      YAML::Mark mark = second.mark.value_or(YAML::Mark());
      if (!second.mark) mark.line = last_marker(text), mark.column = 0;
      fail(ErrorKind::usage, "{}a second YAML document, one is expected", builder.location(mark));
    }
    return builder.build(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    explain(error, text, builder);
  }
}

std::string describe(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::null) return "nothing";
  if (node.kind != YamlNode::Kind::scalar) return node.kind == YamlNode::Kind::list ? "a list" : "a section";
  return node.quoted ? "the quoted text '" + node.text + "'" : "'" + node.text + "'";
}

}  // namespace annulus::runfile
