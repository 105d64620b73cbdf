// Labels on open file descriptions. A label tells which piece of device memory a descriptor stands for, and whether any
// copy of the descriptor is still open. Used by the book (shared_memory.cpp) and the guard's hooks.
//
// The driver exports memory as a newly opened descriptor of its control device. All such descriptors share one inode,
// so neither their numbers nor the inode tells two of them apart. A label is a lock that belongs to the open file
// description (F_OFD_SETLK, fcntl(2)): it starts at the memory's number and is as many bytes long as the memory has
// granules. The label goes wherever the descriptor goes (dup, fork, SCM_RIGHTS, in flight on a socket) and ends with
// the descriptor's last copy. Every process that has opened the same inode can query the label. Promises: no
// allocation; the descriptor itself is not changed otherwise.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace ration::book {

/// The bound below which numbers are drawn; the simulated driver marks its own descriptors above it.
inline constexpr std::uint64_t kLabelEnd = std::uint64_t{1} << 61;

/// Draws a random number, unique on this machine in all probability.
[[nodiscard]] std::uint64_t draw_number() noexcept;

struct Label {
  std::uint64_t number = 0;  ///< 0 if there is no label
  Bytes size;
};

/// Labels the open file description. Returns false if locks do not work on it.
bool set_label(int descriptor, const Label& label) noexcept;
/// Returns the label of this open file description, whichever process set it.
[[nodiscard]] Label read_label(int descriptor) noexcept;

/// The driver's file whose descriptors are exported.
struct ControlFile {
  std::uint64_t device = 0, inode = 0;
};
bool control_file_of(int descriptor, ControlFile& out) noexcept;

/// A search for labels on one file. The file is opened when it is first needed.
class LabelSearch {
 public:
  explicit LabelSearch(const char* path) noexcept : path_(path) {}
  /// Returns true if the file exists and is the control file `of`.
  [[nodiscard]] bool can_tell(const ControlFile& of) noexcept;
  /// Returns true if a descriptor with that label is open somewhere, or if that cannot be determined.
  [[nodiscard]] bool lives(std::uint64_t number, const ControlFile& of) noexcept;

 private:
  const char* path_;
  FileDescriptor file_;
  ControlFile opened_;
  bool tried_ = false;
};

}  // namespace ration::book
