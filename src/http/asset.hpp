// Static content with a validator, stored compressed. Used for the dashboard's embedded files. Promises: a client that
// has the content gets 304 without it; one that does not accept gzip gets it inflated.
#pragma once

#include <string>
#include <string_view>

#include "http/message.hpp"

namespace ration::http {

struct Asset {
  std::string content_type;
  std::string_view body;                   ///< must outlive the asset
  bool gzip = false;                       ///< `body` is a gzip file
  std::string cache_control = "no-cache";  ///< may be cached, but must be revalidated
  std::string tag;                         ///< `"…"` with its quotes; empty: made from the body by make_asset()
};

/// Makes the asset and its `tag`.
[[nodiscard]] Asset make_asset(std::string content_type, std::string_view body, bool gzip);

/// Bounds inflated content: 64 MiB.
inline constexpr std::size_t kMaxAsset = std::size_t{64} << 20;

/// Returns 200, 304, 406 (E1520) or, if the gzip file is damaged, 500.
[[nodiscard]] Response serve(const Asset& asset, const Request& request);

}  // namespace ration::http
