// Small files are there whole or as they were.
#include "base/whole_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "../temporary.hpp"

namespace ration {
namespace {

TEST(WholeFile, ItIsReplacedWithItsModeAndNothingIsLeftBesideIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  ASSERT_TRUE(write_whole(path, "one", 0640));
  ASSERT_TRUE(write_whole(path, "two", 0640));
  EXPECT_EQ(folder.content("x"), "two");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640U);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(WholeFile, WhatCannotBeWrittenStaysAsItWas) {
  const TemporaryFolder folder;
  EXPECT_FALSE(write_whole("/proc/none/x", "one", 0600));
  std::filesystem::create_directories(folder.file("x/kept"));
  EXPECT_FALSE(write_whole(folder.file("x"), "one", 0600)) << "a folder";
  EXPECT_EQ(errno, EISDIR);
  EXPECT_TRUE(std::filesystem::exists(folder.file("x/kept")));
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.new")));
}

TEST(WholeFile, WhatIsWrittenInPartSaysWhy) {
  const TemporaryFolder folder;
  folder.write("x", "kept");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4096, limit.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = 0;
  EXPECT_FALSE(write_whole(folder.file("x"), std::string(8192, '1'), 0600));
  EXPECT_EQ(errno, EFBIG) << "as ENOSPC on a full disk";
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(folder.content("x"), "kept");
}

TEST(WholeFile, ALinkIsNotWrittenThrough) {
  const TemporaryFolder folder;
  folder.write("victim", "kept");
  std::filesystem::create_symlink(folder.file("victim"), folder.file("x.new"));
  EXPECT_FALSE(write_whole(folder.file("x"), "one", 0600));
  EXPECT_EQ(folder.content("victim"), "kept");
}

/// What other people may lay where a file is expected. None may be waited for, or read without an end.
const std::map<std::string, std::function<void(const std::string& path)>>& no_files() {
  static const std::map<std::string, std::function<void(const std::string& path)>> all{
      {"it is a pipe", [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }},
      {"it is a device", [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); }},
      {"it is a folder", [](const std::string& path) { std::filesystem::create_directory(path); }},
      {"it is a socket",
       [](const std::string& path) {
         const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
         sockaddr_un address{AF_UNIX, {}};
         path.copy(address.sun_path, sizeof address.sun_path - 1);
         ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
         ::close(socket);
       }},
      {"it is larger than 16.0 MiB, the most that ration reads of such a file",
       [](const std::string& path) {
         std::ofstream{path};
         std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
       }},
      {"No such file or directory", [](const std::string&) {}}};
  return all;
}

TEST(WholeFile, WhatIsNoSmallFileIsNotReadAndSaysWhatItIs) {
  for (const auto& [why, lay] : no_files()) {
    const TemporaryFolder folder;
    lay(folder.file("x"));
    std::filesystem::create_symlink(folder.file("x"), folder.file("link"));
    for (const char* name : {"x", "link"}) {
      const auto content = read_whole(folder.file(name));
      ASSERT_FALSE(content) << why;
      EXPECT_EQ(content.error(), why);
    }
    EXPECT_EQ(read_whole(folder.file("link"), 1, Links::kRejected).error(), "it is a link");
  }
}

TEST(WholeFile, WhatHasNoEndIsReadAsFarAsItMayBe) {
  const FileDescriptor zeros{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(read_whole(zeros.get(), 1 << 20).error(),
            "it is larger than 1.00 MiB, the most that ration reads of such a file");
}

TEST(WholeFile, AFileOfTheKernelIsReadWhole) {
  EXPECT_TRUE(read_whole("/proc/self/status")->starts_with("Name:")) << "it says that it has no bytes";
  const TemporaryFolder folder;
  folder.write("x", std::string(100'000, '1'));
  EXPECT_EQ(read_whole(folder.file("x"), 100'000), folder.content("x"));
  EXPECT_FALSE(read_whole(folder.file("x"), 99'999));
}

TEST(WholeFile, AFileThatWasOpenedIsThatFileWhateverItsNameLeadsToLater) {
  const TemporaryFolder folder;
  folder.write("x", "kept");
  const auto file = open_regular(folder.file("x"));
  ASSERT_TRUE(file);
  std::filesystem::remove(folder.file("x"));
  ASSERT_EQ(::mkfifo(folder.file("x").c_str(), 0600), 0);
  EXPECT_EQ(read_whole(path_of(*file)), "kept");
}

}  // namespace
}  // namespace ration
