// A folder for one test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace annulus::test {

/// Makes an empty folder for one rank in the system's temporary folder. The destructor removes the folder with its
/// contents.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "annulus-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  /// Uses a folder that exists. Other ranks call this constructor to share the folder of rank 0.
  explicit ScratchFolder(std::string path) : path_(std::move(path)), owner_(false) {}
  ~ScratchFolder() {
    if (owner_) std::filesystem::remove_all(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  bool owner_ = true;
};

}  // namespace annulus::test
