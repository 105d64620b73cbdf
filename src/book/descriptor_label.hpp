// Labels on open file descriptions: they tell for which piece of device memory a descriptor stands, and whether any
// copy of it is still open anywhere. Used by the book (shared_memory.cpp) and the guard's hooks.
//
// The driver exports memory as a newly opened descriptor of its control device. All of them share one inode, so neither
// number nor inode tells two apart. A label is a lock that belongs to the open file description (F_OFD_SETLK,
// fcntl(2)): it starts at the memory's number and is as many bytes long as the memory has granules. It goes wherever
// the descriptor goes (dup, fork, SCM_RIGHTS, in flight on a socket) and ends with its last copy, and every process
// that has opened the same inode can query it. Promises: no allocation; the descriptor itself is not changed otherwise.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace ration::book {

/// Numbers are drawn below this; the simulated driver marks its own descriptors above it.
inline constexpr std::uint64_t kLabelEnd = std::uint64_t{1} << 61;

/// Draws a random number, unique on this machine in all probability.
[[nodiscard]] std::uint64_t draw_number() noexcept;

struct Label {
  std::uint64_t number = 0;  ///< 0: no label
  Bytes size;
};

/// Returns false if locks do not work on this descriptor.
bool set_label(int descriptor, const Label& label) noexcept;
/// Returns the label of this open file description, whichever process set it.
[[nodiscard]] Label read_label(int descriptor) noexcept;

/// The file whose descriptors are exported.
struct ControlFile {
  std::uint64_t device = 0, inode = 0;
};
bool control_file_of(int descriptor, ControlFile& out) noexcept;

/// Searches for labels on one file, which is opened when it is first needed.
class LabelSearch {
 public:
  explicit LabelSearch(const char* path) noexcept : path_(path) {}
  /// Returns true if the file exists and is the one that those descriptors refer to.
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
