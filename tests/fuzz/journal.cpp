// The journal of a run that was interrupted. The first byte says whether the other bytes are the file itself,
// or lines to which checksums are added here.
#include "annulus/store/journal.hpp"

#include <cstring>

#include "annulus/store/fingerprint.hpp"
#include "annulus/store/part_file.hpp"
#include "fuzz.hpp"

namespace annulus::fuzz {
namespace {

/// The line with its checksum in front, as in a journal.
std::string sealed(const std::string& line) {
  std::vector<Index> words(1 + (line.size() + sizeof(Index) - 1) / sizeof(Index), 0);
  words[0] = Index(line.size());
  std::memcpy(words.data() + 1, line.data(), line.size());
  return fmt::format("{:08x} {}\n", std::uint32_t(store::fingerprint(words)), line);
}

std::string sealed_lines(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    text += sealed(std::string(bytes.substr(0, end)));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return text;
}

void look_at(store::Journal& journal) {
  is_accepted([&] {
    const store::PartLayout layout = store::PartLayout::parse(journal.part(), journal.path());
    const std::string text = layout.text();
    expect(store::PartLayout::parse(text, journal.path()).text() == text,
           "written out twice, a layout differs: " + text);
  });
  Index done = 0;
  for (Index phase = 0; phase < 3; ++phase) done += journal.done_in(phase);
  expect(done <= journal.done(), "more units of three phases are done than of all");
  expect(Index(journal.notes().size()) == journal.done(), "a note for each unit that is done");
  for (Index unit = 0; unit < 3; ++unit) journal.is_claimed({0, unit});
  journal.worker();
  store::Journal::Lock lock(journal);
  const bool is_done = journal.is_done({1, 1});
  lock.write("done 1 1 a note");
  expect(journal.is_done({1, 1}), "what was written is not known");
  expect(journal.done() >= done, is_done ? "a unit is lost" : "a unit was lost");
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  if (bytes.empty()) return;
  const bool is_file = bytes.front() == '0';
  bytes.remove_prefix(1);
  const std::string path = write_file("out.h5.journal", is_file ? std::string(bytes) : sealed_lines(bytes));
  is_accepted([&] {
    if (std::optional<store::Journal> journal = store::Journal::find(path)) look_at(*journal);
  });
}

}  // namespace annulus::fuzz
