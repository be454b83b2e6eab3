// What the targets share. A target defines fuzz_one(), which reads bytes as the program would. It may throw core::Error
// only. The message of such an error must be annulus's own text, not a library's and not that of an internal error.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/core/error.hpp"
#include "annulus/core/types.hpp"

namespace annulus::fuzz {

using core::Index;

/// The target, in a file of its own.
void fuzz_one(std::string_view bytes);

/// Ends the process: the fuzzer keeps the bytes that led here, and the test that reads such bytes fails.
[[noreturn]] inline void fault(const std::string& why) {
  std::fprintf(stderr, "fault: %s\n", why.c_str());
  std::abort();
}

inline void expect(bool holds, const std::string& why) {
  if (!holds) fault(why);
}

/// Runs `work`; true unless it threw an Error. The error's message must not begin with words of a library.
template <class Work>
bool is_accepted(Work&& work) {
  constexpr std::array<const char*, 6> not_ours{"internal error", "std::", "basic_string", "vector", "[json", "sto"};
  try {
    work();
    return true;
  } catch (const core::Error& error) {
    const std::string_view text = error.what();
    for (const char* words : not_ours) expect(!text.starts_with(words), "an error says only: " + std::string(text));
    // Looks for them anywhere in the text, because errors of a case name the case first. A file may hold the words, but
    // hardly a ".cpp:" after them.
    const std::string_view internal = text.substr(std::min(text.find("internal error at "), text.size()));
    expect(internal.substr(0, 200).find(".cpp:") == std::string_view::npos, std::string(text));
    return false;
  }
}

/// Decisions drawn from the bytes, one after another; zeros when there are no more.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }
  unsigned byte() {
    if (bytes_.empty()) return 0;
    const unsigned value = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }
  /// 0 ... count - 1; count <= 256.
  std::size_t below(std::size_t count) { return byte() % count; }
  /// True about once in `count`, and not when there are no more bytes.
  bool once_in(std::size_t count) { return below(count) == count - 1; }
  template <class Value, std::size_t Count>
  Value one_of(const std::array<Value, Count>& values) {
    return values[below(Count)];
  }
  std::uint64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// A folder in memory that is removed with the process; files in it are written anew for each input.
inline const std::string& folder() {
  struct Folder {
    std::string path;
    Folder() {
      std::string name = "/tmp/annulus_fuzz.XXXXXX";
      if (access("/dev/shm", W_OK) == 0) name = "/dev/shm/annulus_fuzz.XXXXXX";
      if (mkdtemp(name.data()) == nullptr) fault("no folder " + name);
      path = name;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder one;
  return one.path;
}

/// Makes a file in the folder; returns its path.
inline std::string write_file(const std::string& name, std::string_view bytes) {
  const std::string path = folder() + "/" + name;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) fault("no file " + path);
  const bool is_written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !is_written) fault("writing " + path);
  return path;
}

}  // namespace annulus::fuzz
