// The files of the dashboard, built into the program (web/CMakeLists.txt makes them, target ration_web_assets). Used by
// the HTTP side of the node daemon, which serves them and adds the headers. Where the bundle could not be built there
// is one plain page that says how to; the program works without the rest.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ration::node {

struct Asset {
  std::string_view path;          ///< as asked for: `/index.html`, `/app-0123456789.js`
  std::string_view content_type;  ///< with its charset
  std::string_view etag;          ///< with its quotes, of the gzipped bytes
  std::span<const std::uint8_t> gzip;
  std::string_view text;  ///< the bytes before gzip, of `/index.html` only: there `<!--SNAPSHOT-->` is replaced
  bool immutable;         ///< the name changes with the content: may be cached for ever
};

/// Sorted by path; `/index.html` is always among them. The same sources give the same bytes.
[[nodiscard]] std::span<const Asset> assets() noexcept;

}  // namespace ration::node
