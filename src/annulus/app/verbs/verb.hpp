// Describes a verb of the command line. Parsing, help and messages all use the table of verbs. To add a verb, write one
// file and add its name in verbs.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annulus/comm/communicator.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {

/// One option, or the run file. It reads text into a variable of its verb, and shows that variable as text.
struct Option {
  std::string name;   ///< "--rows"; "file": the run file, which has no option name before it
  std::string value;  ///< name of its value, "N"; empty: it is a flag without a value
  std::string help;
  /// Reads the user's text. Returns what was expected if the text is not valid, otherwise an empty text.
  std::function<std::string(const std::string& text)> take;
  /// The current value; for a flag "" or "true". Before take() is called, it is the default, which the help shows.
  std::function<std::string()> shown;
  bool required = false;
  bool repeats = false;
  std::string needs{};                  ///< another option that this one needs
  std::vector<std::string> excludes{};  ///< options that must not be combined with this one
};

// The following functions make options, one function for each kind of value. `help` is the text that --help prints. The
// variable must live as long as the option.
Option run_file(std::string& file, const std::string& help = "The run file");
Option overrides(std::vector<std::string>& settings, const std::string& help);
Option flag(const std::string& name, bool& variable, const std::string& help);
Option text(const std::string& name, const std::string& value, std::string& variable, const std::string& help);
/// An option for a whole number, written as in a run file; `variable` may be std::optional. The help shows a default of
/// 0 as `unset`.
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

/// Numbers of ranks for which `plan` and `run --dry-run` work.
inline constexpr runfile::WholeRange rank_counts{1, 65536};

/// Says why a verb needs MPI to know all launched processes.
/// for_work  otherwise, each process would take itself for the only rank, and compute and write everything
/// for_show  `info` shows all ranks
/// never     the verb does not need it: `list` prints the same for any number of ranks
enum class RanksMatter { for_work, for_show, never };

struct Verb {
  std::string name;
  std::string does;     ///< one line of the help
  std::string example;  ///< one or two lines
  std::vector<Option> options;
  /// Does the work and returns the exit status. Collective. `command_line` is stored in /provenance.
  std::function<int(const comm::Communicator&, const std::string& command_line)> run;
  /// Checks whether the options fit together. Returns the text of the error message; empty if there is no error.
  std::function<std::string()> complaint = [] { return std::string(); };
  std::string when_ended = "nothing was changed";  ///< printed if a signal ends the verb: what is lost, what to do
  RanksMatter ranks_matter = RanksMatter::for_work;
};

/// `when_ended` of verbs that give their file its name only at the end.
inline constexpr const char* nothing_saved =
    "nothing was kept but a result that was complete already, the same command begins again";

// Parts of `plan` and `run` that have source files of their own.

/// `annulus plan --calibrate`: measures kernels, messages, copies and files on this machine with the launched ranks,
/// which takes some seconds, and writes the machine file. It replaces an existing file only with `overwrite`.
/// Collective; returns 0. Throws core::Error.
int calibrate(const std::string& path, bool overwrite, const comm::Communicator& comm);

struct Job;
/// `annulus run --dry-run`: prints the resolved settings, then rows, work, memory and traffic of the first 16 ranks (or
/// blocks) in each pass. With `rank` it prints that rank's schedule instead, step by step. Computes nothing.
void dry_run(const Job& job, std::optional<int> rank, const comm::Communicator& comm);

/// All verbs, in the order of the help. Each call returns new options, with no value read yet.
std::vector<Verb> verbs();

}  // namespace annulus::app
