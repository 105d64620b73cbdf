// Commands that are printed: about the node of the session, and each word of them only a word.
#include "cli/session/context.hpp"

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
  EXPECT_EQ(cli::in_context("ration whatif a=1GiB", both), "ration whatif --sim=T4 a=1GiB");
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
