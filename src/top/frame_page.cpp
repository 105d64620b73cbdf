// Draws the pages over the table: help, events, answers.
#include <algorithm>

#include "top/frame_parts.hpp"

namespace ration::top {
namespace {

std::vector<std::string> help_lines(const View& view) {
  std::vector<std::string> lines{"arrows j k PgUp PgDn Home End   choose a workload",
                                 "Enter   where its memory is          w   why it was denied last",
                                 "e       events, newest first         /   filter        o   sort",
                                 "F       full      c   compact        q   quit          ?   this page"};
  if (view.read_only)
    lines.emplace_back("Read-only: users who are not operators can lower their own limits with ration set.");
  else
    lines.emplace_back("s       set its limit                t   ask it to give memory back");
  const std::vector<std::string> rest{
      "",
      "FILTER  used>4GiB & denied>0    tenant~=nlp    governed==no    idle>30m    !(gpu=0 | gpu=1)",
      "        = != > >= < <=, ~= contains, !~ does not; a bare word is searched in every field",
      "        " + field_names(),
      "SORT    -used,name: the largest first, then by name; the same fields",
      "",
      "BARS    one fill pattern for each tenant, the same on every device and in the line below:",
      "        the tenant, what it uses, and its own limit if it has one",
      "        ░ ungoverned: in no book   ≡ the driver's own   + other tenants   · free",
      "        ╌ free, but kept for a guarantee, a slice or by keep_free   ┊ where the guarantees end",
      "CHARTS  the last ten minutes of each GPU by tenant, ░ outside of workloads; c hides them",
      "HISTORY ten minutes, the newest at the right; full height is the limit, without a limit the GPU",
      "STATE   FULL: less than 2 MiB below its limit   shrinking: above a lowered limit",
      "        waiting: a request waits for memory   held back: the limit in force is lower (Enter)",
      "n/a     not known               times are local"};
  lines.insert(lines.end(), rest.begin(), rest.end());
  return lines;
}

std::vector<std::pair<std::string, Style>> lines_of(const View& view, int width) {
  std::vector<std::pair<std::string, Style>> lines;
  const auto add = [&](const std::string& text, Style style) {
    for (const std::string& part : wrapped(text, width)) lines.emplace_back(part, style);
  };
  switch (view.page->kind) {
    case Page::Kind::kHelp:
      for (const std::string& line : help_lines(view)) add(line, kPlain);
      break;
    case Page::Kind::kEvents:
      for (auto event = view.events.rbegin(); event != view.events.rend(); ++event)
        add(event_line(*event), style_of(*event));
      if (view.events.empty())
        add(view.has_daemon ? "no events yet." : "only a daemon records events, and none runs.", kDim);
      break;
    case Page::Kind::kText:
      for (const std::string& line : view.page->lines) add(line, kPlain);
      break;
  }
  return lines;
}

}  // namespace

void draw_page(Grid& grid, int row, int end, View& view) {
  grid.put(row, 0, view.page->title);
  grid.restyle(row++, {Colour::kDefault, true, false, true});
  const auto lines = lines_of(view, grid.columns());
  view.page_lines = static_cast<int>(lines.size());
  view.page_fitting = std::max(1, end - row);
  view.page->first = std::clamp(view.page->first, 0, std::max(0, view.page_lines - view.page_fitting));
  for (auto i = static_cast<std::size_t>(view.page->first); i < lines.size() && row < end; ++i, ++row)
    grid.put(row, 0, lines[i].first, lines[i].second);
}

}  // namespace ration::top
