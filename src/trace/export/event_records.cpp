#include "trace/export/event_records.hpp"

#include <array>

#include "trace/export/protobuf.hpp"

namespace ration::trace {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ ((rest & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = rest;
  }
  return table;
}

/// Returns the checksum masked, as TFRecord stores it, because a checksum over data that contain checksums is weak.
std::uint32_t masked_crc(std::string_view text) {
  const std::uint32_t crc = crc32c(text);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void append(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to.push_back(static_cast<char>(value >> 8 * i));
}

// The numbers of fields below are those of tensorflow.Event, Summary, Summary.Value, SummaryMetadata, TensorProto and
// of TensorBoard's Layout.
Message event_at(double wall_seconds) { return Message{}.real(1, wall_seconds); }

}  // namespace

std::uint32_t crc32c(std::string_view text) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char byte : text) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string framed(std::string_view record) {
  std::string text;
  append(text, record.size(), 8);
  append(text, masked_crc(text), 4);
  text += record;
  append(text, masked_crc(record), 4);
  return text;
}

std::string version_record(double wall_seconds) {
  return framed(event_at(wall_seconds).text(3, "brain.Event:2").bytes());
}

std::string scalars_record(double wall_seconds, std::int64_t step, const std::vector<Scalar>& scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) summary.message(1, Message{}.text(1, scalar.tag).single(2, scalar.value));
  return framed(event_at(wall_seconds).number(2, step).message(5, summary).bytes());
}

std::string layout_record(double wall_seconds, const std::string& category, const std::vector<Chart>& charts) {
  Message page;
  page.text(1, category);
  for (const Chart& chart : charts) {
    Message lines;
    for (const std::string& tag : chart.tags) lines.text(1, tag);
    page.message(2, Message{}.text(1, chart.title).message(2, lines));
  }
  const Message layout = Message{}.number(1, 1).message(2, page);
  constexpr int kString = 7, kTensorClass = 2;
  const Message tensor = Message{}.number(1, kString).message(2, Message{}).text(8, layout.bytes());
  const Message metadata = Message{}.message(1, Message{}.text(1, "custom_scalars")).number(4, kTensorClass);
  const Message value = Message{}.text(1, "custom_scalars__config__").message(8, tensor).message(9, metadata);
  return framed(event_at(wall_seconds).message(5, Message{}.message(1, value)).bytes());
}

}  // namespace ration::trace
