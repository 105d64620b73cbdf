// The facts about each kind of event: its name, which exports write and imports read, and the use of the bytes that it
// charges. Used by everything that describes a recording.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trace/event.hpp"

namespace ration::trace {

/// The use of charged bytes.
enum class Use : std::uint8_t { kBlocks, kPools, kVirtual, kContexts, kCode, kManaged, kShared, kHost, kBefore };
inline constexpr std::size_t kUses = 9;
[[nodiscard]] const char* name_of(Use use);

/// A part of the held memory, as exports distinguish it. Only blocks have addresses of their own; every other part has
/// one holding per process and place.
enum class Part : std::uint8_t { kBlock, kContext, kPool, kGraph, kCode, kRest };
inline constexpr std::size_t kParts = 6;

[[nodiscard]] const char* name_of(Kind kind);
/// Returns the name of the function with which a program asked how much memory there is.
[[nodiscard]] const char* name_of(Asked function);
[[nodiscard]] std::optional<Kind> kind_named(std::string_view name);

/// Returns the use of the bytes that an event charges or refunds, by its account, process and kind.
[[nodiscard]] Use use_of(const Event& event, const Header& header);
/// Returns the part to which an event of this kind charges its bytes.
[[nodiscard]] Part part_of(Kind kind);

}  // namespace ration::trace
