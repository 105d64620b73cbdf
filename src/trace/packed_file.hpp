// The packed file of a recording: about two bytes per event, with an index and summaries, so that a reader finds a
// moment without reading the events before it. docs/recording.md describes the file byte by byte. Used by `ration run`,
// which packs the parts, and by everything that opens a recording.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// The changes that a block of events makes, known without reading the block.
struct Summary {
  std::int64_t from = 0, to = 0;  ///< times of its first and its last event
  std::uint64_t events = 0;
  struct Row {
    std::uint16_t device = 0;
    Account account = Account::kDevice;
    std::int64_t before = 0;  ///< bytes held before the block
    std::int64_t peak = 0;    ///< most bytes held within the block
    std::int64_t after = 0;
  };
  std::vector<Row> rows;  ///< one for each account that was charged so far
};

/// A recording that can be read from the beginning of any of its blocks.
class PackedRecording : public Recording {
 public:
  [[nodiscard]] virtual const std::vector<Summary>& blocks() const = 0;
  /// Like read(), but begins with block `first`.
  virtual void read_from(std::size_t first, const std::function<bool(const Event&)>& take) const = 0;
};

/// Returns true if the file begins as a packed recording does.
[[nodiscard]] bool is_packed(const std::string& path);

/// Opens a packed recording. A file that was cut off is read up to the cut, and is not `complete`. Fails with E1816 if
/// another version of ration wrote the file, and with E1811 if the file cannot be read or is damaged.
[[nodiscard]] Result<std::unique_ptr<PackedRecording>> open_packed(const std::string& path);

/// Fails with E1815 if `path` is empty or `-`, or leads to a folder, a device or a pipe.
[[nodiscard]] Result<void> check_place(const std::string& path);

/// The amounts that were written.
struct Packed {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
};
/// Writes a recording to `path`. A file there keeps its old content until everything is written. Fails with E1815.
[[nodiscard]] Result<Packed> write_packed(const std::string& path, const Recording& recording);

}  // namespace ration::trace
