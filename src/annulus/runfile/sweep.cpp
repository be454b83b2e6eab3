#include "annulus/runfile/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

#include "annulus/core/error.hpp"
#include "annulus/runfile/run_file.hpp"
#include "annulus/runfile/section_codecs.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::runfile {
namespace {

using core::ErrorKind;
using core::fail;
using Kind = YamlNode::Kind;

/// Limit for the values of all cases together (each list entry counts), because all of them are in memory at once.
constexpr Index most_values = 2'000'000;

/// True for a scalar that YAML reads back unchanged, also inside [ ] and { }.
bool is_plain(const std::string& text) {
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) || (c != 0 && std::strchr("_./+-", c) != nullptr);
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), harmless);
}

SweptValue value_of(const YamlNode& node) { return {node, text_of(node)}; }

/// Reads a range: {from: 4, to: 16, times: 2} is 4 8 16, and {from: 1, to: 10, step: 3} is 1 4 7 10. No value is above
/// `to`.
std::vector<SweptValue> range_of(const KeyValue& value) {
  std::map<std::string, Index> words;
  for (const auto& [word, location, node] : value.node.entries) {
    if (word != "from" && word != "to" && word != "times" && word != "step") {
      fail(ErrorKind::usage, "{}unknown key '{}' in the range of {}{}", location, word, value.name,
           suggest(word, {"from", "to", "times", "step"}));
    }
    const std::string name = fmt::format("{}: {}", value.name, word);
    const bool first = word == "from";
    whole(first ? 0 : word == "times" ? 2 : 1, INT64_MAX).read({node, name, value.folder}, words[word]);
  }
  const bool complete = words.contains("from") && words.contains("to");
  if (!complete || words.contains("times") == words.contains("step")) {
    value.refuse("{from: 1, to: 8, times: 2} or {from: 1, to: 7, step: 3}");
  }
  const bool times = words.contains("times");
  if (times && words["from"] == 0) value.refuse("`from` above 0, because `times` multiplies it");
  if (words["from"] > words["to"]) value.refuse("`from` <= `to`");
  std::vector<SweptValue> values;
  for (Index at = words["from"]; at <= words["to"] && Index(values.size()) <= most_cases;) {
    values.push_back(value_of({Kind::scalar, value.node.location, std::to_string(at), false, {}, {}}));
    // Divides and subtracts, because a product or a sum might not fit into 64 bits.
    if (times ? at > words["to"] / words["times"] : at > words["to"] - words["step"]) break;
    at = times ? at * words["times"] : at + words["step"];
  }
  return values;
}

std::vector<SweptValue> values_of(const KeyValue& value) {
  if (value.node.kind == Kind::section) return range_of(value);
  if (value.node.kind != Kind::list) {
    value.refuse(
        fmt::format("a list of values, for example [{}], or a range {{from, to, times}}", text_of(value.node)));
  }
  std::vector<SweptValue> values;
  for (const YamlNode& item : value.list()) {
    if (item.kind == Kind::null) KeyValue{item, value.name, value.folder}.refuse("a value");
    values.push_back(value_of(item));
  }
  return values;
}

/// Number of scalars, lists and sections in a value. The memory for the value grows with this number.
Index entries_in(const YamlNode& node) {
  Index count = 1;
  for (const YamlNode& item : node.items) count += entries_in(item);
  for (const auto& [word, location, value] : node.entries) count += entries_in(value);
  return count;
}

/// The largest number of entries that a case can have: the sum of the entries of each key's largest value.
Index entries_of_a_case(const std::vector<SweepAxis>& sweep) {
  Index count = 0;
  for (const SweepAxis& axis : sweep) {
    for (const SweptKey& key : axis) {
      Index largest = 0;
      for (const SweptValue& one : key.values) largest = std::max(largest, entries_in(one.node));
      count += largest;
    }
  }
  return count;
}

SweepAxis axis_of(const KeyValue& value) {
  if (value.node.kind != Kind::section || value.node.entries.empty()) value.refuse("keys with their values");
  SweepAxis axis;
  for (const auto& [word, location, node] : value.node.entries) {
    const std::string name = fmt::format("{}: {}", value.name, word);
    axis.push_back({word, location, values_of({node, name, value.folder})});
    const SweptKey &first = axis.front(), &now = axis.back();
    if (now.values.size() != first.values.size()) {
      fail(ErrorKind::usage, "{}{} has {} values, {} of the same axis has {}: keys of one axis change together",
           now.location, now.name, now.values.size(), first.name, first.values.size());
    }
    if (Index(axis.size() * now.values.size()) > most_values) {
      fail(ErrorKind::usage, "{}{}: more than {} values of one axis", now.location, now.name, most_values);
    }
  }
  return axis;
}

SkipCondition condition_of(const KeyValue& value) {
  if (value.node.kind != Kind::section || value.node.entries.empty()) value.refuse("keys with a value each");
  SkipCondition condition{value.node.location, {}};
  for (const auto& [word, location, node] : value.node.entries) condition.values.emplace_back(word, value_of(node));
  return condition;
}

std::string join(const std::vector<std::string>& words, const char* open, const char* close) {
  return fmt::format("{}{}{}", open, fmt::join(words, ", "), close);
}

