#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "trace/import/imported.hpp"
#include "trace/import/importers.hpp"

namespace ration::trace {
namespace {

/// Reads a message of Protocol Buffers (https://protobuf.dev/programming-guides/encoding) field by field.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  /// Goes to the next field. Returns false at the end, or where the message is damaged.
  bool next() {
    if (rest_.empty() || is_bad_) return false;
    const std::uint64_t key = varint();
    field_ = key >> 3;
    text_ = {};
    number_ = 0;
    switch (key & 7) {
      case 0:
        number_ = varint();
        break;
      case 1:
        text_ = take(8);
        break;
      case 2:
        text_ = take(varint());
        break;
      case 5:
        text_ = take(4);
        break;
      default:
        is_bad_ = true;
    }
    return !is_bad_;
  }
  [[nodiscard]] std::uint64_t field() const { return field_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] bool is_bad() const { return is_bad_; }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) return 0;
      value |= (static_cast<std::uint64_t>(byte[0]) & 0x7f) << shift;
      if ((byte[0] & 0x80) == 0) return value;
    }
    is_bad_ = true;
    return 0;
  }
  std::string_view take(std::uint64_t size) {
    is_bad_ = is_bad_ || size > rest_.size();
    if (is_bad_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_, text_;
  std::uint64_t field_ = 0, number_ = 0;
  bool is_bad_ = false;
};

/// A chunk of tensorflow/core/protobuf/bfc_memory_map.proto; the numbers of its fields are those of that file.
struct Chunk {
  std::uint64_t address = 0, bytes = 0, requested = 0, action = 0;
  std::string_view operation;
  bool in_use = false;
};

std::optional<Chunk> chunk_of(std::string_view message) {
  Chunk chunk;
  Fields fields(message);
  while (fields.next()) {
    switch (fields.field()) {
      case 1:
        chunk.address = fields.number();
        break;
      case 2:
        chunk.bytes = fields.number();
        break;
      case 3:
        chunk.requested = fields.number();
        break;
      case 5:
        chunk.operation = fields.text();
        break;
      case 7:
        chunk.action = fields.number();
        break;
      case 8:
        chunk.in_use = fields.number() != 0;
        break;
      default:
        break;
    }
  }
  if (fields.is_bad() || chunk.bytes > static_cast<std::uint64_t>(kMostCharge) || chunk.requested > chunk.bytes)
    return std::nullopt;
  return chunk;
}

/// Returns the number of the GPU in the name of an allocator: 1 in `GPU_1_bfc`.
std::uint16_t device_of(std::string_view allocator) {
  constexpr std::string_view kBegin = "GPU_";
  if (!allocator.starts_with(kBegin)) return 0;
  std::uint16_t device = 0;
  for (const char digit : allocator.substr(kBegin.size())) {
    if (digit < '0' || digit > '9' || device > 9) break;
    device = static_cast<std::uint16_t>(device * 10 + (digit - '0'));
  }
  return device;
}

}  // namespace

Result<std::unique_ptr<MemoryRecording>> read_tensorflow_dump(const std::string& path, std::string content) {
  Imported imported(path);
  std::vector<Chunk> chunks;
  std::uint16_t device = 0;
  Fields fields(content);
  bool is_whole = true;
  while (fields.next()) {
    if (fields.field() == 1) device = device_of(fields.text());
    if (fields.field() != 3) continue;
    const auto chunk = chunk_of(fields.text());
    is_whole = is_whole && chunk;
    if (chunk) chunks.push_back(*chunk);
  }
  if (fields.is_bad() || !is_whole || chunks.empty())
    return fail("E1811", path + " is not a dump of TensorFlow's allocator, or was cut off.",
                "TF_BFC_MEMORY_DUMP=/tmp/dump python train.py", 2);
  imported.need_device(device);
  // The dump shows one moment and has no times. In the recording, the tensors come first, in the order in which they
  // were taken, and then the regions around them. So at the last charge everything is there.
  std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.action < b.action; });
  for (const Chunk& chunk : chunks) {
    if (!chunk.in_use) continue;
    Event event;
    event.device = device;
    event.address = chunk.address;
    event.bytes = chunk.requested != 0 ? chunk.requested : chunk.bytes;
    event.site = imported.site(chunk.operation);
    imported.add(event);
  }
  std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.address < b.address; });
  Event region;
  region.kind = Kind::kPoolGrew;
  region.device = device;
  for (std::size_t at = 0; at < chunks.size(); ++at) {
    region.bytes += chunks[at].bytes;
    const bool goes_on = at + 1 < chunks.size() && chunks[at].address + chunks[at].bytes == chunks[at + 1].address;
    if (goes_on && region.bytes < static_cast<std::uint64_t>(kMostCharge) / 2) continue;
    region.charged = static_cast<std::int64_t>(region.bytes);
    if (region.bytes != 0) imported.add(region);
    region.bytes = 0;
  }
  return imported.finish();
}

}  // namespace ration::trace
