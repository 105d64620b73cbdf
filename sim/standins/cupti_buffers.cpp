#include "cupti_buffers.hpp"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

namespace ration::standin::cupti {

std::atomic<bool> wanted[static_cast<std::size_t>(Kind::kCount)];

namespace {

struct Buffer {
  std::uint8_t* start = nullptr;
  std::size_t size = 0, used = 0, records = 0, most_records = 0;
  [[nodiscard]] bool has_room(std::size_t bytes) const {
    return start != nullptr && size - used >= bytes && (most_records == 0 || records < most_records);
  }
};

std::mutex mutex;  // for `current`
Buffer current;
std::atomic<RequestBuffer> request{nullptr};
std::atomic<CompleteBuffer> complete{nullptr};
std::atomic<std::size_t> dropped{0};

std::int64_t read(clockid_t id) {
  timespec time{};
  ::clock_gettime(id, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::atomic<Clock> clock{nullptr};

/// The clock's value at a moment of the steady clock.
struct Reading {
  std::int64_t steady = 0;
  std::uint64_t clock = 0;
};
std::mutex reading_mutex;
Reading began;  // the reading when the clock was set

/// Reads both clocks. Returns the best of several tries, since an interruption may fall between the two reads.
Reading read_both() {
  Reading best;
  std::int64_t apart = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 5; ++i) {
    const std::int64_t before = read(CLOCK_MONOTONIC);
    const std::uint64_t said = now();
    const std::int64_t took = read(CLOCK_MONOTONIC) - before;
    if (took < apart) best = {before + took / 2, said};
    apart = std::min(apart, took);
  }
  return best;
}

void hand_back(const Buffer& buffer) {
  if (buffer.start != nullptr) complete.load()(nullptr, 0, buffer.start, buffer.size, buffer.used);
}

/// Appends a record to the current buffer. If the buffer has no room, moves the buffer to `full` and returns false.
bool append(const void* record, std::size_t size, Buffer& full) {
  const std::lock_guard guard(mutex);
  if (!current.has_room(size)) {
    full = current;
    current = {};
    return false;
  }
  std::memcpy(current.start + current.used, record, size);
  current.used += size;
  ++current.records;
  return true;
}

}  // namespace

void set_buffer_functions(RequestBuffer request_buffer, CompleteBuffer complete_buffer) {
  flush();
  request = request_buffer;
  complete = complete_buffer;
}

void flush() {
  Buffer filled;
  {
    const std::lock_guard guard(mutex);
    std::swap(filled, current);
  }
  hand_back(filled);
}

std::size_t take_dropped() { return dropped.exchange(0); }

void write(const void* record, std::size_t size) {
  Buffer full;
  while (!append(record, size, full)) {
    hand_back(full);
    Buffer fresh;
    if (request != nullptr) request.load()(&fresh.start, &fresh.size, &fresh.most_records);
    if (fresh.start == nullptr || fresh.size < size) {
      hand_back(fresh);
      ++dropped;
      return;
    }
    full = {};
    {
      const std::lock_guard guard(mutex);
      if (current.start == nullptr) std::swap(fresh, current);
    }
    hand_back(fresh);  // another thread was faster
  }
}

std::uint64_t now() {
  const Clock program = clock;
  return program != nullptr ? program() : static_cast<std::uint64_t>(read(CLOCK_REALTIME));
}

void set_clock(Clock program) {
  const std::lock_guard guard(reading_mutex);
  clock = program;
  began = read_both();
}

std::uint64_t at(std::int64_t moment) {
  const std::lock_guard guard(reading_mutex);
  const Reading here = read_both();
  // The program's clock need not count nanoseconds.
  const double pace =
      clock != nullptr && here.steady > began.steady
          ? static_cast<double>(here.clock - began.clock) / static_cast<double>(here.steady - began.steady)
          : 1;
  return here.clock +
         static_cast<std::uint64_t>(static_cast<std::int64_t>(static_cast<double>(moment - here.steady) * pace));
}

}  // namespace ration::standin::cupti
