#include "annulus/core/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace annulus::core {
namespace {

TEST(Error, KindsAreTheExitStatus) {
  EXPECT_EQ(int(ErrorKind::failure), 1);
  EXPECT_EQ(int(ErrorKind::usage), 2);
  EXPECT_EQ(int(ErrorKind::verification), 3);
  EXPECT_EQ(int(ErrorKind::stalled), 4);
}

TEST(Error, FailFormatsItsMessage) {
  try {
    fail(ErrorKind::usage, "{}:{}:{}: unknown key '{}'", "a.yaml", 3, 5, "causl");
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "a.yaml:3:5: unknown key 'causl'");
  }
}

TEST(Error, RequireNamesThePlaceAndFormatsOnlyWhenBroken) {
  int formatted = 0;
  const auto message = [&] {
    ++formatted;
    return std::string("heads do not divide");
  };
  require(true, message);
  EXPECT_EQ(formatted, 0);
  const int line = __LINE__ + 2;
  try {
    require(false, message);
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failure);
    const std::string text = error.what();
    EXPECT_NE(text.find("test_error.cpp:" + std::to_string(line)), std::string::npos) << text;
    EXPECT_NE(text.find("heads do not divide"), std::string::npos) << text;
  }
  EXPECT_EQ(formatted, 1);
}

}  // namespace
}  // namespace annulus::core
