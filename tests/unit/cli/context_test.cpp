// Commands that are printed: about the node of the session, and each word of them only a word.
#include "cli/context.hpp"

#include <gtest/gtest.h>

#include "base/command.hpp"

using namespace ration;
using namespace ration::literals;

TEST(Context, EveryCommandInATextIsAboutTheSameNode) {
  const cli::Context demo{"demo", ""};
  EXPECT_EQ(cli::in_context("ration set nlp --limit 8GiB", demo), "ration set --sim=demo nlp --limit 8GiB");
  EXPECT_EQ(cli::in_context("ration trim nlp, or: ration ps", demo),
            "ration trim --sim=demo nlp, or: ration ps --sim=demo");
  EXPECT_EQ(cli::in_context("(ration why d-1-2)", demo), "(ration why --sim=demo d-1-2)");
  EXPECT_EQ(cli::in_context("next  ration run --limit 1GiB -- python x.py", {"T4:16GiB*2", "/run/a b"}),
            "next  ration run --sim='T4:16GiB*2' --socket='/run/a b' --limit 1GiB -- python x.py");
}

TEST(Context, AVerbGetsOnlyWhatItTakes) {
  const cli::Context both{"T4", "/run/x"};
  EXPECT_EQ(cli::in_context("ration plan --tenant a=1GiB", both), "ration plan --sim=T4 --tenant a=1GiB");
  EXPECT_EQ(cli::in_context("ration service restart; ration help units", both),
            "ration service restart; ration help units");
}

TEST(Context, WhatSaysItsNodeAndWhatIsNoCommandStays) {
  const cli::Context demo{"demo", ""};
  for (const char* text : {"ration run --sim=T4 --limit 1GiB -- true", "'ration run' works without it",
                           "GPU-ration set x", "ration gives any program a limit", "ration", ""})
    EXPECT_EQ(cli::in_context(text, demo), text);
  EXPECT_EQ(cli::in_context("ration set nlp --limit 8GiB", {}), "ration set nlp --limit 8GiB");
}

TEST(Command, AWordIsOnlyAWord) {
  EXPECT_EQ(command({"set", "nlp", "--limit", "8GiB"}), "ration set nlp --limit 8GiB");
  EXPECT_EQ(command({"set", "$(reboot)", "", "--limit", "8GiB"}), "ration set '$(reboot)' --limit 8GiB");
  EXPECT_EQ(shell_word("it's;"), "'it'\\''s;'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("训练"), "训练");
  EXPECT_EQ(shell_word("a\033[2Jb"), "'a?[2Jb'");
  EXPECT_EQ(quoted_words("python x.py  --a=b;reboot"), "python x.py '--a=b;reboot'");
}

TEST(Command, ASizeIsExactAndShort) {
  EXPECT_EQ(exact_size(8_GiB), "8GiB");
  EXPECT_EQ(exact_size(10_GiB + 512_MiB), "10.5GiB");
  EXPECT_EQ(exact_size(1_GiB + 256_MiB), "1.25GiB");
  EXPECT_EQ(exact_size(1_GiB + 128_MiB), "1152MiB");
  EXPECT_EQ(exact_size(300_MiB), "300MiB");
  EXPECT_EQ(exact_size(3_B), "3B");
}