/// Throws Error(usage) unless a sweep may vary the key.
void check_key(const SweptKey& key) {
  if (key.name == ranks_word || key.name == threads_word) return;
  for (const char* section : {"bench.", "output.", "train."}) {
    if (!key.name.starts_with(section)) continue;
    fail(ErrorKind::usage, "{}bench.sweep: {} cannot vary: all cases share the section {}", key.location, key.name,
         std::string(section, std::strlen(section) - 1));
  }
  std::vector<std::string> names{ranks_word, threads_word};
  for (const Key<Settings>& known : run_file_keys()) names.push_back(known.name);
  if (std::find(names.begin(), names.end(), key.name) != names.end()) return;
  const auto is_last_word = [&](const std::string& name) { return word_of(name) == key.name; };
  const auto meant = std::find_if(names.begin(), names.end(), is_last_word);
  fail(ErrorKind::usage, "{}bench.sweep: there is no key '{}'{}", key.location, key.name,
       meant == names.end() ? suggest(key.name, names) : fmt::format(", did you mean '{}'?", *meant));
}

/// Throws Error(usage) unless some case has the value that bench.skip names.
void check_skipped(const SkipCondition& condition, const SweptKey& key, const SweptValue& skipped) {
  constexpr std::size_t most_named = 20;
  std::vector<std::string> named;
  for (const SweptValue& value : key.values) {
    if (value.text == skipped.text) return;
    if (named.size() < most_named) named.push_back(value.text);
  }
  fail(ErrorKind::usage, "{}bench.skip: {} never has the value {}; expected one of {}{}", condition.location, key.name,
       skipped.text, fmt::join(named, ", "), named.size() < key.values.size() ? ", ..." : "");
}

}  // namespace

std::string text_of(const YamlNode& node) {
  std::vector<std::string> words;
  switch (node.kind) {
    case Kind::null:
      break;
    case Kind::scalar:
      return node.quoted || !is_plain(node.text) ? quote(node.text) : node.text;
    case Kind::list:
      for (const YamlNode& item : node.items) words.push_back(text_of(item));
      return join(words, "[", "]");
    case Kind::section:
      for (const auto& [word, location, value] : node.entries) words.push_back(word + ": " + text_of(value));
      return join(words, "{", "}");
  }
  return "null";
}

void check_sweep(const std::vector<SweepAxis>& sweep, const std::vector<SkipCondition>& skip) {
  std::map<std::string, const SweptKey*> swept;
  Index cases = 1;
  for (const SweepAxis& axis : sweep) {
    for (const SweptKey& key : axis) {
      check_key(key);
      const auto [first, is_new] = swept.emplace(key.name, &key);
      if (is_new) continue;
      fail(ErrorKind::usage, "{}bench.sweep: {} is swept twice, first at {}", key.location, key.name,
           first->second->location.substr(0, first->second->location.size() - 2));
    }
    cases *= Index(axis[0].values.size());
    if (cases > most_cases) {
      fail(ErrorKind::usage, "{}bench.sweep: more than {} cases in the axes up to {}", axis[0].location, most_cases,
           axis[0].name);
    }
  }
  if (cases * entries_of_a_case(sweep) > most_values) {
    fail(ErrorKind::usage, "{}bench.sweep: {} cases with {} values each, expected at most {} values in all",
         sweep.front().front().location, cases, entries_of_a_case(sweep), most_values);
  }
  for (const SkipCondition& condition : skip) {
    for (const auto& [name, value] : condition.values) {
      if (swept.contains(name)) {
        check_skipped(condition, *swept.at(name), value);
        continue;
      }
      std::vector<std::string> names;
      for (const auto& entry : swept) names.push_back(entry.first);
      fail(ErrorKind::usage, "{}bench.skip: {} is not swept{}; expected {}", condition.location, name,
           suggest(name, names), fmt::join(names, ", "));
    }
  }
}

Codec<std::vector<SweepAxis>> sweep_axes() {
  const auto read = [](const KeyValue& value, std::vector<SweepAxis>& to) {
    to.clear();
    Index cases = 1;
    for (const YamlNode& item : value.list()) {
      if (cases > most_cases) break;  // check_sweep() will refuse this sweep, so the other axes would only use memory
      to.push_back(axis_of({item, value.name, value.folder}));
      cases *= Index(to.back().front().values.size());
    }
  };
  const auto write = [](const std::vector<SweepAxis>& from) {
    std::vector<std::string> axes;
    for (const SweepAxis& axis : from) {
      std::vector<std::string> keys;
      for (const SweptKey& key : axis) {
        std::vector<std::string> values;
        for (const SweptValue& one : key.values) values.push_back(one.text);
        keys.push_back(key.name + ": " + join(values, "[", "]"));
      }
      axes.push_back(join(keys, "{", "}"));
    }
    return axes.empty() ? std::string() : join(axes, "[", "]");
  };
  return {"a list", read, write};
}

Codec<std::vector<SkipCondition>> skip_conditions() {
  const auto read = [](const KeyValue& value, std::vector<SkipCondition>& to) {
    to.clear();
    if (value.node.kind == Kind::list && value.node.items.empty()) return;
    for (const YamlNode& item : value.list()) to.push_back(condition_of({item, value.name, value.folder}));
  };
  const auto write = [](const std::vector<SkipCondition>& from) {
    std::vector<std::string> all;
    for (const SkipCondition& condition : from) {
      std::vector<std::string> keys;
      for (const auto& [name, value] : condition.values) keys.push_back(name + ": " + value.text);
      all.push_back(join(keys, "{", "}"));
    }
    return join(all, "[", "]");
  };
  return {"a list", read, write};
}

}  // namespace annulus::runfile
