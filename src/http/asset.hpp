// Static content with a validator, stored compressed. Used for the dashboard's embedded files. Promises: a client that
// has the content gets 304 without a body; a client that does not accept gzip gets the content inflated.
#pragma once

#include <string>
#include <string_view>

#include "http/message.hpp"

namespace ration::http {

struct Asset {
  std::string content_type;
  std::string_view body;                   ///< must outlive the asset
  bool gzip = false;                       ///< true if `body` is a gzip file
  std::string cache_control = "no-cache";  ///< lets a client cache the content but revalidate it
  std::string tag;                         ///< includes its quotes, `"…"`; make_asset() makes it from the body
};

/// Makes the asset with its `tag`.
[[nodiscard]] Asset make_asset(std::string content_type, std::string_view body, bool gzip);

/// The maximum size of inflated content: 64 MiB.
inline constexpr std::size_t kMaxAsset = std::size_t{64} << 20;

/// Answers with 200, 304 or 406 (E1520), or with 500 if the gzip file is damaged.
[[nodiscard]] Response serve(const Asset& asset, const Request& request);

}  // namespace ration::http
