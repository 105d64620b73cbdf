// The buffers for records, and the clock of the records. The program provides buffers on request; they are filled one
// after the other and returned when they are full or the program flushes. Every call may come from any thread. The
// program's functions are called without a lock of this library.
#pragma once

#include <atomic>

#include "cupti_records.hpp"

namespace ration::standin::cupti {

using RequestBuffer = void (*)(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using CompleteBuffer = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                std::size_t used);
using Clock = std::uint64_t (*)();

void set_buffer_functions(RequestBuffer request, CompleteBuffer complete);
/// Returns the buffers with records to the program.
void flush();
/// Returns the number of records that found no room since the last call.
std::size_t take_dropped();

extern std::atomic<bool> wanted[static_cast<std::size_t>(Kind::kCount)];
[[nodiscard]] inline bool wants(Kind kind) { return wanted[static_cast<std::size_t>(kind)]; }

void write(const void* record, std::size_t size);
/// Writes a record. Does nothing if records of its kind are not enabled.
template <typename Record>
void write(const Record& record) {
  if (wants(record.kind)) write(&record, sizeof record);
}

/// Returns the time of the clock that set_clock() set, or nanoseconds since 1970 if none is set.
[[nodiscard]] std::uint64_t now();
/// Sets the program's clock; null means this library's own.
void set_clock(Clock clock);
/// Returns the clock's value at `moment`, a time of the steady clock in nanoseconds that is close to now.
[[nodiscard]] std::uint64_t at(std::int64_t moment);

}  // namespace ration::standin::cupti
