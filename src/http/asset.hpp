// Static content with a validator, kept compressed. Used for the dashboard's embedded files.
// Promises: a client that has the content gets 304 without it; one that does not take gzip gets it inflated.
#pragma once

#include <string>
#include <string_view>

#include "http/message.hpp"

namespace ration::http {

struct Asset {
  std::string content_type;
  std::string_view body;                   ///< must outlive the asset
  bool gzip = false;                       ///< `body` is a gzip file
  std::string cache_control = "no-cache";  ///< may be kept, must be asked for again
  std::string tag;                         ///< `"…"` with its quotes; empty: made from the body by make_asset()
};

/// Fills in `tag`.
[[nodiscard]] Asset make_asset(std::string content_type, std::string_view body, bool gzip);

/// Inflated content is never larger than this: 64 MiB.
inline constexpr std::size_t kMaxAsset = std::size_t{64} << 20;

/// 200, 304, 406 (E1520) or, where the gzip file is damaged, 500.
[[nodiscard]] Response serve(const Asset& asset, const Request& request);

}  // namespace ration::http
