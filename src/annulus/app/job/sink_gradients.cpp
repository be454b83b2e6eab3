#include "annulus/app/job/sink_gradients.hpp"

#include <cmath>
#include <sstream>

#include "annulus/app/job/ranges.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/kernels/sink.hpp"

namespace annulus::app {

std::string sink_note(Index first_head, const std::vector<std::int64_t>& sums) {
  std::vector<std::int64_t> words;
  kernels::add_words(sums, words);  // normalizes the words: carries go to the next word
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : " ", first_head * kernels::exact_words + Index(i), words[i]);
  }
  return text;
}

std::vector<double> sink_gradients(const std::vector<std::string>& notes, Index heads, const std::string& journal) {
  std::vector<std::int64_t> sums(std::size_t(heads * kernels::exact_words), 0);
  for (const std::string& note : notes) {
    std::vector<std::int64_t> words(sums.size(), 0);
    std::istringstream numbers(note);
    while (!(numbers >> std::ws).eof()) {
      Index at = -1;
      std::int64_t word = 0;
      if (!(numbers >> at >> word) || at < 0 || at >= Index(words.size())) {
        core::fail(core::ErrorKind::failure,
                   "{}: found '{}' as a unit's sums for dsink, expected pairs of an index below {} and a number",
                   journal, note, words.size());
      }
      words[std::size_t(at)] = word;
    }
    kernels::add_words(words, sums);
  }
  return kernels::sink_gradients_of(sums);
}

void write_dsink(const Job& job, const std::function<std::vector<std::string>()>& notes, store::OutputFile& file,
                 const comm::Communicator& comm) {
  const comm::Scope scope("the writing of dsink");
  const Index heads = job.problem.shape.heads;
  const core::DType type = core::lse_type(job.problem.type);
  std::vector<std::byte> stored(std::size_t(heads) * core::bytes_of(type));
  comm::on_root(comm, [&] {
    std::vector<double> gradients = sink_gradients(notes(), heads, file.journal().path());
    store::convert({gradients.data(), core::DType::float64}, {stored.data(), type}, heads);
    for (std::size_t h = 0; h < gradients.size(); ++h) {
      if (std::isfinite(gradients[h])) continue;
      core::fail(core::ErrorKind::failure, "the result's dsink holds {} at [{}], {}", gradients[h], h,
                 causes_of_no_number(job.problem));
    }
  });
  const core::Rectangle all{{0, heads}, {0, 1}};
  file.write_parts({{"dsink", comm.is_root() ? all : core::Rectangle{}, all, stored.data()}},
                   [](const std::string&) -> store::RankOf { return [](const store::OneNumber&) { return 0; }; });
}

}  // namespace annulus::app
