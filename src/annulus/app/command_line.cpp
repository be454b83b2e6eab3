#include "annulus/app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "annulus/app/words.hpp"
#include "annulus/core/error.hpp"
#include "annulus/runfile/run_file.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

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
      made->allow_extra_args(false);  // one value each time the option is given
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

/// What is wrong with the words. CLI11 would only call a word unexpected, or say that a subcommand is required.
std::string complaint_of(const std::vector<Verb>& verbs, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  if (words.empty()) return fmt::format("there is no verb, expected one of {}", fmt::join(names, ", "));
  const std::string& first = words[0];
  if (first.starts_with('-')) {
    bool version = false;
    return complaint_of_words("", {flag("--version", version, "")}, {first});
  }
  for (const Verb& verb : verbs) {
    if (verb.name == first) return complaint_of_words(first, verb.options, {words.begin() + 1, words.end()});
  }
  if (first == "help") return "there is no verb 'help', did you mean '--help'?";
  const bool is_file = first.ends_with(".yaml") || first.ends_with(".yml");
  return fmt::format("there is no verb '{}'{}", first,
                     is_file ? ", did you mean 'run " + first + "'?" : runfile::suggest(first, names));
}

CommandLine complain(const std::string& what, bool speaks) {
  if (speaks) {
    std::fprintf(stderr, "annulus: error: %s\nSee `annulus --help` and `annulus VERB --help`.\n", what.c_str());
  }
  return {.verb = {}, .status = int(core::ErrorKind::usage), .text = ""};
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv, bool speaks) {
  std::vector<Verb> known = verbs();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string what = complaint_of(known, words); !what.empty()) return complain(what, speaks);
  CLI::App app("annulus: dilated ring attention for HPC clusters. Launch with mpirun or srun; alone it is one rank.",
               "annulus");
  app.set_version_flag("--version", fmt::format("annulus {} ({})", version, git_commit));
  app.footer(
      "Example:\n  annulus run --help\n  mpirun -n 2 annulus run my.yaml    (or: srun --kill-on-bad-exit=1 -n 2 "
      "annulus "
      "run my.yaml)");
  app.require_subcommand(1);
  for (const Verb& verb : known) define(app, verb);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return complain(error.what(), speaks);
    if (speaks) app.exit(error);  // --help, --version
    return {};
  }
  for (Verb& verb : known) {
    if (verb.name != words[0]) continue;
    if (const std::string what = verb.complaint(); !what.empty()) return complain(what, speaks);
    return {.verb = std::move(verb), .status = 0, .text = fmt::format("annulus {}", fmt::join(words, " "))};
  }
  return complain("there is no verb " + words[0], speaks);
}

}  // namespace annulus::app
