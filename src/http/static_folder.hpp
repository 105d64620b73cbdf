// A folder of files as pages: those that are there when it is opened, and no others. Used for the documentation.
// Promise: no path of a request leads out of the folder.
#pragma once

#include <map>
#include <string>

#include "http/message.hpp"

namespace ration::http {

class StaticFolder {
 public:
  /// A folder that is not there has no files.
  explicit StaticFolder(const std::string& folder);

  [[nodiscard]] bool empty() const noexcept { return files_.empty(); }
  /// `path`: of a file in the folder, `scenarios/ray.html`. 404 (E1511) where there is none. Reads the file.
  [[nodiscard]] Response serve(const std::string& path, const Request& request) const;

 private:
  std::map<std::string, std::string> files_;  // where each is
};

}  // namespace ration::http
