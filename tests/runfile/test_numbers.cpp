// The functions that read numbers, both in the run file and on the command line.
#include "annulus/runfile/user_words.hpp"

#include <gtest/gtest.h>

namespace annulus::runfile {
namespace {

using core::Index;

TEST(Numbers, WholeNumbers) {
  const WholeRange any{INT64_MIN, INT64_MAX};
  EXPECT_EQ(parse_whole("0", any).number, 0);
  EXPECT_EQ(parse_whole("-0", any).number, 0);
  EXPECT_EQ(parse_whole("+8", any).number, 8);
  EXPECT_EQ(parse_whole("-12", any).number, -12);
  EXPECT_EQ(parse_whole("9223372036854775807", any).number, INT64_MAX);
  EXPECT_EQ(parse_whole("-9223372036854775808", any).number, INT64_MIN);
  for (const char* text : {"",
                           "-",
                           "+",
                           "+-8",
                           "--8",
                           "8 ",
                           " 8",
                           "8.",
                           "8.0",
                           "1e3",
                           "1_000",
                           "1,000",
                           "8k",
                           "12abc",
                           "010",
                           "-010",
                           "00",
                           "0x10",
                           "0b1",
                           "0o7",
                           "9223372036854775808",
                           "99999999999999999999",
                           "inf",
                           "\xd9\xa3"}) {
    EXPECT_FALSE(parse_whole(text, any).number) << text;
  }
}

TEST(Numbers, WholeNumbersKeepTheirRange) {
  const WholeRange range{1, 256};
  EXPECT_EQ(parse_whole("1", range).number, 1);
  EXPECT_EQ(parse_whole("256", range).number, 256);
  EXPECT_FALSE(parse_whole("0", range).number);
  EXPECT_FALSE(parse_whole("257", range).number);
  EXPECT_FALSE(parse_whole("-1", range).number);
  EXPECT_EQ(parse_whole("257", range).expected, "a whole number from 1 to 256");
  EXPECT_EQ(parse_whole("x", {}).expected, "a whole number, 1 or more");
  EXPECT_EQ(parse_whole("07", range).expected,
            "a whole number from 1 to 256; a leading 0 looks octal or hexadecimal, write it in decimal");
}

TEST(Numbers, PositiveNumbers) {
  EXPECT_EQ(parse_positive("0.5").number, 0.5);
  EXPECT_EQ(parse_positive(".5").number, 0.5);
  EXPECT_EQ(parse_positive("+3").number, 3.0);
  EXPECT_EQ(parse_positive("1e-3").number, 1e-3);
  EXPECT_EQ(parse_positive("0e1").number, std::nullopt);  // zero
  for (const char* text : {"", "0", "-1", "+", ".", "e5", "1e", "1.5x", " 1", "1 ", "010", "00.5", "0x1p3", "inf",
                           ".inf", "nan", "1e999", "-inf", "+-1"}) {
    EXPECT_FALSE(parse_positive(text).number) << text;
  }
  EXPECT_EQ(parse_positive("-1").expected, "a finite number above 0");
  EXPECT_EQ(parse_positive("010").expected,
            "a finite number above 0; a leading 0 looks octal or hexadecimal, write it in decimal");
}

TEST(Numbers, BytesTakeUnitsOfTwoToTheTen) {
  EXPECT_EQ(parse_bytes("1000").number, 1000);
  EXPECT_EQ(parse_bytes("3KiB").number, 3072);
  EXPECT_EQ(parse_bytes("512MiB").number, Index(512) << 20);
  EXPECT_EQ(parse_bytes("2GiB").number, Index(2) << 30);
  EXPECT_EQ(parse_bytes("1TiB").number, Index(1) << 40);
  for (const char* text : {"", "0", "-1", "2GB", "2 GiB", "2gib", "1.5GiB", "GiB", "9223372036854775807KiB", "010MiB",
                           "2MiBGiB", "1KiBMiB"}) {
    EXPECT_FALSE(parse_bytes(text).number) << text;
  }
  EXPECT_EQ(bytes_text(Index(3) << 30), "3GiB");
  EXPECT_EQ(bytes_text(1536), "1536");
  EXPECT_EQ(bytes_text(1000), "1000");
}

}  // namespace
}  // namespace annulus::runfile
