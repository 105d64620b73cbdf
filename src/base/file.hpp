// Owners of a file descriptor and of a shared mapping. Used by the book, the guard and the command line. Promises: each
// is closed exactly once; nothing throws or allocates.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace ration {

class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

class Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(void* address, std::size_t size) noexcept : address_(address), size_(size) {}
  Mapping(Mapping&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping() {
    if (address_ != nullptr) ::munmap(address_, size_);
  }
  [[nodiscard]] void* get() const noexcept { return address_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Releases the mapping without unmapping it, for state that must outlive every destructor.
  void* release() noexcept { return std::exchange(address_, nullptr); }

 private:
  void* address_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace ration
