// The file of a recording, packed: about two bytes an event, with an index and summaries, so that a reader finds a
// moment without reading what lies before it. docs/recording.md describes it byte by byte. Used by `ration run`, which
// packs the parts, and by everything that opens a recording.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/event.hpp"

namespace ration::trace {

/// What a block of events changes, known without reading it.
struct Summary {
  std::int64_t from = 0, to = 0;  ///< times of its first and its last event
  std::uint64_t events = 0;
  struct Row {
    std::uint16_t device = 0;
    Account account = Account::kDevice;
    std::int64_t before = 0;  ///< bytes held before the block
    std::int64_t peak = 0;    ///< the most within it
    std::int64_t after = 0;
  };
  std::vector<Row> rows;  ///< accounts that anything was held of so far
};

/// A recording whose blocks can be read by themselves.
class PackedRecording : public Recording {
 public:
  [[nodiscard]] virtual const std::vector<Summary>& blocks() const = 0;
  /// As read(), from block `first` on.
  virtual void read_from(std::size_t first, const std::function<bool(const Event&)>& take) const = 0;
};

/// Returns true if the file begins as a packed recording does.
[[nodiscard]] bool is_packed(const std::string& path);

/// Opens a packed recording. One that was cut off is read up to where it is whole, and is not `complete`. Fails with
/// E1811, or E1816 for a version that is not known.
[[nodiscard]] Result<std::unique_ptr<PackedRecording>> open_packed(const std::string& path);

/// Fails with E1815 if `path` is that of no file: of a folder, a device or a pipe, or `-`.
[[nodiscard]] Result<void> check_place(const std::string& path);

/// What was written.
struct Packed {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
};
/// Writes a recording to `path`, which keeps its old content until everything is written. Fails with E1815.
[[nodiscard]] Result<Packed> write_packed(const std::string& path, const Recording& recording);

}  // namespace ration::trace
