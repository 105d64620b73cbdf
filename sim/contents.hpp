// The contents of device memory, by the addresses of this process. A granule has an address in its device's window,
// and further ones wherever the process maps it. Only granules that were written take memory of the host.
#pragma once

#include <cstdint>

namespace ration::sim {

/// Maps `count` granules of `device`, from `first` on, at `address`. The address is aligned to granules and lies in a
/// range that the caller has reserved. Returns false if the system has no room for the mapping. Thread-safe, as are the
/// functions below.
[[nodiscard]] bool map_granules(std::uint64_t address, int device, std::uint32_t first, std::uint32_t count);
/// Ends the mappings that begin in a range. The range stays reserved.
void unmap_granules(std::uint64_t address, std::uint64_t size);

/// Backs the bytes with memory of the host before they are written, so that the writing cannot fail. Returns false if
/// the host has none left.
[[nodiscard]] bool touch(std::uint64_t address, std::uint64_t size);
/// Fills a range with zeros. Granules that were never written are zeros already, and get no memory of the host.
void fill_with_zeros(std::uint64_t address, std::uint64_t size);
/// Copies bytes between ranges that do not overlap. Zeros that come from granules that were never written get no memory
/// of the host. Returns false if the host has no memory for the others.
[[nodiscard]] bool copy_contents(std::uint64_t target, std::uint64_t source, std::uint64_t size);

}  // namespace ration::sim
