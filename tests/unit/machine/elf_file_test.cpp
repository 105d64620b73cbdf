// What an ELF file says of itself, whatever stands in it.
#include "machine/elf_file.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "../temporary.hpp"

namespace ration::machine {
namespace {

std::string own_program() {
  std::ifstream file("/bin/sh", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_byte(std::string file, std::size_t at, char byte) {
  file[at] = byte;
  return file;
}

TEST(ElfFile, AProgramNamesItsLoaderAndALibraryCanBePreloaded) {
  const auto program = read_elf("/bin/sh");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->problem, "");
  EXPECT_NE(program->interpreter.find("/ld-linux"), std::string::npos) << program->interpreter;
  EXPECT_TRUE(program->has_dynamic);
  EXPECT_EQ(why_not_preloadable(program->interpreter), "") << "the loader is a shared library itself";
}

TEST(ElfFile, WhatIsNoneSaysSo) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_elf(folder.file("nothing")));
  EXPECT_FALSE(read_elf(folder.path())) << "a folder";
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_elf(folder.file("pipe"))) << "and does not wait for its other end";
  EXPECT_EQ(read_elf(folder.write("empty", ""))->problem, "it is empty");
  EXPECT_EQ(read_elf(folder.write("script", "#!/bin/sh\n"))->problem, "it is not an ELF program");
  EXPECT_EQ(why_not_preloadable(folder.file("nothing")), "it is not there, or cannot be read");
  EXPECT_EQ(why_not_preloadable(folder.file("empty")), "it is empty");
}

TEST(ElfFile, OneOfAnotherProcessorIsNotThisMachines) {
  const TemporaryFolder folder;
  const std::string whole = own_program();
  constexpr const char* kOther = "it was built for another kind of processor than the guard";
  EXPECT_EQ(read_elf(folder.write("32", with_byte(whole, EI_CLASS, ELFCLASS32)))->problem, kOther);
  EXPECT_EQ(read_elf(folder.write("riscv", with_byte(whole, offsetof(Elf64_Ehdr, e_machine), char(EM_RISCV))))->problem,
            kOther);
}

TEST(ElfFile, OneThatIsCutOffIsNotWhole) {
  const TemporaryFolder folder;
  const std::string whole = own_program();
  EXPECT_EQ(read_elf(folder.write("half", whole.substr(0, whole.size() / 2)))->problem, "it is cut off");
  EXPECT_EQ(read_elf(folder.write("head", whole.substr(0, sizeof(Elf64_Ehdr))))->problem, "it is cut off");
}

TEST(ElfFile, OneWithoutADynamicSectionCannotBePreloaded) {
  const TemporaryFolder folder;
  std::string file = own_program().substr(0, sizeof(Elf64_Ehdr));
  file.replace(offsetof(Elf64_Ehdr, e_phnum), 2, 2, '\0');
  EXPECT_EQ(read_elf(folder.write("static", file))->problem, "");
  EXPECT_EQ(read_elf(folder.file("static"))->interpreter, "");
  EXPECT_EQ(why_not_preloadable(folder.file("static")), "it is not a shared library");
}

TEST(ElfFile, AnyHeaderCanBeRead) {
  const TemporaryFolder folder;
  const std::string whole = own_program().substr(0, 4096);
  std::mt19937 random(8);
  for (int round = 0; round < 500; ++round) {
    std::string file = whole.substr(0, random() % 3 == 0 ? random() % whole.size() : whole.size());
    for (int change = 0; change < 8 && file.size() > 20; ++change)
      file[20 + random() % std::min<std::size_t>(file.size() - 20, 600)] = static_cast<char>(random());
    const auto read = read_elf(folder.write("any", file));
    ASSERT_TRUE(read);
    EXPECT_LE(read->interpreter.size(), 4096U);
  }
}

TEST(ElfFile, ATextIsFoundWhereverItStands) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", std::string("a\0b mark", 8));
  EXPECT_TRUE(has_text(path, "mark"));
  EXPECT_TRUE(has_text(path, std::string("\0b", 2)));
  EXPECT_FALSE(has_text(path, "marked"));
  EXPECT_FALSE(has_text(folder.file("nothing"), "mark"));
  for (const std::size_t before : {65530, 65536, 131070}) {
    std::ofstream(path, std::ios::trunc) << std::string(before, 'x') << "long mark" << std::string(70000, 'x');
    EXPECT_TRUE(has_text(path, "long mark")) << before;
  }
}

}  // namespace
}  // namespace ration::machine
