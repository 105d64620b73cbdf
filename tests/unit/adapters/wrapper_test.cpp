// Where options are typed into the command lines of engines.
#include "adapters/containers/wrapper.hpp"

#include <gtest/gtest.h>

#include "book/workload_book.hpp"

namespace ration::adapters {
namespace {

using Words = std::vector<std::string>;

TEST(Wrapper, OptionsStandBehindTheSubcommand) {
  EXPECT_EQ(*with_options("docker", {"--context", "x", "run", "--rm", "image"}, {"--device", "d"}),
            (Words{"docker", "--context", "x", "run", "--device", "d", "--rm", "image"}));
  EXPECT_EQ(*with_options("apptainer", {"exec", "a.sif", "run"}, {"--o"}),
            (Words{"apptainer", "exec", "--o", "a.sif", "run"}));
}

TEST(Wrapper, OfASandboxTheyStandBeforeItsProgram) {
  EXPECT_EQ(*with_options("bwrap", {"--bind", "/", "/", "--", "python", "--", "x"}, {"--o"}),
            (Words{"bwrap", "--bind", "/", "/", "--o", "--", "python", "--", "x"}));
}

TEST(Wrapper, WithoutThatPlaceNothingIsTyped) {
  for (const auto& [engine, words] :
       {std::pair{"docker", Words{"ps"}}, {"bwrap", Words{"--bind", "/", "/", "true"}}, {"lxc", Words{"run"}}}) {
    const auto all = with_options(engine, words, {"--o"});
    ASSERT_FALSE(all) << engine;
    EXPECT_EQ(all.error().id, "E1707");
  }
}

TEST(Wrapper, AContainerGetsMountsAndTheBookOverItsPlaceholder) {
  const cdi::Edits edits{"/shim", {{"/shim", book::kContainerGuard}, {"/sim", "/sim", true}}, {{"A", "b c"}}, "", {},
                         {}};
  EXPECT_EQ(options_of("docker", edits, "/books/x"),
            (Words{"-v", std::string("/shim:") + book::kContainerGuard + ":ro", "-v", "/sim:/sim", "-v",
                   std::string("/books/x:") + book::kContainerBook, "-e", "A=b c"}));
}

TEST(Wrapper, ASandboxGetsVariablesAndNothingIsMadeInItsRoot) {
  const cdi::Edits edits{
      "/shim", {{"/shim", book::kContainerGuard}, {"/sim", "/sim", true}}, {{"LD_PRELOAD", "/x.so"}}, "", {}, {}};
  EXPECT_EQ(
      options_of("bwrap", edits, "/books/x"),
      (Words{"--bind", "/sim", "/sim", "--bind", "/books/x", "/books/x", "--ro-bind", "/shim", "/shim", "--setenv",
             "LD_PRELOAD", "/shim/libcuda.so.1:/shim/libnvidia-ml.so.1:/x.so", "--setenv", "RATION_BOOK", "/books/x"}));
}

TEST(Wrapper, WhatOutlivesTheCommandIsRefused) {
  EXPECT_TRUE(check_foreground("docker", {"run", "--rm", "image"}));
  for (const char* word : {"-d", "--detach", "--detach=true", "create", "-dit", "-itd"})
    EXPECT_FALSE(check_foreground("podman", {"run", word})) << word;
  EXPECT_TRUE(check_foreground("docker", {"run", "-it", "-edebug", "--dns", "x"}));
  EXPECT_TRUE(check_foreground("bwrap", {"-d"}));
}

}  // namespace
}  // namespace ration::adapters
