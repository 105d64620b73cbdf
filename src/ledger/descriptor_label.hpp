// Labels on open file descriptions: which piece of device memory a descriptor stands for, and whether any copy of it is
// still open anywhere. Used by the book (shared_memory.cpp) and the shim's hooks.
//
// The driver exports memory as a descriptor of its control device, newly opened: all of them are one inode, and neither
// the number nor the inode tells two apart. A label is a lock that belongs to the open file description (F_OFD_SETLK,
// fcntl(2)): it starts at the memory's number and is as many bytes long as the memory has granules. It goes wherever
// the descriptor goes (dup, fork, SCM_RIGHTS, in flight on a socket) and ends with its last copy, and anybody who has
// opened the same inode can ask for it.
// Promises: no allocation; the descriptor itself is not changed otherwise.
#pragma once

#include <cstdint>

#include "base/bytes.hpp"
#include "base/file.hpp"

namespace ration::ledger {

/// Numbers are drawn below this: the simulated driver marks its own descriptors above it.
inline constexpr std::uint64_t kLabelEnd = std::uint64_t{1} << 61;

/// A number that nothing on this machine has, by chance.
[[nodiscard]] std::uint64_t draw_number() noexcept;

struct Label {
  std::uint64_t number = 0;  ///< 0: it has none
  Bytes size;
};

/// False: locks do not work on this descriptor.
bool set_label(int descriptor, const Label& label) noexcept;
/// The label of this open file description, whoever set it.
[[nodiscard]] Label read_label(int descriptor) noexcept;

/// The file that descriptors are of.
struct ControlFile {
  std::uint64_t device = 0, inode = 0;
};
bool control_file_of(int descriptor, ControlFile& out) noexcept;

/// Asks for labels on one file. It is opened when it is first needed.
class LabelSearch {
 public:
  explicit LabelSearch(const char* path) noexcept : path_(path) {}
  /// Whether the file is there, and is the one that those descriptors are of.
  [[nodiscard]] bool can_tell(const ControlFile& of) noexcept;
  /// Whether a descriptor with that label is open somewhere. True, too, where that cannot be told.
  [[nodiscard]] bool lives(std::uint64_t number, const ControlFile& of) noexcept;

 private:
  const char* path_;
  FileDescriptor file_;
  ControlFile opened_;
  bool tried_ = false;
};

}  // namespace ration::ledger
