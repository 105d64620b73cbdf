// The page of one recording, built into the program (web/CMakeLists.txt, target ration_recording_page): HTML with
// script and style inside, which asks nothing of anybody. Without a bundle it is a page that says how to build it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ration::trace {

struct GzippedPage {
  std::span<const std::uint8_t> gzip;
  std::size_t size = 0;  ///< bytes of the page
};

/// Returns the page, in which the document takes the place of `/*RECORDING*/`.
[[nodiscard]] GzippedPage recording_page() noexcept;

}  // namespace ration::trace
