#include "contents.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "managed.hpp"
#include "node.hpp"

namespace ration::sim {
namespace {

/// A granule of a device.
struct Granule {
  int device = 0;
  std::uint32_t number = 0;
};

/// Granules that are mapped side by side outside their device's window.
struct View {
  Granule first;
  std::uint32_t count = 0;
};

// Never destroyed: other threads run while a program ends.
std::map<std::uint64_t, View>& views = *new std::map<std::uint64_t, View>;  // by address
std::shared_mutex& views_mutex = *new std::shared_mutex;

/// Returns the granule at an address, or nothing if no memory of a device is there.
std::optional<Granule> granule_at(std::uint64_t address) {
  const Node& node = *Node::get();
  for (int device = 0; device < static_cast<int>(node.models().size()); ++device) {
    const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(node.window(device));
    if (offset >> 21 < node.places(device)) return Granule{device, static_cast<std::uint32_t>(offset >> 21)};
  }
  const std::shared_lock guard(views_mutex);
  auto next = views.upper_bound(address);
  if (next == views.begin()) return std::nullopt;
  const auto& [start, view] = *--next;
  const std::uint64_t index = (address - start) >> 21;
  if (index >= view.count) return std::nullopt;
  return Granule{view.first.device, view.first.number + static_cast<std::uint32_t>(index)};
}

/// Returns true if all bytes of the granule at an address are zero, because it was never written.
bool was_never_written(std::uint64_t address) {
  const auto granule = granule_at(address);
  return granule && !Node::get()->is_touched(granule->device, granule->number);
}

/// Calls `visit(address, size)` for each granule's part of a range, until `visit` returns false.
template <typename Visit>
bool each_granule(std::uint64_t address, std::uint64_t size, Visit&& visit) {
  for (const std::uint64_t end = address + size; address < end;) {
    const std::uint64_t next = std::min(end, ((address >> 21) + 1) << 21);
    if (!visit(address, next - address)) return false;
    address = next;
  }
  return true;
}

}  // namespace

bool map_granules(std::uint64_t address, int device, std::uint32_t first, std::uint32_t count) {
  const std::unique_lock guard(views_mutex);
  if (::mmap(reinterpret_cast<void*>(address), std::uint64_t{count} << 21, PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_FIXED, Node::get()->memory_file(device), off_t{first} << 21) == MAP_FAILED)
    return false;
  views[address] = {{device, first}, count};
  return true;
}

void unmap_granules(std::uint64_t address, std::uint64_t size) {
  const std::unique_lock guard(views_mutex);
  views.erase(views.lower_bound(address), views.lower_bound(address + size));
  ::mmap(reinterpret_cast<void*>(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1,
         0);
}

bool touch(std::uint64_t address, std::uint64_t size) {
  touch_managed(address, size);
  return each_granule(address, size, [](std::uint64_t part, std::uint64_t) {
    const auto granule = granule_at(part);
    return !granule || Node::get()->touch(granule->device, granule->number);
  });
}

void fill_with_zeros(std::uint64_t address, std::uint64_t size) {
  touch_managed(address, size);
  each_granule(address, size, [](std::uint64_t part, std::uint64_t bytes) {
    if (!was_never_written(part)) std::memset(reinterpret_cast<void*>(part), 0, bytes);
    return true;
  });
}

bool copy_contents(std::uint64_t target, std::uint64_t source, std::uint64_t size) {
  return each_granule(source, size, [&](std::uint64_t part, std::uint64_t bytes) {
    const std::uint64_t to = target + (part - source);
    if (was_never_written(part)) {
      fill_with_zeros(to, bytes);
      return true;
    }
    if (!touch(to, bytes)) return false;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(part), bytes);
    return true;
  });
}

}  // namespace ration::sim
