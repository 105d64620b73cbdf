// The records of TensorBoard's event files. Their own reader is asked in tests/exports; here stand the parts that other
// documents define: the checksum of RFC 3720, the frame of TFRecord, the wire format of Protocol Buffers.
#include "trace/export/event_records.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "trace/export/protobuf.hpp"

namespace ration::trace {
namespace {

using namespace std::string_literals;

TEST(EventRecords, TheChecksumIsThatOfTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(EventRecords, AFrameHasLengthAndChecksumsAroundTheRecord) {
  const std::string frame = framed("abc");
  ASSERT_EQ(frame.size(), 8 + 4 + 3 + 4u);
  EXPECT_EQ(frame.substr(0, 8), "\3\0\0\0\0\0\0\0"s);
  EXPECT_EQ(frame.substr(12, 3), "abc");
  std::uint32_t masked = 0;
  std::memcpy(&masked, frame.data() + 15, sizeof masked);
  const std::uint32_t rotated = masked - 0xa282ead8u;
  EXPECT_EQ(rotated >> 17 | rotated << 15, crc32c("abc"));
}

TEST(Protobuf, EachTypeHasItsWireFormat) {
  EXPECT_EQ(Message{}.number(1, 150).bytes(), "\x08\x96\x01");  // the encoding guide's own example
  EXPECT_EQ(Message{}.number(1, -2).bytes(), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(Message{}.text(2, "testing").bytes(), "\x12\x07testing");
  EXPECT_EQ(Message{}.message(3, Message{}.number(1, 150)).bytes(), "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(Message{}.real(1, 1.0).bytes(), "\x09\0\0\0\0\0\0\xf0\x3f"s);
  EXPECT_EQ(Message{}.single(2, 1.0f).bytes(), "\x15\0\0\x80\x3f"s);
  EXPECT_EQ(Message{}.fixed64(16, 1).bytes(), "\x81\x01\1\0\0\0\0\0\0\0"s);
}

}  // namespace
}  // namespace ration::trace
