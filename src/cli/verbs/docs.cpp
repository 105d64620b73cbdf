// `ration docs`: prints where a page of the manual lies, as a file for a browser, or the text of the page. Every
// package has these pages; a running daemon serves them, too.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string_view>

#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "cli/session/session.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace fs = std::filesystem;

namespace {

/// Names under which people look for a page.
const std::map<std::string_view, std::string_view> kOtherNames{
    {"oom", "out-of-memory"}, {"torch", "pytorch"}, {"tf", "tensorflow"},     {"k8s", "scenarios/kubernetes"},
    {"api", "http-api"},      {"http", "http-api"}, {"daemon", "node"},       {"docker", "scenarios/containers"},
    {"admin", "node"},        {"sim", "simulator"}, {"prometheus", "metrics"}};

/// Prints the page, or where it lies.
Result<int> show(const fs::path& page, bool text) {
  if (!text) {
    fmt::print("{}\n", page.string());
    return 0;
  }
  const auto content = read_whole(fs::path(page).replace_extension(".txt"));
  if (!content)
    return fail("E1406", fmt::format("the text of {} is not there.", page.string()), "Install ration again.");
  fmt::print("{}", *content);
  return 0;
}

}  // namespace

Result<int> docs(const std::string& page, bool text) {
  const fs::path folder = fs::path(share_folder()) / "doc/ration/site";
  std::map<std::string, fs::path> pages;  // by name: `tensorflow`, `scenarios/ray`, `zh/tensorflow`
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    if (each->path().extension() == ".html")
      pages[each->path().lexically_relative(folder).replace_extension().string()] = each->path();
  if (!pages.contains("index"))
    return fail("E1406", fmt::format("the pages of the manual are not in {}.", folder.string()),
                "ration help   lists what is explained without them");
  const auto other = kOtherNames.find(page);
  const std::string name(page.empty() ? "index" : other == kOtherNames.end() ? page : other->second);
  for (const std::string& candidate : {name, "scenarios/" + name, name + "/index"})
    if (const auto found = pages.find(candidate); found != pages.end()) return show(found->second, text);
  std::vector<std::string> names;
  for (const auto& [known, path] : pages) names.push_back(known);
  return fail("E1422", fmt::format("there is no page '{}'.{}", name, suggestion(name, names)),
              "ration docs   prints the page that leads to all others", 3);
}

}  // namespace ration::cli
