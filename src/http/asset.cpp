#include "http/asset.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "http/grammar.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

std::optional<std::string> inflated(std::string_view file) {
  z_stream stream{};
  // 16 is added to the window to expect a gzip header (zlib.h).
  if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) return {};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
  stream.avail_in = static_cast<uInt>(file.size());
  std::string result;
  std::array<char, 64 * 1024> piece{};
  int outcome = Z_OK;
  while (outcome == Z_OK && result.size() <= kMaxAsset) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = piece.size();
    outcome = inflate(&stream, Z_NO_FLUSH);
    result.append(piece.data(), piece.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (outcome != Z_STREAM_END || result.size() > kMaxAsset) return {};
  return result;
}

}  // namespace

Asset make_asset(std::string content_type, std::string_view body, bool gzip) {
  // An FNV-1a hash, 64 bits, which distinguishes two builds but does not withstand attackers.
  std::uint64_t sum = 14695981039346656037u;
  for (const char letter : body) sum = (sum ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  return {.content_type = std::move(content_type), .body = body, .gzip = gzip, .tag = fmt::format("\"{:016x}\"", sum)};
}

Response serve(const Asset& asset, const Request& request) {
  // The tag is weak, since it stands for both the compressed and the inflated form.
  Response response{.content_type = asset.content_type,
                    .headers = {{"Cache-Control", asset.cache_control}, {"ETag", "W/" + asset.tag}}};
  if (asset.gzip) response.headers.emplace_back("Vary", "Accept-Encoding");
  if (tag_matches(request.headers.get("if-none-match"), asset.tag)) {
    response.status = 304;
    return response;
  }
  const std::string_view accepted = request.headers.get("accept-encoding");
  if (asset.gzip && accepts_gzip(accepted)) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = asset.body;
    return response;
  }
  if (!accepts_identity(accepted))
    return problem(
        {"E1520", fmt::format("'Accept-Encoding: {}' excludes gzip, the only encoding of this file", accepted),
         "Send Accept-Encoding: gzip", 2},
        406);
  if (!asset.gzip) {
    response.body = asset.body;
    return response;
  }
  auto body = inflated(asset.body);
  if (!body) return problem({"E1500", "the embedded file " + request.path + " is damaged", "ration doctor", 1});
  response.body = std::move(*body);
  return response;
}

}  // namespace ration::http
