// Whether the guard is loaded in an image, and where its links lead.
#include "adapters/containers/image.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "../temporary.hpp"

namespace ration::adapters {
namespace {

namespace fs = std::filesystem;

/// A program of this machine's architecture that this loader starts; empty: a static one.
std::string program_with(const std::string& interpreter) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
#if defined(__x86_64__)
  header.e_machine = EM_X86_64;
#else
  header.e_machine = EM_AARCH64;
#endif
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = interpreter.empty() ? 0 : 1;
  Elf64_Phdr part{};
  part.p_type = PT_INTERP;
  part.p_offset = sizeof header + sizeof part;
  part.p_filesz = interpreter.size() + 1;
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&part), sizeof part);
  return file + interpreter + std::string(1, '\0');
}

class ImageTest : public testing::Test {
 protected:
  void SetUp() override {
    image_.write("lib64/libc.so.6", "GLIBC_2.2.5 GLIBC_2.17 GLIBC_2.36");
    image_.write_program("usr/bin/python", program_with("/lib64/ld-linux-x86-64.so.2"));
    container_.root = image_.path();
    container_.program = {"python", "train.py"};
    container_.path = "/usr/local/bin:/usr/bin";
  }
  TemporaryFolder image_;
  Container container_;
};

TEST_F(ImageTest, AProgramOfGlibcIsHeld) { EXPECT_EQ(why_not_held(container_), ""); }

TEST_F(ImageTest, AProgramOfMuslIsNot) {
  image_.write_program("usr/bin/python", program_with("/lib/ld-musl-x86_64.so.1"));
  EXPECT_NE(why_not_held(container_).find("musl"), std::string::npos);
}

TEST_F(ImageTest, ALoaderOfAnotherPlaceReadsAnotherPreloadFile) {
  image_.write_program("usr/bin/python", program_with("/nix/store/x-glibc/lib/ld-linux-x86-64.so.2"));
  EXPECT_NE(why_not_held(container_).find("/nix/store"), std::string::npos);
}

TEST_F(ImageTest, AScriptIsWhatItsInterpreterIs) {
  image_.write_program("usr/bin/train", "#! /usr/bin/python -u\n");
  container_.program = {"/usr/bin/train"};
  EXPECT_EQ(why_not_held(container_), "");
  image_.write_program("usr/bin/python", program_with("/lib/ld-musl-x86_64.so.1"));
  EXPECT_NE(why_not_held(container_).find("musl"), std::string::npos);
}

TEST_F(ImageTest, AScriptThatStartsItselfComesToAnEnd) {
  image_.write_program("usr/bin/python", "#!/usr/bin/python\n");
  EXPECT_EQ(why_not_held(container_), "/usr/bin/python: it is not an ELF program");
}

TEST_F(ImageTest, AStaticLauncherStartsWhereThereIsAGlibc) {
  image_.write_program("usr/bin/python", program_with(""));
  EXPECT_EQ(why_not_held(container_), "");
  image_.write("lib64/libc.so.6", "GLIBC_2.2.5 GLIBC_2.12");
  EXPECT_NE(why_not_held(container_).find("older than 2.17"), std::string::npos);
  fs::remove(image_.file("lib64/libc.so.6"));
  EXPECT_NE(why_not_held(container_).find("no glibc"), std::string::npos);
}

TEST_F(ImageTest, APipeInTheImageIsNotWaitedFor) {
  const std::string program = image_.file("usr/bin/pipe"), library = image_.file("lib64/libc.so.6");
  fs::create_directories(image_.file("usr/bin"));
  ASSERT_EQ(::mkfifo(program.c_str(), 0755), 0);
  container_.program = {"/usr/bin/pipe"};
  EXPECT_EQ(why_not_held(container_), "") << "the runtime tells that it cannot be started";
  fs::remove(library);
  ASSERT_EQ(::mkfifo(library.c_str(), 0755), 0);
  EXPECT_NE(why_not_held(container_).find("no glibc"), std::string::npos);
}

TEST_F(ImageTest, LinksOfTheImageStayInTheImage) {
  image_.write("data/file", "x");
  fs::create_symlink("/data", image_.file("absolute"));
  fs::create_symlink("../../../../data/file", image_.file("data/up"));
  fs::create_symlink("loop", image_.file("loop"));
  fs::create_symlink("/etc", image_.file("outside"));
  EXPECT_EQ(resolved_in(image_.path(), "/absolute/file"), image_.file("data/file"));
  EXPECT_EQ(resolved_in(image_.path(), "/data/up"), image_.file("data/file"));
  EXPECT_EQ(resolved_in(image_.path(), "/../../data/file"), image_.file("data/file"));
  EXPECT_EQ(resolved_in(image_.path(), "/loop"), "");
  EXPECT_EQ(resolved_in(image_.path(), "/outside/passwd"), "") << "this machine has /etc/passwd, the image has none";
}

}  // namespace
}  // namespace ration::adapters
