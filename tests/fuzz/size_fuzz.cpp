// Sizes and durations: any text at all.
#include <cstdint>
#include <string_view>

#include "base/units.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ration;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Bytes total{std::uint64_t{16} << 30}, free{std::uint64_t{3} << 30};
  if (const auto parsed = parse_size(text, total, free)) {
    if (*parsed > kUnlimited) __builtin_trap();
    (void)format_size(*parsed);
    if (text.find_first_not_of("0123456789.") == std::string_view::npos)
      __builtin_trap();  // a bare number is never a size
  } else if (parsed.error().fix.empty()) {
    __builtin_trap();
  }
  if (const auto duration = parse_duration(text)) (void)format_duration(*duration);
  return 0;
}
