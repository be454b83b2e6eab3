#include "annulus/app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

#include "annulus/core/error.hpp"
#include "annulus/runfile/run_file.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

/// Number of brackets and braces that are still open at the end of the text.
int open_brackets(std::string_view text) {
  int open = 0;
  for (const char c : text) open += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
  return open;
}

bool looks_like_option(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0;
}

/// True for "attention.causal=false", false for "runs/n=8/my.yaml".
bool looks_like_setting(std::string_view word) {
  const std::string_view key = word.substr(0, word.find('='));
  return key.size() < word.size() && key.find('.') != std::string_view::npos &&
         key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") == std::string_view::npos;
}

/// True for an option that sets the number of ranks in mpirun or srun ("-n", "-n2", "--ntasks", ...), and for --ranks.
bool is_count_of_ranks(std::string_view option) {
  constexpr std::array<std::string_view, 5> names{"--np", "--n", "--ntasks", "--nprocs", "--ranks"};
  if (std::find(names.begin(), names.end(), option) != names.end()) return true;
  if (!option.starts_with("-n")) return false;
  option.remove_prefix(option.starts_with("-np") ? 3 : 2);
  return option.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Finds the first mistake in the words of one command line.
class MistakeFinder {
 public:
  MistakeFinder(const std::string& verb, const std::vector<Option>& options, const std::vector<std::string>& words)
      : verb_(verb), options_(options), words_(words) {}

  std::string complaint() {
    while (at_ < words_.size() && words_[at_] != "--") {
      const std::string& word = words_[at_++];
      const std::string wrong = looks_like_option(word) ? option(word) : stray(word);
      if (!wrong.empty()) return verb_.empty() ? wrong : verb_ + ": " + wrong;
    }
    return "";
  }

 private:
  const Option* find(std::string_view name) const {
    const auto same = [&](const Option& option) { return option.name == name; };
    const auto found = std::find_if(options_.begin(), options_.end(), same);
    return found == options_.end() ? nullptr : &*found;
  }

  std::string option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name == "--help" || name == "-h") return "";
    const Option* found = find(name);
    if (found == nullptr) return unknown(word, name);
    if (found->value.empty()) return "";
    const bool missing = at_ == words_.size() || looks_like_option(words_[at_]);
    if (equals == std::string::npos && missing) return "";  // the parser reports the missing value
    const std::string value = equals == std::string::npos ? words_[at_++] : word.substr(equals + 1);
    return name == "--set" ? setting(value) : "";
  }

  std::string unknown(const std::string& word, const std::string& name) const {
    const std::string there_is_none = fmt::format("there is no option '{}'", word);
    if (is_count_of_ranks(name)) {
      const std::string line = verb_.empty() ? "annulus ..." : fmt::format("annulus {} ...", verb_);
      return fmt::format(
          "{}: the launcher decides how many ranks there are, for example mpirun -n 2 {}, or srun --kill-on-bad-exit=1 "
          "-n 2 {}",
          there_is_none, line, line);
    }
    std::vector<std::string> names{"--help"};
    for (const Option& option : options_) names.push_back(option.name);
    const std::string near = runfile::suggest(name, names);
    if (!near.empty() || find("--set") == nullptr) return there_is_none + near;
    return there_is_none + "; keys of the run file are changed by --set KEY=VALUE";
  }

  /// Returns what is wrong with a value of --set; empty if no mistake is found. The shell cuts a value without quotes
  /// at spaces.
  std::string setting(const std::string& value) const {
    if (open_brackets(value) > 0 && at_ < words_.size()) {
      std::string whole = value;
      for (std::size_t i = at_; i < words_.size() && open_brackets(whole) > 0; ++i) whole += " " + words_[i];
      if (open_brackets(whole) == 0) {
        return fmt::format("--set {}: the shell cut this at a space, put it in quotes: --set '{}'", value, whole);
      }
    }
    const bool ends_early = value.ends_with('=') && at_ < words_.size() && !looks_like_option(words_[at_]);
    if (ends_early || value.find('=') == std::string::npos) {
      return fmt::format("--set {}: expected KEY=VALUE without spaces, for example --set attention.causal=false",
                         value);
    }
    return "";
  }

  /// Returns what is wrong with a word that belongs to no option; empty if the word is the run file.
  std::string stray(const std::string& word) {
    const bool is_setting = looks_like_setting(word);
    const bool takes_file = find("file") != nullptr;
    if (takes_file && !has_file_ && !is_setting) {
      has_file_ = true;
      return "";
    }
    if (is_setting && find("--set") != nullptr) return fmt::format("'{}' was not expected, write --set {}", word, word);
    if (word.find('=') != std::string::npos && find("--set") != nullptr) {
      return fmt::format(
          "'{}' was not expected; keys of the run file are set by --set SECTION.KEY=VALUE, for example "
          "--set attention.causal=false",
          word);
    }
    if (find("--output") != nullptr) return fmt::format("'{}' was not expected, write --output {}", word, word);
    return fmt::format("'{}' was not expected{}", word, takes_file ? ", there is a run file already" : "");
  }

  const std::string& verb_;
  const std::vector<Option>& options_;
  const std::vector<std::string>& words_;
  std::size_t at_ = 0;  ///< the word to read next
  bool has_file_ = false;
};

