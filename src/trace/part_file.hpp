// One part of a recording as the guard writes it (guard/recorder/record_layout.hpp): its chunks and their records. Used
// where parts become events. Another process may still write the file; a damaged one ends where it is damaged.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "guard/recorder/record_layout.hpp"

namespace ration::trace {

/// The file of one process, mapped, and what its numbers stand for.
struct PartFile {
  Mapping mapping;
  std::uint32_t process = 0;  ///< index in Header::processes
  std::vector<std::uint32_t> sites;
  std::uint16_t devices[guard::kPartAccounts] = {};
  std::uint64_t ended = 0;  ///< ticks when the process was gone; 0: not known

  [[nodiscard]] const guard::PartHeader& header() const {
    return *static_cast<const guard::PartHeader*>(mapping.get());
  }
  [[nodiscard]] const char* bytes() const { return static_cast<const char*>(mapping.get()); }
  /// Returns the memory of a chunk that was read to the system, so that a reader stays small.
  static void drop(const guard::ChunkHeader& chunk) {
    ::madvise(const_cast<guard::ChunkHeader*>(&chunk), guard::kChunkSize, MADV_DONTNEED);
  }
};

/// Calls `visit(chunk)` for each chunk that a thread has begun.
template <typename Visit>
void each_chunk(const PartFile& part, Visit&& visit) {
  for (std::size_t at = guard::kChunkSize; at + guard::kChunkSize <= part.mapping.size(); at += guard::kChunkSize) {
    const auto* chunk = reinterpret_cast<const guard::ChunkHeader*>(part.bytes() + at);
    if (chunk->magic == guard::kChunkMagic) visit(*chunk);
    PartFile::drop(*chunk);
  }
}

/// Calls `visit(record, extra)` for each complete event of a chunk and `text(record, bytes)` for each text.
template <typename Visit, typename Text>
void each_record(const guard::ChunkHeader& chunk, Visit&& visit, Text&& text) {
  const auto* record = reinterpret_cast<const guard::RawRecord*>(&chunk + 1);
  const auto* end =
      reinterpret_cast<const guard::RawRecord*>(reinterpret_cast<const char*>(&chunk) + guard::kChunkSize);
  while (record < end && record->ticks.load(std::memory_order_acquire) != 0) {
    const std::uint64_t what = record->what;
    if ((what & 0xff) == guard::kTextRecord) {
      const std::uint64_t length = what >> 16;
      const std::uint64_t records = (length + sizeof(guard::RawRecord) - 1) / sizeof(guard::RawRecord);
      if (records >= static_cast<std::uint64_t>(end - record)) return;  // damaged
      text(*record, std::string_view(reinterpret_cast<const char*>(record + 1), length));
      record += records + 1;
      continue;
    }
    const bool more = (what >> 8 & guard::kPlaceMore) != 0;
    if (more && record + 1 == end) return;
    visit(*record, more ? record + 1 : nullptr);
    record += more ? 2 : 1;
  }
}

}  // namespace ration::trace
