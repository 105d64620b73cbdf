// The configuration file: any bytes at all.
#include <cstdint>
#include <string_view>

#include "policy/settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto settings = ration::policy::parse_settings({reinterpret_cast<const char*>(data), size}, "fuzz.toml");
  if (!settings && (settings.error().id != "E1601" || settings.error().fix.empty())) __builtin_trap();
  return 0;
}
