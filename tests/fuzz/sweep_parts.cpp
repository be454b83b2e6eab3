// The files in which the launches of a sweep keep what they measured: two files, separated by a NUL byte.
#include "annulus/store/sweep_parts.hpp"

#include <filesystem>

#include "fuzz.hpp"

namespace annulus::fuzz {

void fuzz_one(std::string_view bytes) {
  std::filesystem::create_directory(folder() + "/sweep.h5.part");
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  write_file("sweep.h5.part/a.jsonl", bytes.substr(0, end));
  write_file("sweep.h5.part/b.jsonl", bytes.substr(std::min(end + 1, bytes.size())));
  is_accepted([&] {
    const store::Parts parts = store::read_parts(folder() + "/sweep.h5", "attention.causal: true\n");
    for (const store::CaseRecord& record : parts.records) {
      const std::string line = store::line_of(record);
      const std::optional<store::CaseRecord> again = store::record_of(line);
      expect(again && store::line_of(*again) == line, "written out twice, a record differs: " + line);
    }
  });
}

}  // namespace annulus::fuzz
