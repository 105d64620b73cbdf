// A hash that is the same in every build of ration, for names that one program makes and another finds. std::hash
// differs between C++ standard libraries.
#pragma once

#include <cstdint>
#include <string_view>

namespace ration {

/// Returns the FNV-1a hash, 64 bits. It protects against accidents only: two texts with the same hash are easy to
/// construct.
[[nodiscard]] constexpr std::uint64_t stable_hash(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

}  // namespace ration
