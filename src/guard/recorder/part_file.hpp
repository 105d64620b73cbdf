#pragma once
// The file of this process in a recording, a part (record_layout.hpp), and the homes of threads in it. Used by the
// recorder alone.
#include <atomic>
#include <climits>
#include <cstdint>

#include "guard/hooks/table.hpp"
#include "guard/recorder/record_layout.hpp"
#include "guard/recorder/recorder.hpp"

namespace ration::guard {

struct Part {
  PartHeader* header = nullptr;        // null while nothing is recorded
  bool has_file = false;               // false: `header` is in the common file and only counts lost events
  std::atomic<std::uint32_t> life{1};  // changes when no thread has a home yet: in a child, or for another recording
  char path[PATH_MAX];
  SpinLock growing;  // held while space is reserved
};
extern Part part;

/// Makes the file of this process, or maps the file in which all processes without a part of their own count the events
/// that they lose. Returns 0, or the errno value if no file could be made.
[[nodiscard]] int make_part(const RecordedDevices& devices, bool of_nvml) noexcept;

/// Empties a full home by appending a copy of it to the file, or maps a new home if `home` is null. Returns the home;
/// `error` is 0, or the errno value of a failure.
[[nodiscard]] char* empty_home(char* home, int& error) noexcept;

}  // namespace ration::guard
