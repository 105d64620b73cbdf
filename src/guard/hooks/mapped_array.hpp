// An array that grows in memory from mmap, because the program's malloc may be replaced, or may itself call the driver.
// Used by the hooks for data that lives as long as one call.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

namespace ration::guard {

/// An array in memory from mmap. Not thread-safe. New elements are zero.
template <typename Value>
class MappedArray {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  MappedArray() noexcept = default;
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;
  ~MappedArray() {
    if (data_ != nullptr) ::munmap(data_, capacity_ * sizeof(Value));
  }

  /// Changes the number of elements. Returns false, and changes nothing, if there is not enough memory.
  [[nodiscard]] bool resize(std::size_t size) noexcept {
    if (size > capacity_ && !grow(size)) return false;
    size_ = size;
    return true;
  }
  [[nodiscard]] bool push_back(const Value& value) noexcept {
    if (size_ == capacity_ && !grow(capacity_ == 0 ? kFirstBytes / sizeof(Value) + 1 : 2 * capacity_)) return false;
    data_[size_++] = value;
    return true;
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Value* data() noexcept { return data_; }
  [[nodiscard]] Value& operator[](std::size_t index) noexcept { return data_[index]; }
  [[nodiscard]] const Value& operator[](std::size_t index) const noexcept { return data_[index]; }
  [[nodiscard]] Value* begin() noexcept { return data_; }
  [[nodiscard]] Value* end() noexcept { return data_ + size_; }
  [[nodiscard]] const Value* begin() const noexcept { return data_; }
  [[nodiscard]] const Value* end() const noexcept { return data_ + size_; }

 private:
  static constexpr std::size_t kFirstBytes = 4096;

  bool grow(std::size_t wider) noexcept {
    void* memory = data_ == nullptr ? ::mmap(nullptr, wider * sizeof(Value), PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                    : ::mremap(data_, capacity_ * sizeof(Value), wider * sizeof(Value), MREMAP_MAYMOVE);
    if (memory == MAP_FAILED) return false;
    data_ = static_cast<Value*>(memory);
    capacity_ = wider;
    return true;
  }

  Value* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace ration::guard
