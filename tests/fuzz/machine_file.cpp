// Reads the bytes as a machine file.
#include "annulus/runfile/machine_file.hpp"

#include "fuzz.hpp"

namespace annulus::fuzz {

void fuzz_one(std::string_view bytes) {
  core::Machine machine;
  if (!is_accepted([&] { machine = runfile::parse_machine_file(std::string(bytes), "/folder/machine.yaml"); })) return;
  const std::string text = runfile::machine_file_text(machine, {"a line"});
  const bool is_read = is_accepted([&] {
    const core::Machine again = runfile::parse_machine_file(text, "/folder/again.yaml");
    expect(runfile::machine_file_text(again, {"a line"}) == text,
           "written out twice, a machine file differs:\n" + text);
  });
  expect(is_read, "what is written out is refused:\n" + text);
}

}  // namespace annulus::fuzz
