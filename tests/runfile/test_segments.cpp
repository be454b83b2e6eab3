// Windows in attention.segments: both ways to write them, and the text that a result keeps. Keys that change scores.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "annulus/runfile/run_file.hpp"

namespace annulus::runfile {
namespace {

using pattern::Pair;

TEST(Segments, MayBeWindows) {
  const auto pairs = [](const std::string& segments, bool causal) {
    const std::string text = fmt::format(
        "input: {{file: a.h5}}\noutput: {{file: b.h5}}\nattention: {{segments: {}, "
        "dilations: [1, 2], causal: {}}}\n",
        segments, causal);
    const Settings settings = parse_run_file(text, "run.yaml", {}).settings;
    const Settings again = parse_run_file(resolved_text(settings), "run.yaml", {}).settings;
    EXPECT_EQ(again.attention.pattern.pairs, settings.attention.pattern.pairs) << resolved_text(settings);
    return settings.attention.pattern.pairs;
  };
  const auto windows = [](pattern::Window a, pattern::Window b) {
    return std::vector<Pair>{{pattern::whole_document, 1, a}, {pattern::whole_document, 2, b}};
  };
  EXPECT_EQ(pairs("[{window: 4, first: 3}, {window: [5, 7]}]", false), windows({3, 3, 3}, {5, 7}));
  EXPECT_EQ(pairs("[{window: 4, first: 3}, {window: [5, 7]}]", true), windows({3, 0, 3}, {5, 0})) << "causal";
  EXPECT_EQ(pairs("[{first: 0, window: 1}, {window: [0, 0]}]", false), windows({0, 0}, {0, 0}));
  EXPECT_EQ(pairs("[all, {window: [2, 1]}]", false), (std::vector<Pair>{{}, {pattern::whole_document, 2, {{2, 1}}}}));
}

TEST(Scores, AreReadAndWritten) {
  const auto attention = [](const std::string& keys) {
    const std::string text = fmt::format("input: {{file: a.h5}}\noutput: {{file: b.h5}}\nattention: {{{}}}\n", keys);
    const Settings settings = parse_run_file(text, "run.yaml", {}).settings;
    const Settings again = parse_run_file(resolved_text(settings), "run.yaml", {}).settings;
    EXPECT_EQ(again.attention.bias, settings.attention.bias) << resolved_text(settings);
    EXPECT_EQ(again.attention.softcap, settings.attention.softcap) << resolved_text(settings);
    return settings.attention;
  };
  EXPECT_FALSE(attention("").bias || attention("softcap: none, bias: none").bias);
  EXPECT_EQ(attention("softcap: 12.5").softcap, 12.5);
  EXPECT_EQ(attention("bias: {alibi: auto}").bias, BiasSettings());
  EXPECT_EQ(attention("bias: {exempt: 2, alibi: [0.5, 0.0, 1e-3]}").bias, (BiasSettings{{{0.5, 0, 1e-3}}, 2}));
}

}  // namespace
}  // namespace annulus::runfile
