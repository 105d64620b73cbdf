#include "pool/host_backing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "base/system_calls.hpp"

namespace ration::pool {

HostBacking::HostBacking(Bytes capacity)
    : file_(memory_file("ration-pool")), capacity_(static_cast<std::uint32_t>(capacity.count() / kGranule.count())) {
  if (file_ < 0 || ::ftruncate(file_, static_cast<off_t>(capacity_ * kGranule.count())) != 0) throw std::bad_alloc();
}

HostBacking::~HostBacking() {
  if (base_ != 0) ::munmap(reinterpret_cast<void*>(base_), reserved_.count());
  ::close(file_);
}

Outcome HostBacking::reserve(Bytes size, std::uint64_t& base) {
  ++calls_;
  // One granule more lets the range begin at a multiple of a granule.
  reserved_ = size + kGranule;
  void* range = ::mmap(nullptr, reserved_.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) {
    last_error_ = errno;
    return Outcome::kOutOfMemory;
  }
  base_ = reinterpret_cast<std::uint64_t>(range);
  base = round_up(Bytes{base_}, kGranule).count();
  return Outcome::kOk;
}

Outcome HostBacking::create(Granule& out) {
  ++calls_;
  if (!unused_.empty()) {
    out = unused_.back();
    unused_.pop_back();
    return Outcome::kOk;
  }
  if (made_ == capacity_) return Outcome::kOutOfMemory;
  out = ++made_;
  return Outcome::kOk;
}

void HostBacking::destroy(Granule granule) {
  ++calls_;
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>((granule - 1) * kGranule.count()),
              static_cast<off_t>(kGranule.count()));
  unused_.push_back(granule);
}

Outcome HostBacking::map(std::uint64_t address, const Granule* granules, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    ++calls_;
    void* place = reinterpret_cast<void*>(address + i * kGranule.count());
    if (::mmap(place, kGranule.count(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
               static_cast<off_t>((granules[i] - 1) * kGranule.count())) != MAP_FAILED)
      continue;
    last_error_ = errno;
    (void)unmap(address, kGranule * i);
    return Outcome::kFailed;
  }
  return Outcome::kOk;
}

Outcome HostBacking::unmap(std::uint64_t address, Bytes size) {
  ++calls_;
  void* place = reinterpret_cast<void*>(address);
  if (size == Bytes{0}) return Outcome::kOk;
  if (::mmap(place, size.count(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
      MAP_FAILED)
    return Outcome::kOk;
  last_error_ = errno;
  return Outcome::kFailed;
}

// Does nothing: the host has no streams, so everything happens in order.
Outcome HostBacking::order(Stream, Stream) {
  ++calls_;
  return Outcome::kOk;
}
Outcome HostBacking::finish() {
  ++calls_;
  return Outcome::kOk;
}

Bytes HostBacking::available() { return kGranule * (capacity_ - made_ + unused_.size()); }

}  // namespace ration::pool
