// The page of one recording, built into the program (web/CMakeLists.txt, target ration_recording_page): HTML with
// script and style inside, which loads nothing from elsewhere. Without a bundle, the page only says how to build one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ration::trace {

struct GzippedPage {
  std::span<const std::uint8_t> gzip;
  std::size_t size = 0;  ///< bytes of the page
};

/// Returns the page. The caller replaces the text `/*RECORDING*/` in it by the document.
[[nodiscard]] GzippedPage recording_page() noexcept;

}  // namespace ration::trace
