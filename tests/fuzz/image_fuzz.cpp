// Any bytes as an image of device code: the reader stays within them, and tells no less than the loaded sections take.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "driver/code_image.hpp"

using namespace ration;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto read = [&](std::uint64_t at, void* out, std::size_t count) {
    if (!driver::image::within(at, count, size)) return false;
    std::memcpy(out, bytes + at, count);
    return true;
  };
  const driver::CodeImage image = driver::code_image(read, 0, size, false, 75);
  if (image.size > kUnlimited) std::abort();
  if (image.telling != driver::Telling::kSize || !image.readable) return 0;
  Bytes told, sum;
  const auto add = [&](const Elf64_Shdr& section, std::uint64_t place) {
    if (place == driver::image::kNoEnd) return;
    if (section.sh_addralign > 1 && place < kUnlimited.count() && place % section.sh_addralign != 0) std::abort();
    sum += std::min(Bytes{section.sh_size}, kUnlimited - std::min(sum, kUnlimited));
  };
  if (driver::visit_sections(read, image.start, size, told, add) != driver::Telling::kSize ||
      told < std::min(sum, kUnlimited))
    std::abort();
  return 0;
}
