#include "base/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace ration {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 16> kUnits{{{"b", 1.0},
                                                                      {"k", 1024.0},
                                                                      {"kib", 1024.0},
                                                                      {"kb", 1e3},
                                                                      {"m", 1048576.0},
                                                                      {"mib", 1048576.0},
                                                                      {"mb", 1e6},
                                                                      {"g", 1073741824.0},
                                                                      {"gib", 1073741824.0},
                                                                      {"gb", 1e9},
                                                                      {"t", 1099511627776.0},
                                                                      {"tib", 1099511627776.0},
                                                                      {"tb", 1e12},
                                                                      {"bytes", 1.0},
                                                                      {"byte", 1.0},
                                                                      {"%", 0.0}}};

tl::unexpected<Error> no_size(std::string_view text) {
  return fail("E1102", fmt::format("'{}' is not a size.", text), "Sizes look like 4GiB, 512MiB, 50%, max-1GiB.", 2);
}

}  // namespace

Result<Bytes> parse_size(std::string_view text, Bytes device_total) {
  if (text == "unlimited") return kUnlimited;
  if (text == "max") return device_total;
  if (text.substr(0, 4) == "max-") {
    const Result<Bytes> less = parse_size(text.substr(4), device_total);
    if (!less) return less;
    if (*less >= device_total) return no_size(text);
    return device_total - *less;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(number) || number < 0) return no_size(text);
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(),
                 [](char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter; });
  if (unit.empty()) {
    if (number > 0 && number <= 1 && text.find('.') != std::string_view::npos) {
      return fail("E1103", fmt::format("{} is ambiguous here.", text),
                  fmt::format("Write {:g}% (of the GPU) or 512MiB.", number * 100), 2);
    }
    return fail("E1101", fmt::format("'{}' has no unit.", text),
                fmt::format("Write {}MiB (TensorFlow's unit), 4GiB, or 50%.", text), 2);
  }
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = unit == "%" ? number / 100 * static_cast<double>(device_total.count()) : number * factor;
    if (unit == "%" && number > 100) return no_size(text);
    if (bytes >= static_cast<double>(kUnlimited.count())) return no_size(text);
    return Bytes{static_cast<std::uint64_t>(bytes)};
  }
  return no_size(text);
}

std::string format_size(Bytes size) {
  if (size >= kUnlimited) return "unlimited";
  constexpr std::array<const char*, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(size.count());
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kNames.size()) value /= 1024, ++unit;
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, kNames[unit]);
}

}  // namespace ration
