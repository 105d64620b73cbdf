// `ration docs`: prints where a page of the manual lies, as a file for a browser, or the text of the page, or a list of
// all pages. Every package has these pages; a running daemon serves them, too.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.hpp"
#include "base/whole_file.hpp"
#include "cli/session/session.hpp"
#include "cli/verbs/verbs.hpp"

namespace ration::cli {
namespace fs = std::filesystem;

namespace {

/// Other names under which people look for a page, in lower case.
const std::map<std::string_view, std::string_view> kOtherNames{
    {"oom", "out-of-memory"}, {"torch", "pytorch"},     {"tf", "tensorflow"},      {"k8s", "scenarios/kubernetes"},
    {"api", "http-api"},      {"http", "http-api"},     {"daemon", "node"},        {"docker", "scenarios/containers"},
    {"admin", "node"},        {"sim", "simulator"},     {"prometheus", "metrics"}, {"readme", "index"},
    {"ration", "index"},      {"readme.zh", "zh/index"}};

struct Page {
  std::string name;  // `tensorflow`, `scenarios/ray`, `zh/tensorflow`
  fs::path text;     // the HTML lies beside it
};

/// Returns the pages by their names in lower case.
std::map<std::string, Page> pages_in(const fs::path& folder) {
  std::map<std::string, Page> pages;
  std::error_code error;
  for (fs::recursive_directory_iterator each(folder, error), end; !error && each != end; each.increment(error)) {
    if (each->path().extension() != ".txt") continue;
    const std::string name = each->path().lexically_relative(folder).replace_extension().string();
    pages[lower(name)] = {name, each->path()};
  }
  return pages;
}

/// Returns the typed name or path in lower case, without its ending.
std::string without_ending(const std::string& typed) {
  std::string name = fs::path(lower(typed)).lexically_normal();
  for (const std::string_view ending : {".md", ".html", ".txt", "/readme"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  return name;
}

/// Returns the page, or null. People also type the paths that pages and the README show, such as
/// `share/doc/ration/docs/tensorflow.md` and `libration/python/README.md`: leading folders are left out until a page
/// has that name.
const Page* find_page(std::string name, const std::map<std::string, Page>& pages) {
  for (;;) {
    const auto other = kOtherNames.find(name);
    const std::string meant(other == kOtherNames.end() ? name : other->second);
    for (const std::string& each : {meant, "scenarios/" + meant, meant + "/index"})
      if (const auto found = pages.find(each); found != pages.end()) return &found->second;
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) return nullptr;
    name.erase(0, slash + 1);
  }
}

std::string_view without_folders(std::string_view name) { return name.substr(name.rfind('/') + 1); }

/// Returns a sentence with up to four pages whose names are like the typed one or contain it; nothing if there are
/// none.
std::string nearest_pages(std::string_view typed, const std::map<std::string, Page>& pages) {
  constexpr std::size_t kMost = 4;
  constexpr std::size_t kLongest = 64;  // no typo is that long
  if (typed.size() > kLongest) return {};
  std::multimap<std::size_t, std::string> near;
  for (const auto& [key, page] : pages) {
    const std::size_t letters = distance(typed, without_folders(key));
    if (letters <= std::max<std::size_t>(1, typed.size() / 3) ||
        (typed.size() >= 3 && key.find(typed) != std::string::npos))
      near.emplace(letters, page.name);
  }
  std::vector<std::string> names;
  for (const auto& [letters, name] : near)
    if (names.size() < kMost) names.push_back(name);
  return names.empty() ? "" : fmt::format(" The nearest: {}.", fmt::join(names, ", "));
}

/// Prints each page with its title, which is the first line of its text.
Result<int> list(const std::map<std::string, Page>& pages) {
  std::size_t widest = 0;
  for (const auto& [key, page] : pages) widest = std::max(widest, page.name.size());
  for (const auto& [key, page] : pages) {
    const std::string text = read_whole(page.text).value_or("");
    fmt::print("{:<{}}  {}\n", page.name, widest, text.substr(0, text.find('\n')));
  }
  return 0;
}

/// Prints the page, or where it lies.
Result<int> show(const Page& page, bool text) {
  if (!text) {
    fmt::print("{}\n", fs::path(page.text).replace_extension(".html").string());
    std::fflush(stdout);
    if (::isatty(STDOUT_FILENO) != 0) fmt::print(stderr, "on this terminal: ration docs --text {}\n", page.name);
    return 0;
  }
  const auto content = read_whole(page.text);
  if (!content) return fail("E1406", fmt::format("{} cannot be read.", page.text.string()), "Install ration again.");
  fmt::print("{}", *content);
  return 0;
}

}  // namespace

Result<int> docs(const DocsOptions& options) {
  const fs::path folder = fs::path(share_folder()) / "doc/ration/site";
  const auto pages = pages_in(folder);
  if (!pages.contains("index"))
    return fail("E1406", fmt::format("the pages of the manual are not in {}.", folder.string()),
                "ration help   lists what is explained without them");
  if (options.list) return list(pages);
  const std::string typed = options.page.empty() ? "index" : fmt::to_string(fmt::join(options.page, " "));
  std::string name;
  for (const char between : {'/', '-'}) {  // `zh tensorflow`, `out of memory`
    name = typed;
    std::replace(name.begin(), name.end(), ' ', between);
    name = without_ending(name);
    const Page* page = find_page(name, pages);
    if (page == nullptr) continue;
    if (name.rfind("zh/", 0) == 0 && page->name.rfind("zh/", 0) != 0)
      fmt::print(stderr, "there is no Chinese page of that name (没有此中文页面); this is '{}' in English\n",
                 page->name);
    return show(*page, options.text);
  }
  return fail("E1422", fmt::format("there is no page '{}'.{}", typed, nearest_pages(without_folders(name), pages)),
              "ration docs --list   lists all pages", 3);
}

}  // namespace ration::cli
