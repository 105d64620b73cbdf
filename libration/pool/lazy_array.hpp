// An array of zeros whose pages take host memory only once they are written. Used for the data that a pool keeps about
// each place of its address range, because a pool never uses most of these places.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace ration::pool {

template <typename Element>
class LazyArray {
 public:
  explicit LazyArray(std::size_t size) : size_(size) {
    void* memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    elements_ = static_cast<Element*>(memory);
  }
  ~LazyArray() { ::munmap(static_cast<void*>(elements_), bytes()); }
  LazyArray(const LazyArray&) = delete;
  LazyArray& operator=(const LazyArray&) = delete;

  [[nodiscard]] Element* data() const noexcept { return elements_; }
  [[nodiscard]] Element& operator[](std::size_t at) const noexcept { return elements_[at]; }

 private:
  [[nodiscard]] std::size_t bytes() const noexcept { return size_ * sizeof(Element); }

  std::size_t size_;
  Element* elements_ = nullptr;
};

}  // namespace ration::pool
