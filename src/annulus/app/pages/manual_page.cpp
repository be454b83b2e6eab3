#include <fmt/format.h>

#include "annulus/app/pages/pages.hpp"
#include "annulus/app/pages/words.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

/// Text as man prints it: no character means something else to it, and a hyphen can be copied into a shell.
std::string plain(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '\\':
        made += "\\e";
        break;
      case '-':
        made += "\\-";
        break;
      case '\'':
        made += "\\(aq";
        break;
      case '`':
        made += "\\(ga";
        break;
      case '^':
        made += "\\(ha";
        break;
      case '~':
        made += "\\(ti";
        break;
      default:
        made += c;
    }
  }
  return made.starts_with('.') ? "\\&" + made : made;
}

std::string bold(std::string_view text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + plain(text) + "\\fR"; }

/// An entry of a list: a term, and indented below it what it means.
std::string entry(const std::string& term, const std::string& meaning) {
  return fmt::format(".TP\n{}\n{}\n", term, meaning);
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

/// What --help says behind the option's name and value.
std::string meaning_of(const Option& option) {
  std::vector<std::string> notes;
  if (option.required) notes.emplace_back("required");
  if (const std::string shown = option.shown(); !shown.empty()) notes.push_back("default: " + shown);
  if (!option.needs.empty()) notes.push_back("needs " + option.needs);
  if (!option.excludes.empty()) notes.push_back("not with " + joined(option.excludes));
  return plain(option.help + (notes.empty() ? "" : fmt::format(" ({})", fmt::join(notes, "; "))));
}

bool is_word(const Option& option) { return !option.name.starts_with('-'); }

std::string synopsis(const Verb& verb) {
  std::string line = fmt::format(".B annulus {}\n[{}]", verb.name, italic("options"));
  for (const Option& option : verb.options) {
    if (is_word(option)) line += " " + (option.required ? italic(option.value) : "[" + italic(option.value) + "]");
  }
  return line + "\n.br\n";
}

std::string section_of(const Verb& verb) {
  std::string text = fmt::format(".SS annulus {}\n{}.\n", verb.name, plain(verb.does));
  for (const Option& option : verb.options) {
    const std::string value = option.value.empty() ? "" : italic(option.value);
    text += entry(is_word(option) ? value : bold(option.name) + (value.empty() ? "" : " " + value), meaning_of(option));
  }
  text += entry(bold("-h") + ", " + bold("--help"), "Print this command\\(aqs options.");
  std::string example = verb.example;  // its lines are indented for --help
  for (std::size_t at = 0; (at = example.find("\n  ", at)) != std::string::npos;) example.erase(at + 1, 2);
  return text + fmt::format(".PP\nExample:\n.PP\n.nf\n.RS\n{}\n.RE\n.fi\n", plain(example));
}

std::string keys() {
  std::string text = ".SH RUN FILE KEYS\nWhat a run file may say, in YAML, each key below the name of its section";
  text += ".\n" + bold("--set") + " " + italic("KEY=VALUE") +
          " overrides one, and may be given repeatedly.\nRelative paths are relative to the run file.\n";
  for (const KeyWords& key : key_words()) {
    const std::string shown = key.shown.empty() ? "" : fmt::format(" (default: {})", key.shown);
    text += entry(bold(key.name), plain(key.range + shown));
  }
  return text;
}

constexpr const char* exit_status = R"(.SH EXIT STATUS
.TP
0
Done.
.TP
1
Failed while running: a missing or bad HDF5 file, no memory, no space, results that are not finite.
.TP
2
Bad usage or bad run file, or a launcher of another MPI.
.TP
3
Verification out of tolerance.
.TP
4
A peer stalled, or a call hangs.
.TP
75
Stopped on request: run it again to go on.
.PP
Under mpirun or srun the launch ends with the same number.
)";

constexpr const char* environment = R"(.SH ENVIRONMENT
.TP
OMP_NUM_THREADS
Threads of a rank.
.TP
ANNULUS_STALL_TIMEOUT
Seconds without progress of any rank after which a run is ended, until the run file is read.
.TP
ANNULUS_INSTRUCTION_SET
Instruction set of the kernels, for fewer than the machine has.
)";

}  // namespace

std::string manual_page(const std::vector<Verb>& verbs) {
  std::string page = fmt::format(
      ".\\\" Made by the program from the table behind its --help: annulus --manual\n"
      ".TH ANNULUS 1 \"\" \"annulus {}\" \"User Commands\"\n.nh\n.ad l\n"
      ".SH NAME\nannulus \\- dilated ring attention for HPC clusters\n.SH SYNOPSIS\n",
      version);
  for (const Verb& verb : verbs) page += synopsis(verb);
  page += ".B annulus\n[\\fB\\-\\-help\\fR | \\fB\\-\\-version\\fR]\n";
  page += R"(.SH DESCRIPTION
Computes exact attention, dense or dilated, over sequences that are spread over MPI ranks.
Tensors come from an HDF5 file and go to an HDF5 file; a YAML file says what is computed and how.
Launch it with mpirun or srun; alone it is one rank.
Results and tables go to standard output, progress and messages to standard error.
.SH COMMANDS
)";
  for (const Verb& verb : verbs) page += section_of(verb);
  return page + keys() + exit_status + environment + ".SH SEE ALSO\n.BR mpirun (1),\n.BR srun (1),\n.BR h5dump (1)\n";
}

}  // namespace annulus::app
