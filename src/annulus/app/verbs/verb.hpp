// What a verb of the command line says of itself. The table of all verbs feeds parsing, help and complaints; a new verb
// is one file, and its name in verbs.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {

/// One option, or the run file. It holds a variable of its verb: text in, text out.
struct Option {
  std::string name;   ///< "--rows"; "file" is the word that belongs to no option
  std::string value;  ///< what follows it, "N"; empty: nothing does, a flag
  std::string help;
  /// Takes what the user wrote; returns what was expected where it is that not, else nothing.
  std::function<std::string(const std::string& text)> take;
  /// The present value, "" or "true" for a flag; before anything was taken it is the default of the help text.
  std::function<std::string()> shown;
  bool required = false;
  bool repeats = false;
  std::string needs{};                  ///< another option, without which this one makes no sense
  std::vector<std::string> excludes{};  ///< options that make no sense with it
};

// Options by what they take; `help` as in the text of --help. Variables must live as long as the option.
Option run_file(std::string& file, const std::string& help = "The run file");
Option overrides(std::vector<std::string>& settings, const std::string& help);
Option flag(const std::string& name, bool& variable, const std::string& help);
Option text(const std::string& name, const std::string& value, std::string& variable, const std::string& help);
/// A whole number, or an optional one, as the run file reads it; `unset` stands in the help for a default of 0 (none).
template <class Number>
Option whole(const std::string& name, Number& variable, runfile::WholeRange range, const std::string& help,
             const std::string& unset = "") {
  const auto take = [=, &variable](const std::string& word) {
    const runfile::Parsed<core::Index> parsed = runfile::parse_whole(word, range);
    if (parsed.number) variable = *parsed.number;
    return parsed.number ? "" : parsed.expected;
  };
  const auto shown = [=, &variable]() -> std::string {
    if constexpr (requires { variable.has_value(); }) {
      return variable ? std::to_string(*variable) : "";
    } else {
      return variable == 0 ? unset : std::to_string(variable);
    }
  };
  return {name, "N", help, take, shown};
}

/// Numbers of ranks that can be planned for.
inline constexpr runfile::WholeRange rank_counts{1, 65536};

/// What the number of launched ranks means to a verb: those that compute or make files must not run once per process
/// where a launcher was misunderstood; `info` shows the ranks; `list` is the same for any.
enum class RanksMatter { for_work, for_show, never };

struct Verb {
  std::string name;
  std::string does;     ///< one line of help
  std::string example;  ///< one or two lines
  std::vector<Option> options;
  /// Does the work and returns the exit status; collective. `command_line` is for /provenance.
  std::function<int(const comm::Communicator&, const std::string& command_line)> run;
  /// What is wrong with the options together, as the end of "annulus: error: "; empty: nothing.
  std::function<std::string()> complaint = [] { return std::string(); };
  std::string when_ended = "nothing was changed";  ///< by a signal: what is lost, and what to do
  RanksMatter ranks_matter = RanksMatter::for_work;
};

/// `when_ended` for verbs that make a file at their end.
inline constexpr const char* nothing_saved =
    "nothing was kept but a result that was complete already, the same command begins again";

/// Every verb, in the order of the help text, with options of its own: none is given yet.
std::vector<Verb> verbs();

}  // namespace annulus::app
