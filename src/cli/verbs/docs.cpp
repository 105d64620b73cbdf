// `ration docs`: prints where a page of the manual lies, as a file for a browser. Every package has these pages; a
// running daemon serves them, too.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "base/strings.hpp"
#include "cli/session/session.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace fs = std::filesystem;

Result<int> docs(const std::string& page) {
  const fs::path folder = fs::path(share_folder()) / "doc/ration/site";
  std::map<std::string, fs::path> pages;  // by name: `tensorflow`, `scenarios/ray`, `zh/tensorflow`
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (each->path().extension() == ".html")
      pages[each->path().lexically_relative(folder).replace_extension().string()] = each->path();
  if (!pages.contains("index"))
    return fail("E1406", fmt::format("the pages of the manual are not in {}.", folder.string()),
                "ration help   lists what is explained without them");
  const std::string name = page.empty() ? "index" : page;
  for (const std::string& candidate : {name, "scenarios/" + name, name + "/index"})
    if (const auto found = pages.find(candidate); found != pages.end()) {
      fmt::print("{}\n", found->second.string());
      return 0;
    }
  std::vector<std::string> names;
  for (const auto& [known, path] : pages) names.push_back(known);
  return fail("E1422", fmt::format("there is no page '{}'.{}", name, suggestion(name, names)),
              "ration docs   prints the page that leads to all others", 3);
}

}  // namespace ration::cli