void define(CLI::App& app, const Verb& verb) {
  CLI::App& sub = *app.add_subcommand(verb.name, verb.does)->footer("Example:\n  " + verb.example);
  for (const Option& option : verb.options) {
    const auto take = [option](const std::string& word) {
      const std::string expected = option.take(word);
      if (expected.empty()) return;
      throw CLI::ValidationError(option.name, fmt::format("found '{}', expected {}", word, expected));
    };
    if (option.value.empty()) {
      sub.add_flag_callback(
          option.name, [take] { take(""); }, option.help);
      continue;
    }
    CLI::Option* made = nullptr;
    if (option.repeats) {
      const auto each = [take](const std::vector<std::string>& words) {
        std::for_each(words.begin(), words.end(), take);
      };
      made = sub.add_option_function<std::vector<std::string>>(option.name, each, option.help);
      made->allow_extra_args(false);  // the option takes one value each time that it is given
    } else {
      made = sub.add_option_function<std::string>(option.name, take, option.help);
    }
    made->type_name(option.value)->required(option.required)->default_str(option.shown());
  }
  for (const Option& option : verb.options) {
    CLI::Option& made = *sub.get_option(option.name);
    if (!option.needs.empty()) made.needs(sub.get_option(option.needs));
    for (const std::string& other : option.excludes) made.excludes(sub.get_option(other));
  }
}

/// Returns what is wrong with the words; empty if no mistake is found. The parser, CLI11, would only say "unexpected".
std::string complaint_of(const std::vector<Verb>& verbs, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  if (words.empty()) return fmt::format("the verb is missing, expected one of {}", fmt::join(names, ", "));
  const std::string& first = words[0];
  if (first.starts_with('-')) {  // before a verb there may be only --version or --help
    bool version = false;
    return complaint_of_words("", {flag("--version", version, "")}, {first});
  }
  for (const Verb& verb : verbs) {
    if (verb.name == first) return complaint_of_words(first, verb.options, {words.begin() + 1, words.end()});
  }
  if (first == "help") return "there is no verb 'help', did you mean '--help'?";
  if (first == "convert" || first == "show" || first == "plot" || first == "report" || first == "tokens")
    return fmt::format("there is no verb '{0}', did you mean 'annulus-tools {0}'?", first);
  const bool is_file = first.ends_with(".yaml") || first.ends_with(".yml");
  return fmt::format("there is no verb '{}'{}", first,
                     is_file ? ", did you mean 'run " + first + "'?" : runfile::suggest(first, names));
}

CommandLine complain(const std::string& what, bool prints) {
  if (prints) {
    std::fprintf(stderr, "annulus: error: %s\nSee `annulus --help` and `annulus VERB --help`.\n", what.c_str());
  }
  return {.verb = {}, .status = int(core::ErrorKind::usage), .text = ""};
}

}  // namespace

std::string complaint_of_words(const std::string& verb, const std::vector<Option>& options,
                               const std::vector<std::string>& words) {
  return MistakeFinder(verb, options, words).complaint();
}

CommandLine parse_command_line(int argc, char** argv, bool prints) {
  std::vector<Verb> known = verbs();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string what = complaint_of(known, words); !what.empty()) return complain(what, prints);
  CLI::App app(
      "annulus: dilated ring attention for HPC clusters. Launch with mpirun or srun, or without a launcher on one "
      "rank.",
      "annulus");
  app.set_version_flag("--version", fmt::format("annulus {} ({})", version, git_commit));
  app.footer(
      "Example:\n  annulus run --help\n  mpirun -n 2 annulus run my.yaml    (or: srun --kill-on-bad-exit=1 -n 2 "
      "annulus run my.yaml)");
  app.require_subcommand(1);
  for (const Verb& verb : known) define(app, verb);
  try {
    app.parse(argc, argv);
  } catch (const CLI::RequiredError& error) {
    const auto used = std::find_if(known.begin(), known.end(), [&](const Verb& verb) { return verb.name == words[0]; });
    if (used == known.end()) return complain(error.what(), prints);  // "annulus --": there is no verb
    return complain(fmt::format("{}: {}, for example: {}", words[0], error.what(),
                                used->example.substr(0, used->example.find('\n'))),
                    prints);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return complain(error.what(), prints);
    if (prints) app.exit(error);  // prints help or the version
    return {};
  }
  for (Verb& verb : known) {
    if (verb.name != words[0]) continue;
    if (const std::string what = verb.complaint(); !what.empty()) return complain(what, prints);
    return {.verb = std::move(verb), .status = 0, .text = fmt::format("annulus {}", fmt::join(words, " "))};
  }
  return complain("there is no verb " + words[0], prints);  // not reached: complaint_of() finds every unknown verb
}

}  // namespace annulus::app
