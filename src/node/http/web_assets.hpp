// The files of the dashboard, built into the program (web/CMakeLists.txt, target ration_web_assets). If the dashboard
// was not built, there is one plain page that says how to build it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ration::node {

struct Asset {
  std::string_view path;          ///< path as requested: `/index.html`, `/app-0123456789.js`
  std::string_view content_type;  ///< includes the charset
  std::string_view etag;          ///< tag of the gzipped bytes, with its quotes
  std::span<const std::uint8_t> gzip;
  std::string_view text;  ///< for `/index.html` only, the text before gzip, in which `<!--SNAPSHOT-->` is replaced
  bool immutable;         ///< true if the name changes with the content, so that clients may cache the file for ever
};

/// Returns the files sorted by path, always with `/index.html`. Equal sources give equal bytes.
[[nodiscard]] std::span<const Asset> assets() noexcept;

}  // namespace ration::node
