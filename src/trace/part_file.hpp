// One part of a recording as the guard writes it (guard/recorder/record_layout.hpp): its chunks and their records. Used
// where parts become events. Another process may still be writing the file; only what it had written when the file was
// opened is read. A damaged file is read up to the damage.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "guard/recorder/record_layout.hpp"

namespace ration::trace {

/// The home of a thread (ChunkHeader in record_layout.hpp) as it was when the file was opened.
struct Home {
  std::uint64_t copied = 0;  ///< number of its copies that count
  std::vector<char> chunk;   ///< bytes up to the first record without a time; empty if the copies have everything
};

/// The mapped file of one process, and the things that the numbers in it stand for.
struct PartFile {
  Mapping mapping;
  std::map<std::uint64_t, Home> homes;  ///< by offset
  std::uint32_t process = 0;            ///< index in Header::processes
  std::vector<std::uint32_t> sites;
  std::uint16_t devices[guard::kPartAccounts] = {};
  std::uint64_t ended = 0;  ///< end of the process in clock ticks; 0: unknown

  [[nodiscard]] const guard::PartHeader& header() const {
    return *static_cast<const guard::PartHeader*>(mapping.get());
  }
  [[nodiscard]] const char* bytes() const { return static_cast<const char*>(mapping.get()); }
};

/// The header of a chunk, and its records.
struct Chunk {
  const guard::ChunkHeader* header;
  std::size_t size;  ///< in bytes, with the header
  bool is_mapped;    ///< true if it lies in the mapped file, false if in Home

  [[nodiscard]] const guard::RawRecord* begin() const { return reinterpret_cast<const guard::RawRecord*>(header + 1); }
  [[nodiscard]] const guard::RawRecord* end() const {
    return begin() + (size - sizeof *header) / sizeof(guard::RawRecord);
  }
  /// Releases the memory of a mapped chunk after it was read, so that a reader needs little memory.
  void drop() const {
    if (is_mapped) ::madvise(const_cast<guard::ChunkHeader*>(header), size, MADV_DONTNEED);
  }
};

/// Opens a part, and copies what the homes of its threads contain now. The mapping is null if the part cannot be
/// opened.
[[nodiscard]] PartFile open_part(const std::string& path);

/// Calls `visit(chunk)` for each home and each copy that counts. A home has the records that its thread had written
/// when the file was opened.
template <typename Visit>
void each_chunk(const PartFile& part, Visit&& visit) {
  for (std::size_t at = guard::kChunkSize; at + guard::kChunkSize <= part.mapping.size(); at += guard::kChunkSize) {
    const Chunk chunk{reinterpret_cast<const guard::ChunkHeader*>(part.bytes() + at), guard::kChunkSize, true};
    if (const auto home = part.homes.find(at); home != part.homes.end()) {
      const std::vector<char>& kept = home->second.chunk;
      if (!kept.empty()) visit(Chunk{reinterpret_cast<const guard::ChunkHeader*>(kept.data()), kept.size(), false});
    } else if (chunk.header->magic == guard::kChunkMagic) {
      const auto of = part.homes.find(chunk.header->home);
      if (of != part.homes.end() && chunk.header->fill.load() < of->second.copied) visit(chunk);
    }
    chunk.drop();
  }
}

/// Calls `visit(record, extra)` for each complete event of a chunk and `text(record, bytes)` for each text.
template <typename Visit, typename Text>
void each_record(const Chunk& chunk, Visit&& visit, Text&& text) {
  const guard::RawRecord *record = chunk.begin(), *end = chunk.end();
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
