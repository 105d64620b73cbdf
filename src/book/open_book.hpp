// A book that is mapped into this process, as the classes of the book share it: each of them is a view of one OpenBook,
// made when it is needed and gone before the Book is moved. Used by the book; everything else asks a Book for the view.
#pragma once

#include <cstdint>

#include "base/file.hpp"

namespace ration::book {

struct BookLayout;
struct SlotRecord;

/// The slot number of a process without a slot.
inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

struct OpenBook {
  BookLayout* layout = nullptr;
  SlotRecord* own = nullptr;  // the slot of this process
  std::uint32_t slot = kNoSlot;
  std::uint32_t account_count = 0;
  Mapping mapping;
  Mapping slot_lock;  // see processes.cpp
  char path[4096] = {};
  std::uint64_t inode = 0, device = 0;  // those of the file
};

}  // namespace ration::book
