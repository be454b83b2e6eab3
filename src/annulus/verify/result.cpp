#include "annulus/verify/result.hpp"

#include <filesystem>

#include "annulus/io/file_identity.hpp"
#include "annulus/io/root.hpp"
#include "annulus/io/tensor_file.hpp"

namespace annulus::verify {
namespace {

using core::DType;
using core::ErrorKind;
using core::fail;

/// The run file that a result was made with.
io::RunFile settings_of_result(const std::string& file) {
  try {
    return io::parse_run_file(io::read_text_dataset(file, "/run/settings"), file + ":/run/settings", {});
  } catch (const std::exception& error) {  // a failure of this file, not of the user's run file
    fail(ErrorKind::failure, "{}: is no result of `annulus run`: {}", file, error.what());
  }
}

bool has_losses(const std::string& file) {
  try {
    io::look_at_dataset(file, "loss");
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// On rank 0.
void check_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets) {
  const std::string& file = run.settings.output.file;
  const comm::Blocked inside("the look at " + file);
  const io::RunFile made = settings_of_result(file);
  if (has_losses(file)) {
    fail(ErrorKind::failure,
         "{}: is a result of `annulus train` (it has a dataset loss), expected one of `annulus run`", file);
  }
  const std::vector<std::string> changes = io::differences(made.settings, run.settings);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: was made with other settings than {} has now: {}", file, run.name,
         fmt::join(changes, "; "));
  }
  for (const auto& [name, expected] : datasets) {
    const io::DatasetInfo found = io::look_at_dataset(file, name);
    if (found.extents == expected.extents && found.type == expected.type) continue;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) to fit the input", file, name,
         core::name_of(found.type), fmt::join(found.extents, ", "), core::name_of(expected.type),
         fmt::join(expected.extents, ", "));
  }
}

}  // namespace

io::SeenFile look_at_result(const io::RunFile& run, const std::map<std::string, io::DatasetInfo>& datasets,
                            const comm::Communicator& comm) {
  const std::string& file = run.settings.output.file;
  io::on_root(comm, [&] {
    const comm::Blocked inside("the look for " + file);
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return;
    fail(ErrorKind::failure, "{}: there is no result yet, first: annulus run {}", file, run.name);
  });
  const io::SeenFile seen{file, io::identity_together(file, comm), datasets};
  io::on_root(comm, [&] { check_result(run, datasets); });
  return seen;
}

double allowed(double (*tolerance)(DType), DType type, const io::ComputeSettings& compute) {
  const bool single = compute.precision == core::Precision::float32;
  return std::max(tolerance(type), single ? tolerance(DType::float32) : 0);
}

}  // namespace annulus::verify
