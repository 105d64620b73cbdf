#include "node/http/recording_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../temporary.hpp"
#include "trace/memory_recording.hpp"

namespace ration::node {
namespace {

namespace fs = std::filesystem;

class RecordingFolderTest : public testing::Test {
 protected:
  const TemporaryFolder place_;
  const std::string state_ = place_.path() + "/state";
  const std::string recordings_ = state_ + "/recordings";
  const RecordingFolder folder_{state_};
  const Viewer operator_{.is_operator = true, .user = {}};
  const Viewer own_{.user = ::getuid()}, other_{.user = ::getuid() + 1}, anonymous_{.user = {}};

  void SetUp() override {
    fs::create_directories(recordings_);
    record(recordings_ + "/train.rec");
  }
  static void record(const std::string& path) {
    trace::Header header;
    header.devices.resize(1);
    header.processes.resize(1);
    header.sites.resize(1);
    header.complete = true;
    trace::Event event;
    event.address = 1;
    event.bytes = 5;
    event.charged = 5;
    ASSERT_TRUE(trace::write_packed(path, trace::MemoryRecording(header, {event})));
  }
  [[nodiscard]] std::string error_of(const std::string& name, const Viewer& viewer) const {
    const auto opened = folder_.open(name, viewer);
    return opened ? "" : opened.error().id;
  }
};

TEST_F(RecordingFolderTest, AnOperatorOpensAllAndAUserItsOwn) {
  EXPECT_EQ(error_of("train.rec", operator_), "");
  EXPECT_EQ(error_of("train.rec", own_), "");
  EXPECT_EQ(error_of("train.rec", other_), "E1830");
  EXPECT_EQ(error_of("train.rec", anonymous_), "E1830");
  EXPECT_EQ(folder_.list(operator_).size(), 1U);
  EXPECT_EQ(folder_.list(own_).size(), 1U);
  EXPECT_TRUE(folder_.list(other_).empty());
  EXPECT_TRUE(folder_.list(anonymous_).empty());
}

TEST_F(RecordingFolderTest, NoNameAndNoLinkLeadsOutOfTheFolder) {
  record(place_.path() + "/secret.rec");
  fs::create_symlink(place_.path() + "/secret.rec", recordings_ + "/link.rec");
  fs::create_directory(recordings_ + "/folder.rec");
  record(recordings_ + "/.hidden.rec");
  ASSERT_EQ(::mkfifo((recordings_ + "/pipe.rec").c_str(), 0600), 0);
  for (const std::string name : {"../../secret.rec", "link.rec", "folder.rec", "pipe.rec", ".hidden.rec", ".rec", "",
                                 "train", "/etc/passwd", "x/../train.rec", "train.rec\n", "tr\xffin.rec", "none.rec"})
    EXPECT_EQ(error_of(name, operator_), "E1830") << name;
  EXPECT_EQ(error_of(std::string("train.rec\0.rec", 14), operator_), "E1830");
  EXPECT_EQ(error_of(std::string(300, 'a') + ".rec", operator_), "E1830");
  EXPECT_EQ(folder_.list(operator_).size(), 1U);
}

TEST_F(RecordingFolderTest, AFolderThatIsALinkHasNoRecordings) {
  fs::rename(recordings_, place_.path() + "/elsewhere");
  fs::create_directory_symlink(place_.path() + "/elsewhere", recordings_);
  EXPECT_TRUE(folder_.list(operator_).empty());
  EXPECT_EQ(error_of("train.rec", operator_), "E1830");
}

TEST_F(RecordingFolderTest, OnlyWholeRecordingsAreRead) {
  fs::copy_file(recordings_ + "/train.rec", recordings_ + "/cut.rec");
  fs::resize_file(recordings_ + "/cut.rec", fs::file_size(recordings_ + "/cut.rec") - 20);
  std::ofstream(recordings_ + "/text.rec") << "t_us,op,id,size,stream\n0,a,0,41943040,0\n";
  std::ofstream(recordings_ + "/empty.rec");
  for (const char* name : {"cut.rec", "text.rec", "empty.rec"}) EXPECT_EQ(error_of(name, operator_), "E1811") << name;
}

TEST_F(RecordingFolderTest, WithoutAFolderThereAreNone) {
  const RecordingFolder none(""), missing(place_.path() + "/missing");
  for (const RecordingFolder* folder : {&none, &missing}) {
    EXPECT_TRUE(folder->list(operator_).empty());
    EXPECT_FALSE(folder->open("train.rec", operator_));
  }
}

}  // namespace
}  // namespace ration::node
