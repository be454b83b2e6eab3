// The program: runs the command line and returns the exit status.
//   0 done   1 failed while running   2 bad usage or run file   3 verification out of tolerance   4 stalled
//   75 stopped on request, run again to continue
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <optional>
#include <string_view>

#include "annulus/app/command_line.hpp"
#include "annulus/app/launch.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {
namespace {

/// Runs the verb and returns the exit status. Rank 0 prints an error that all ranks have; any other error ends the job.
int run_or_explain(const CommandLine& line, const comm::Communicator& comm) {
  end_on_signals(comm, line.verb->when_ended);  // signals print a message and leave no unfinished file
  try {
    comm::agree(comm, [] {
      core::require_valid_kokkos_options();
      core::best_instruction_set();  // refuses a wrong ANNULUS_INSTRUCTION_SET
    });
    return line.verb->run(comm, line.text);
  } catch (const comm::AgreedError& error) {  // all ranks throw it
    if (comm.is_root()) std::fprintf(stderr, "annulus: error: %s\n", error.what());
    return int(error.kind());
  } catch (const std::exception& error) {  // perhaps only this rank throws, and others would wait for it
    const auto* known = dynamic_cast<const core::Error*>(&error);
    const int status = known != nullptr ? int(known->kind()) : int(core::ErrorKind::failure);
    const std::string who = comm.size() > 1 ? fmt::format("rank {}: ", comm.rank()) : "";
    std::fprintf(stderr, "annulus: error: %s%s\n", who.c_str(), error.what());
    if (comm.size() > 1) comm::abort_job(status);
    return status;
  }
}

constexpr const char* stall_variable = "ANNULUS_STALL_TIMEOUT";

/// The stall timeout that is used until the run file sets another one, and for verbs without a run file.
runfile::Parsed<double> first_stall_timeout() {
  const char* const text = std::getenv(stall_variable);
  return text == nullptr ? runfile::Parsed<double>{comm::default_stall_timeout, ""} : runfile::parse_positive(text);
}

/// Answers a command line that needs no ranks: prints help, the version, or what is wrong with the words, and returns
/// the exit status. Empty if the line has a verb to run, or options for Kokkos, which only Kokkos can read. MPI need
/// not start for these answers, so they work on login nodes where MPI_Init fails. Call this function only if no
/// launcher started the process, because every process of a launcher would print.
std::optional<int> answer_without_mpi(int argc, char** argv) {
  const auto is_for_kokkos = [](std::string_view word) { return word.starts_with("--kokkos-"); };
  if (std::any_of(argv + 1, argv + argc, is_for_kokkos)) return {};
  const CommandLine line = parse_command_line(argc, argv, /*prints=*/true);
  return line.verb ? std::nullopt : std::optional(line.status);
}

int main(int argc, char** argv, const Launch& launch) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  const CommandLine line = parse_command_line(argc, argv, comm.is_root());
  if (!line.verb) return line.status;
  if (const int status = check_launch(launch, *line.verb, comm); status != 0) return status;
  const runfile::Parsed<double> timeout = first_stall_timeout();
  if (!timeout.number) {
    if (comm.is_root()) {
      core::print_to_stderr("annulus: error: the environment variable {} is '{}', expected seconds: {}\n",
                            stall_variable, std::getenv(stall_variable), timeout.expected);
    }
    return int(core::ErrorKind::usage);
  }
  const comm::Watchdog watchdog(comm, *timeout.number, stall_variable);
  return run_or_explain(line, comm);
}

/// Opens a closed stdin as a file that cannot be read, and a closed stdout or stderr as a file that cannot be written.
/// Otherwise the next opened file, such as a connection of MPI, would get this descriptor and receive printed text.
void keep_closed_streams_closed() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

/// MPICH leaves standard output unbuffered. Every piece of text would then be a system call of its own. If one of these
/// calls failed, errno would be lost before finish_printing() can print it. We supply the buffer, because glibc makes
/// none for a stream that was unbuffered before.
void buffer_standard_output() {
  static char buffer[BUFSIZ];
  std::setvbuf(stdout, buffer, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof buffer);
}

/// Returns the status. If the output could not be written (a full disk), prints a message and returns 1 instead of 0.
/// Prints no message if the reader of the output has gone away (| head).
int finish_printing(int status) {
  errno = 0;
  core::flush_stdout();
  const bool arrived = std::ferror(stdout) == 0 && !std::cout.flush().fail();
  if (arrived) return status;
  const int error = core::first_print_error != 0 ? core::first_print_error : errno;
  if (error != EPIPE) {
    core::print_to_stderr("annulus: error: standard output: writing failed{}{}\n", error == 0 ? "" : ": ",
                          error == 0 ? "" : std::strerror(error));
  }
  return status == 0 ? int(core::ErrorKind::failure) : status;
}

}  // namespace
}  // namespace annulus::app

int main(int argc, char** argv) {
  annulus::app::keep_closed_streams_closed();
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file-size limit must fail with a message, not kill the job
  std::signal(SIGPIPE, SIG_IGN);  // a reader that ends early (2>&1 | head) must not end hours of work
  const annulus::app::Launch launch = annulus::app::read_launch();              // before MPI adds environment variables
  annulus::app::end_on_signals_from_the_start(/*has_launcher=*/!launch.alone);  // because MPI may take long to start
  const auto timeout = annulus::app::first_stall_timeout().number;  // main() above refuses an invalid number
  annulus::comm::set_stall_timeout(timeout.value_or(annulus::comm::default_stall_timeout),
                                   annulus::app::stall_variable);
  const char* const threads = std::getenv("KOKKOS_NUM_THREADS");
  if (threads != nullptr) annulus::core::check_kokkos_threads("the environment variable KOKKOS_NUM_THREADS", threads);
  const bool sends_to_self = argc == 2 && std::string_view(argv[1]) == annulus::app::self_send_word;
  if (launch.alone && !sends_to_self) {
    const std::optional<int> status = annulus::app::answer_without_mpi(argc, argv);
    if (status) return annulus::app::finish_printing(*status);
  }
  // With alone = true, Runtime leaves out MPI's network components. The child that sends to itself must not leave them
  // out, because it tests the components that its parent uses.
  const annulus::comm::Runtime runtime(argc, argv, launch.alone && !sends_to_self);
  annulus::app::buffer_standard_output();
  if (sends_to_self) return annulus::comm::send_device_memory_to_self();
  const int status = annulus::app::finish_printing(annulus::app::main(argc, argv, launch));
  annulus::comm::set_final_status(status);
  return status;
}
