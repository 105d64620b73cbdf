#include "trace/part_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>

#include "base/whole_file.hpp"

namespace ration::trace {
namespace {

using guard::ChunkHeader;
using guard::kChunkSize;
using guard::RawRecord;

Mapping map_whole(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(guard::kPartHeaderSize)) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* place = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  return place == MAP_FAILED ? Mapping{} : Mapping{place, size};
}

/// Returns the bytes of a chunk up to its first record without a time. While this function copies, the thread may
/// replace its last record by another one (end_range()). So only the bytes before the first difference between two
/// copies count.
std::vector<char> written_bytes(const ChunkHeader& header) {
  const auto copy = [&] {
    const auto* place = reinterpret_cast<const char*>(&header);
    std::vector<char> bytes(place, place + kChunkSize);
    std::atomic_thread_fence(std::memory_order_acquire);
    return bytes;
  };
  const std::vector<char> first = copy();
  std::vector<char> bytes = copy();
  const auto differs =
      std::mismatch(first.begin() + sizeof(ChunkHeader), first.end(), bytes.begin() + sizeof(ChunkHeader)).second;
  const Chunk whole{reinterpret_cast<const ChunkHeader*>(bytes.data()),
                    static_cast<std::size_t>(differs - bytes.begin()) / sizeof(RawRecord) * sizeof(RawRecord), false};
  const RawRecord* end = whole.begin();
  each_record(
      whole, [&](const RawRecord& record, const RawRecord* extra) { end = (extra != nullptr ? extra : &record) + 1; },
      [&](const RawRecord&, std::string_view text) {
        end = reinterpret_cast<const RawRecord*>(text.data()) + (text.size() + sizeof *end - 1) / sizeof *end;
      });
  bytes.resize(static_cast<std::size_t>(reinterpret_cast<const char*>(end) - bytes.data()));
  return bytes;
}

/// Copies a home so that the copy shows one moment, even if the home's thread is writing to it.
Home keep_home(const ChunkHeader& header) {
  constexpr int kAttempts = 1000;  // many, since a busy thread fills its home within microseconds
  Home home;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    home.copied = header.copied.load(std::memory_order_acquire);
    const std::uint64_t fill = header.fill.load(std::memory_order_acquire);
    home.chunk = fill < home.copied ? std::vector<char>{} : written_bytes(header);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (header.copied.load(std::memory_order_relaxed) == home.copied) break;
  }
  return home;
}

}  // namespace

PartFile open_part(const std::string& path) {
  PartFile part;
  const auto file = open_regular(path);
  if (!file) return part;
  part.mapping = map_whole(*file);
  for (std::size_t at = kChunkSize; at + kChunkSize <= part.mapping.size(); at += kChunkSize) {
    const auto* header = reinterpret_cast<const ChunkHeader*>(part.bytes() + at);
    if (header->magic == guard::kChunkMagic && header->home == at) part.homes.emplace(at, keep_home(*header));
  }
  // The copies that count now may lie beyond the end that the file had when it was mapped.
  if (!part.homes.empty()) part.mapping = map_whole(*file);
  return part;
}

}  // namespace ration::trace
