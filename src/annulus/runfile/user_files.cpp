#include "annulus/runfile/user_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::runfile {

using core::ErrorKind;
using core::fail;

std::filesystem::path without_dots(const std::filesystem::path& path) {
  const std::filesystem::path plain = path.lexically_normal();
  if (std::find(path.begin(), path.end(), "..") == path.end()) return plain;
  // The last name stays as it is, because it may be a link; but "." and ".." name a folder: "a/.." is "a/../".
  if (path.filename() == ".." || path.filename() == ".") return without_dots(path / "");
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(path.parent_path(), error);
  if (error || std::filesystem::equivalent(folder, plain.parent_path(), error)) return plain;
  return folder / path.filename();
}

std::string follow_links(const std::string& file) {
  const comm::BlockingScope inside("the look at " + file);
  std::filesystem::path path = file;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)); ++links) {
    // Links below /proc lead to what a process has opened: the log to which stdout is redirected, or a pipe.
    if (std::filesystem::canonical(path.parent_path(), error).string().starts_with("/proc/")) return file;
    if (links == 40) fail(ErrorKind::failure, "{}: too many links behind this name, expected at most 40", file);
    path = path.parent_path() / std::filesystem::read_symlink(path);  // an absolute target replaces the path
  }
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path.string() : found.string();  // if the name is too long, store::check_can_be_made() says so
}

std::string read_text_file(const std::string& path, const std::string& expected, const std::string& instead_of_hdf5) {
  const comm::BlockingScope inside("the reading of " + path);
  std::error_code ignored;  // if is_directory() fails, opening the file fails, too
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::usage, "{}: is a folder, expected {}", path, expected.substr(0, expected.find(" (")));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::usage, "{}: cannot be opened: {}", path, std::strerror(errno));
  // Without this limit, a large file of tensors would be read completely, and /dev/zero without end.
  constexpr std::size_t most = std::size_t(16) << 20;
  std::string text(most + 1, '\0');
  text.resize(std::size_t(file.read(text.data(), std::streamsize(text.size())).gcount()));
  if (file.bad()) fail(ErrorKind::usage, "{}: reading failed: {}", path, std::strerror(errno));
  if (text.starts_with("\x89HDF\r\n\x1a\n")) {
    fail(ErrorKind::usage, "{}: is an HDF5 file, expected {}{}", path, expected, instead_of_hdf5);
  }
  if (text.find('\0') != std::string::npos)
    fail(ErrorKind::usage, "{}: is not a text file, expected {}", path, expected);
  if (text.size() > most) fail(ErrorKind::usage, "{}: is larger than 16 MiB, expected {}", path, expected);
  return text;
}

}  // namespace annulus::runfile
