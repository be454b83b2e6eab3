#include "annulus/app/job/provenance.hpp"

#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <fstream>

#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/report/text.hpp"
#include "annulus/store/files/process_name.hpp"
#include "annulus/version.hpp"

namespace annulus::app {

std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm) {
  return {{"software", "annulus"},
          {"version", annulus::version},
          {"git_commit", annulus::git_commit},
          {"date", store::utc_text(std::time(nullptr), "%Y-%m-%dT%H:%M:%SZ")},
          {"command_line", command_line},
          {"hosts", report::distinct(comm.gather_all(comm::host_name()))},
          {"job_id", job_id()},
          {"ranks", std::to_string(comm.size())},
          {"mpi", comm::mpi_library()},
          {"kokkos", core::kokkos_version()},
          {"backends", core::kokkos_backends()},
          {"cpu", report::distinct(comm.gather_all(cpu_name()))},
          {"devices", report::distinct(comm.gather_all(core::device_name()))},
          {"instruction_set", std::string(kernels::host_instruction_set())},
          {"transfers", comm::transfers()}};
}

std::vector<std::pair<std::string, std::string>> identity(const std::string& title) {
  return {{"title", title}, {"software", "annulus"}, {"version", annulus::version}};
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "unknown";
}

std::string job_id() {
  const char* id = std::getenv("SLURM_JOB_ID");
  return id != nullptr ? id : "";
}

}  // namespace annulus::app
