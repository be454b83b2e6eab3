#include "annulus/app/verbs/read_rate.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "annulus/app/job/describe.hpp"
#include "annulus/comm/activity.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/core/random.hpp"
#include "annulus/report/text.hpp"
#include "annulus/store/files/file_system.hpp"

namespace annulus::app {
namespace {

constexpr Index file_bytes = Index(64) << 20;
constexpr Index call_bytes = Index(4) << 20;
constexpr int repeats = 3;  // the least disturbed one counts

/// A file without a name: it is gone when it is closed, whatever happens.
class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600), block_(std::size_t(call_bytes / 8)) {
    const comm::BlockingScope inside("the writing of " + path);
    unlink(path.c_str());
    for (Index offset = 0; offset < file_bytes; offset += call_bytes) {
      // A file system may compress numbers that repeat, and not store zeros at all.
      for (std::size_t i = 0; i < block_.size(); ++i) {
        block_[i] = core::random_bits(1, core::TensorId::q, offset / 8 + Index(i));
      }
      const auto* bytes = reinterpret_cast<const char*>(block_.data());
      if (store::write_all(descriptor_, bytes, std::size_t(call_bytes), offset) != 0) is_whole_ = false;
    }
    store::flush_to_disk(descriptor_, path);  // pages that are not on disk yet cannot be dropped
  }

  bool is_whole() const { return is_whole_; }
  void drop_from_cache() const { (void)!posix_fadvise(descriptor_.id(), 0, 0, POSIX_FADV_DONTNEED); }
  void read() {
    const comm::BlockingScope inside("the reading of a file of 64 MiB");
    for (Index offset = 0; offset < file_bytes; offset += call_bytes) {
      if (pread(descriptor_.id(), block_.data(), std::size_t(call_bytes), off_t(offset)) != ssize_t(call_bytes)) {
        is_whole_ = false;
      }
    }
  }
  /// Share of its pages that lie in memory; 0 where that cannot be asked.
  double cached_share() const {
    void* const mapped = mmap(nullptr, std::size_t(file_bytes), PROT_READ, MAP_SHARED, descriptor_.id(), 0);
    if (mapped == MAP_FAILED) return 0;
    std::vector<unsigned char> pages(std::size_t(file_bytes / sysconf(_SC_PAGESIZE)));
    const bool known = mincore(mapped, std::size_t(file_bytes), pages.data()) == 0;
    munmap(mapped, std::size_t(file_bytes));
    const auto there = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
    return known ? double(there) / double(pages.size()) : 0;
  }

 private:
  store::Descriptor descriptor_;
  std::vector<std::uint64_t> block_;
  bool is_whole_ = true;
};

}  // namespace

std::string ReadRates::text() const {
  const std::string from_cache = report::describe_bytes(cached) + "/s from the page cache";
  if (is_kept) return from_cache + " (read_rate), which would not drop them: storage was not measured";
  return fmt::format("{}/s from storage (read_rate), {}", report::describe_bytes(storage), from_cache);
}

ReadRates measure_read_rates(const std::string& beside, const comm::Communicator& comm) {
  const comm::Scope scope("the measurement of reading");
  std::optional<File> file;
  try {
    file.emplace(fmt::format("{}.read-{}", beside, comm.rank()));
  } catch (const core::Error&) {  // a full disk, for one: then there is no rate
  }
  // Seconds of the slowest rank.
  const auto slowest = [&](bool drop) {
    if (file && drop) file->drop_from_cache();
    comm.barrier();
    const double start = core::wall_seconds();
    if (file) file->read();
    return comm.max(core::wall_seconds() - start);
  };
  ReadRates rates;
  if (file) file->drop_from_cache();
  rates.is_kept = comm.max(file ? file->cached_share() : 0.0) > 0.5;
  for (int i = 0; i < repeats; ++i) {
    rates.storage = std::max(rates.storage, double(file_bytes) / slowest(/*drop=*/true));
    rates.cached = std::max(rates.cached, double(file_bytes) / slowest(/*drop=*/false));
  }
  return comm.max(Index(!file || !file->is_whole())) == 0 ? rates : ReadRates{};
}

}  // namespace annulus::app
