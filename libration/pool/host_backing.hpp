// Host memory in place of a device's, for tests and for programs on a machine without a device. A granule keeps its
// contents when it is mapped elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "pool/backing.hpp"

namespace ration::pool {

class HostBacking final : public Backing {
 public:
  /// Makes a backing that can give up to `capacity`.
  explicit HostBacking(Bytes capacity);
  ~HostBacking() override;

  Outcome reserve(Bytes size, std::uint64_t& base) override;
  Outcome create(Granule& out) override;
  void destroy(Granule granule) override;
  Outcome map(std::uint64_t address, const Granule* granules, std::size_t count) override;
  Outcome unmap(std::uint64_t address, Bytes size) override;
  Outcome order(Stream earlier, Stream later) override;
  Outcome finish() override;
  Bytes available() override;

 private:
  int file_;
  std::uint32_t capacity_, made_ = 0;  // granules
  std::vector<Granule> unused_;        // numbers of destroyed granules; a granule's number is its place in the file + 1
  std::uint64_t base_ = 0;
  Bytes reserved_;
};

}  // namespace ration::pool
