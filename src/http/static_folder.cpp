#include "http/static_folder.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/whole_file.hpp"
#include "http/asset.hpp"
#include "http/problem.hpp"

namespace ration::http {
namespace {

namespace fs = std::filesystem;

std::string content_type_of(const std::string& path) {
  static const std::map<std::string, std::string> kTypes = {{".html", "text/html; charset=utf-8"},
                                                            {".css", "text/css; charset=utf-8"},
                                                            {".js", "text/javascript; charset=utf-8"},
                                                            {".json", "application/json"},
                                                            {".png", "image/png"},
                                                            {".svg", "image/svg+xml"}};
  const auto found = kTypes.find(fs::path(path).extension().string());
  return found == kTypes.end() ? "application/octet-stream" : found->second;
}

}  // namespace

StaticFolder::StaticFolder(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (fs::is_regular_file(each->symlink_status(error)))
      files_[each->path().lexically_relative(folder).generic_string()] = each->path().string();
}

Response StaticFolder::serve(const std::string& path, const Request& request) const {
  const auto found = files_.find(path);
  if (found == files_.end())
    return problem({"E1511", fmt::format("there is no page '{}'", path), "GET /docs/index.html", 2}, 404);
  const auto body = read_whole(found->second);
  if (!body) return problem({"E1500", found->second + " cannot be read", "Install ration again.", 1});
  return http::serve(make_asset(content_type_of(path), *body, false), request);
}

}  // namespace ration::http
