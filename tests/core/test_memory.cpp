// Buffers, the ledger that counts them, copies to and from the device, and counts as text.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "annulus/core/buffer.hpp"
#include "annulus/core/error.hpp"
#include "annulus/core/huge_pages.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/print.hpp"

namespace annulus::core {
namespace {

TEST(Texts, OfCountsHaveTheRightNoun) {
  EXPECT_EQ(how_many(1, "head"), "1 head");
  EXPECT_EQ(how_many(0, "head"), "0 heads");
  EXPECT_EQ(how_many(Index(12), "batch entry"), "12 batch entries");
  EXPECT_EQ(how_many(std::size_t(1), "batch entry"), "1 batch entry");
}

TEST(MemoryLedger, CountsByPurposeAndTogether) {
  MemoryLedger ledger;
  ledger.add("q", 100);
  ledger.add("kv", 50);
  ledger.remove("q", 100);
  ledger.add("kv", 70);
  EXPECT_EQ(ledger.current(), 120);
  EXPECT_EQ(ledger.peak(), 150);
  EXPECT_EQ(ledger.peak_by_purpose(), (std::map<std::string, Index>{{"q", 100}, {"kv", 120}}));
  ledger.reset_peak();
  EXPECT_EQ(ledger.peak(), 120);
  EXPECT_EQ(ledger.peak_by_purpose(), (std::map<std::string, Index>{{"q", 0}, {"kv", 120}}));
}

TEST(Buffer, IsCountedWhileAnyCopyLives) {
  const Index before = memory_ledger().current();
  {
    Buffer copy;
    {
      const Buffer buffer("buffer test", 1000);
      EXPECT_EQ(buffer.bytes(), 1000);
      EXPECT_EQ(buffer.at(10), static_cast<std::byte*>(buffer.data()) + 10);
      EXPECT_EQ(memory_ledger().current(), before + 1000);
      copy = buffer;
      EXPECT_EQ(copy.data(), buffer.data());
    }
    EXPECT_EQ(memory_ledger().current(), before + 1000);
  }
  EXPECT_EQ(memory_ledger().current(), before);
  EXPECT_EQ(memory_ledger().peak_by_purpose().at("buffer test"), 1000);
}

TEST(Buffer, APartKeepsTheWhole) {
  const Index before = memory_ledger().current();
  Buffer part;
  {
    const Buffer whole("buffer test", 100);
    part = whole.first(40);
    EXPECT_EQ(part.data(), whole.data());
    EXPECT_EQ(part.bytes(), 40);
    EXPECT_THROW(part.first(41), Error);
  }
  EXPECT_EQ(memory_ledger().current(), before + 100);
  EXPECT_EQ(Buffer().first(0).bytes(), 0);
}

TEST(Buffer, LargeHostMemoryBeginsWithAHugePageAndCountsWhatWasAsked) {
  constexpr Index page = huge_page_bytes;
  EXPECT_EQ(in_huge_pages(page / 2 - 1), page / 2 - 1);
  EXPECT_EQ(in_huge_pages(page / 2), page);
  EXPECT_EQ(in_huge_pages(3 * page), 3 * page);
  EXPECT_EQ(in_huge_pages(3 * page + 1), 3 * page + 1);
  constexpr Index most = std::numeric_limits<Index>::max();  // 2^63 - 1: the end of its last page does not fit an Index
  EXPECT_EQ(in_huge_pages(most), most);
  EXPECT_EQ(in_huge_pages(most - page + 1), most - page + 1);
  EXPECT_EQ(in_huge_pages(most - page), most - page + 1);
  EXPECT_EQ(in_huge_pages(4 * page - 1), 4 * page);
  const Index before = memory_ledger().current();
  for (const Index bytes : {page / 2, page - 1, page, 5 * page / 2 + 1, 3 * page + 7}) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 3; ++i) {
      buffers.emplace_back("buffer test", bytes);
      fill_zero(buffers.back().data(), bytes);
    }
    for (const Buffer& buffer : buffers) {
      const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
      EXPECT_EQ(device_is_host() ? address % std::uintptr_t(page) : 0, 0u);
      fill_zero(buffer.data(), buffer.bytes());
    }
    EXPECT_EQ(memory_ledger().current(), before + 3 * bytes);
  }
  EXPECT_EQ(memory_ledger().current(), before);
}

TEST(Buffer, CopiesThereAndBack) {
  std::vector<unsigned char> bytes(1001), back(1001);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  const Buffer buffer("buffer test", 1001);
  copy_to_device(buffer.data(), bytes.data(), 1001);
  copy_to_host(back.data(), buffer.data(), 1001);
  EXPECT_EQ(back, bytes);
  fill_zero(buffer.at(1), 999);
  copy_to_host(back.data(), buffer.data(), 1001);
  EXPECT_EQ(back.front(), bytes.front());
  EXPECT_EQ(back.back(), bytes.back());
  EXPECT_EQ(std::accumulate(back.begin() + 1, back.end() - 1, 0), 0);
}

TEST(Buffer, EmptyOnesHoldNothing) {
  const Buffer none, zero("buffer test", 0);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(zero.data(), nullptr);
  EXPECT_EQ(zero.bytes(), 0);
  copy_to_device(zero.data(), nullptr, 0);
  copy_to_host(nullptr, zero.data(), 0);
  fill_zero(zero.data(), 0);
}

TEST(Buffer, TooLargeNamesPurposeAndSize) {
  const Index before = memory_ledger().current();
  const Index bytes = Index(1) << 60;
  try {
    const Buffer buffer("ring buffers", bytes);
    FAIL() << "2^60 bytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    const std::string message = error.what();
    EXPECT_NE(message.find("ring buffers"), std::string::npos) << message;
    EXPECT_NE(message.find(std::to_string(bytes)), std::string::npos) << message;
    EXPECT_NE(message.find("`annulus plan` shows"), std::string::npos) << message;
  }
  EXPECT_EQ(memory_ledger().current(), before);
}

// The Linux kernel takes peaks from counters that may be some pages too low for each CPU.
TEST(Memory, ResidentIsNoMoreThanItsPeak) {
  EXPECT_GT(resident_bytes(), 0);
  EXPECT_LE(resident_bytes(), peak_resident_bytes() + (Index(16) << 20));
}

TEST(Memory, PeakResidentGrowsWithWhatIsTouched) {
  const Index before = peak_resident_bytes();
  EXPECT_GT(before, 1 << 20);
  const Index more = Index(1) << 28;
  std::vector<char> touched(std::size_t(more) + std::size_t(before), 1);
  EXPECT_GE(peak_resident_bytes(), before + more / 2);
  EXPECT_EQ(touched.back(), 1);
}

}  // namespace
}  // namespace annulus::core
