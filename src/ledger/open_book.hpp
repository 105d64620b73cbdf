// A book that is mapped into this process, as the classes of the ledger share it: each of them is a view of one
// OpenBook, made where it is needed and gone before the Book is moved. Used by the ledger; everyone else asks a Book
// for the view.
#pragma once

#include <cstdint>

#include "base/file.hpp"

namespace ration::ledger {

struct BookLayout;
struct SlotRecord;

/// A slot's number, where this process has no slot.
inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

struct OpenBook {
  BookLayout* layout = nullptr;
  SlotRecord* own = nullptr;  // the slot of this process
  std::uint32_t slot = kNoSlot;
  std::uint32_t account_count = 0;
  Mapping mapping;
  Mapping slot_lock;  // see processes.cpp
  char path[4096] = {};
  std::uint64_t inode = 0, device = 0;  // of the file
};

}  // namespace ration::ledger
