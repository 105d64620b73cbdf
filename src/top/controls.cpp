#include "top/controls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/time.hpp"
#include "base/utf8.hpp"
#include "top/grid.hpp"

namespace ration::top {
namespace {

constexpr std::size_t kMaxInput = 300;

void say(View& view, std::string text, bool bad = false) {
  view.message = std::move(text);
  view.message_is_bad = bad;
}

void say(View& view, const Error& error) {
  say(view, error.id + " " + error.what + (error.fix.empty() ? "" : "  " + error.fix), true);
}

void move(View& view, std::int64_t by) {
  const auto rows = shown_rows(view);
  const Row* selected = selected_row(view, rows);
  if (selected == nullptr) return;
  const auto at = std::find(rows.begin(), rows.end(), selected) - rows.begin();
  const auto last = static_cast<std::int64_t>(rows.size()) - 1;
  view.selected = rows[static_cast<std::size_t>(std::clamp<std::int64_t>(at + by, 0, last))]->key();
}

/// Returns the selected row if it is governed; otherwise null, and shows a message for an ungoverned one.
const Row* governed_row(View& view) {
  const auto rows = shown_rows(view);
  const Row* row = selected_row(view, rows);
  if (row == nullptr) return nullptr;
  if (row->governed) return row;
  say(view, row->title() + " was started outside ration: it has no limit, and nothing more is known about it.", true);
  return nullptr;
}

Request about(const Row& row, Request::Kind kind) {
  Request request;
  request.kind = kind;
  request.workload = row.name;
  request.gpu = row.gpu;
  request.changes = row.limit_changes;
  return request;
}

std::optional<Request> ask_why(View& view) {
  const Row* row = governed_row(view);
  if (row == nullptr) return std::nullopt;
  if (row->last_denial.empty()) {
    say(view, row->title() + " has no denials.");
    return std::nullopt;
  }
  Request request = about(*row, Request::Kind::kWhy);
  request.value = row->last_denial;
  return request;
}

void ask_limit(View& view) {
  const Row* row = governed_row(view);
  if (row == nullptr) return;
  const auto& limit = row->configured_limit ? row->configured_limit : row->limit;
  view.prompt = {Prompt::Kind::kLimit,
                 fmt::format("limit of {} (uses {} of {}): ", row->title(), short_size(row->used, view.units),
                             short_size(limit, view.units)),
                 "", about(*row, Request::Kind::kSet)};
}

void scroll(View& view, const Key& key) {
  constexpr int kFar = std::numeric_limits<int>::max() / 2;
  int by = 0;
  if (key.kind == Key::Kind::kUp || key.letter == U'k') by = -1;
  if (key.kind == Key::Kind::kDown || key.letter == U'j') by = 1;
  if (key.kind == Key::Kind::kPageUp) by = -view.page_fitting;
  if (key.kind == Key::Kind::kPageDown || key.letter == U' ') by = view.page_fitting;
  if (key.kind == Key::Kind::kHome) by = -kFar;
  if (key.kind == Key::Kind::kEnd) by = kFar;
  const int most = std::max(0, view.page_lines - view.page_fitting);
  view.page->first = std::clamp(view.page->first + std::clamp(by, -kFar, kFar - view.page->first), 0, most);
}

Pressed press_on_page(View& view, const Key& key) {
  const bool back = key.kind == Key::Kind::kEscape || key.kind == Key::Kind::kEnter ||
                    key.kind == Key::Kind::kBackspace || key.letter == U'?' || key.letter == U'e' || key.letter == U'q';
  if (back)
    view.page.reset();
  else
    scroll(view, key);
  return {};
}

/// Acts on the text typed in the prompt. Returns the request that follows from it, if any.
std::optional<Request> finish(View& view) {
  Prompt prompt = std::move(*view.prompt);
  view.prompt.reset();
  switch (prompt.kind) {
    case Prompt::Kind::kFilter: {
      auto filter = Filter::parse(prompt.text);
      if (!filter) {
        say(view, filter.error());
        return std::nullopt;
      }
      view.filter = std::move(*filter);
      view.filter_text = prompt.text;
      return std::nullopt;
    }
    case Prompt::Kind::kSort: {
      auto order = Order::parse(prompt.text);
      if (!order)
        say(view, order.error());
      else
        view.order = std::move(*order);
      return std::nullopt;
    }
    case Prompt::Kind::kLimit:
      if (prompt.text.empty()) return std::nullopt;
      prompt.request.value = prompt.text;
      return prompt.request;
    case Prompt::Kind::kAgree:
      break;
  }
  if (const std::string agreed = in_ascii(prompt.text); agreed != "y" && agreed != "Y") {
    say(view, "nothing was changed.");
    return std::nullopt;
  }
  prompt.request.agreed = true;
  return prompt.request;
}

Pressed press_on_prompt(View& view, const Key& key) {
  std::string& text = view.prompt->text;
  switch (key.kind) {
    case Key::Kind::kEnter:
      return {false, finish(view)};
    case Key::Kind::kEscape:
      if (view.prompt->kind == Prompt::Kind::kAgree) say(view, "nothing was changed.");
      view.prompt.reset();
      break;
    case Key::Kind::kBackspace:
      if (!text.empty()) text = shortened(text, text.size() - 1);
      break;
    case Key::Kind::kLetter:
      if (key.letter == 0x15)  // as in a shell, Ctrl-U clears the text
        text.clear();
      else if (key.letter >= 0x20 && key.letter != 0x7f && text.size() < kMaxInput)
        text += to_utf8(key.letter);
      break;
    default:
      break;
  }
  return {};
}

Pressed press_letter(View& view, char32_t letter) {
  switch (letter) {
    case U'q':
      return {true, std::nullopt};
    case U'j':
      move(view, 1);
      break;
    case U'k':
      move(view, -1);
      break;
    case U'?':
      view.page = {Page::Kind::kHelp, "help", {}, 0};
      break;
    case U'e':
      view.page = {Page::Kind::kEvents, "events, newest first", {}, 0};
      break;
    case U'F':
      view.detail = Detail::kFull;
      break;
    case U'c':
      view.detail = Detail::kCompact;
      break;
    case U'/':
      view.prompt = {Prompt::Kind::kFilter, "filter: ", view.filter_text, {}};
      break;
    case U'o':
      view.prompt = {Prompt::Kind::kSort, "sort by: ", view.order.text(), {}};
      break;
    case U'w':
      return {false, ask_why(view)};
    case U's':
      if (!view.read_only) ask_limit(view);
      break;
    case U't':
      if (view.read_only) break;
      if (const Row* row = governed_row(view); row != nullptr) return {false, about(*row, Request::Kind::kTrim)};
      break;
    default:
      break;
  }
  if (view.read_only && (letter == U's' || letter == U't'))
    say(view,
        view.has_daemon ? "read-only: this user is not an operator, or --readonly was given."
                        : "read-only: no daemon runs.",
        true);
  return {};
}

std::string size_in(const View& view, const nlohmann::json& row, const char* field) {
  const auto bytes = bytes_in(row, field);
  return bytes ? format_size(*bytes, view.units) : "n/a";
}

void take_set(View& view, const Request& request, const nlohmann::json& data) {
  const auto changes = data.is_object() ? data.find("changes") : data.end();
  if (!data.is_object() || changes == data.end() || !changes->is_array() || changes->empty())
    return say(view, "the daemon's answer cannot be understood.", true);
  const nlohmann::json& first = changes->front();
  if (data.contains("agree")) {
    view.prompt = {Prompt::Kind::kAgree,
                   fmt::format("{} holds {}, more than {}: deny requests until it holds less? [y/N] ", request.workload,
                               size_in(view, first, "used_bytes"), size_in(view, first, "limit_bytes")),
                   "", request};
    return;
  }
  std::string text = fmt::format("{}: limit {} → {}.", request.workload, size_in(view, first, "old_limit_bytes"),
                                 size_in(view, first, "limit_bytes"));
  if (const auto consequences = data.find("consequences"); consequences != data.end() && consequences->is_array())
    for (const auto& consequence : *consequences) text += " " + text_in(consequence, "text");
  say(view, text);
}

void take_why(View& view, const Request& request, const nlohmann::json& data) {
  Page page{Page::Kind::kText, "why " + request.value, {}, 0};
  const auto time = parse_time(text_in(data, "time"));
  page.lines.push_back(fmt::format("DENIED   {}  {}/{}  {}  {}", time ? local_time(*time) : "n/a",
                                   text_in(data, "tenant"), text_in(data, "workload"),
                                   size_in(view, data, "requested_bytes"), text_in(data, "function")));
  const std::string because = text_in(data, "because");
  page.lines.push_back("because  " + (because.empty() ? text_in(data, "text") : because));
  if (const std::string other = text_in(data, "not_because"); !other.empty())
    page.lines.push_back("not because  " + other);
  if (const std::string fix = text_in(data, "fix"); !fix.empty()) page.lines.push_back("fix      " + fix);
  view.page = std::move(page);
}

/// Returns `of LIMIT` for pinned host memory, or a text that says why there is no limit to name.
std::string pinned_note(const View& view, const nlohmann::json& account) {
  if (!account.contains("host_used_bytes")) return "its book does not count pinned memory";
  return bytes_in(account, "host_limit_bytes") ? "of " + size_in(view, account, "host_limit_bytes") : "no host limit";
}

void take_explained(View& view, const Request& request, const nlohmann::json& data) {
  Page page{Page::Kind::kText, "where the memory of " + request.workload + " is", {}, 0};
  const auto rows = shown_rows(view);
  const Row* row = selected_row(view, rows);
  if (row != nullptr && row->name == request.workload) {
    page.lines.push_back(row->command);
    page.lines.push_back(fmt::format("tenant {}   user {}   {}   limit {}   configured {}   guarantee {}   peak {}",
                                     row->tenant, row->user, row->state, short_size(row->limit, view.units),
                                     short_size(row->configured_limit, view.units),
                                     short_size(row->guarantee, view.units), short_size(row->peak, view.units)));
    if (!row->held_back_by.empty()) page.lines.push_back("held back: " + row->held_back_by);
    if (!row->labels.empty()) page.lines.push_back("labels " + row->labels);
  }
  for (const auto& account : data.is_array() ? data : nlohmann::json::array()) {
    const auto gpu = number_in(account, "gpu");
    page.lines.emplace_back();
    page.lines.push_back(fmt::format("on GPU {}", gpu ? std::to_string(*gpu) : "n/a"));
    std::vector<std::array<std::string, 3>> parts;  // label, size, note
    const auto line = [&](auto... texts) { parts.push_back({texts...}); };
    if (account.is_object() && account.contains("rows") && account["rows"].is_array())
      for (const auto& part : account["rows"])
        line(text_in(part, "label"), size_in(view, part, "bytes"),
             text_in(part, part.contains("bytes_na") ? "bytes_na" : "source"));
    line("what the limit counts", size_in(view, account, "used_bytes"), "of " + size_in(view, account, "limit_bytes"));
    line("beside the GPU: pinned host memory", size_in(view, account, "host_used_bytes"), pinned_note(view, account));
    line("what the driver reports", size_in(view, account, "driver_bytes"), text_in(account, "driver_bytes_na"));
    int width = 0;
    for (const auto& [label, size, note] : parts) width = std::max(width, width_of(label));
    for (const auto& [label, size, note] : parts)
      page.lines.push_back(fmt::format("  {}{:{}}{:>10}  {}", label, "", width - width_of(label) + 1, size, note));
  }
  if (row != nullptr && row->name == request.workload && !row->processes.empty()) {
    page.lines.emplace_back();
    for (const Process& process : row->processes)
      page.lines.push_back(fmt::format("  pid {:<8} {:>9}  {:<9} {}", process.pid.value_or(0),
                                       process.used ? format_size(*process.used, view.units) : "n/a", process.state,
                                       process.command));
  }
  view.page = std::move(page);
}

/// Returns the key with a full-width letter or sign, as input methods write it, as that of ASCII.
Key in_ascii(Key key) {
  if (key.kind != Key::Kind::kLetter || key.letter > 0x10ffff) return key;
  const std::string plain = ration::in_ascii(to_utf8(key.letter));
  if (plain.size() == 1) key.letter = static_cast<unsigned char>(plain.front());
  return key;
}

}  // namespace

Pressed press(View& view, const Key& typed) {
  if (typed.kind != Key::Kind::kOther) view.message.clear();
  if (view.prompt) return press_on_prompt(view, typed);
  const Key key = in_ascii(typed);
  if (view.page) return press_on_page(view, key);
  const auto page = static_cast<std::int64_t>(view.fitting);
  constexpr std::int64_t kFar = std::numeric_limits<std::int32_t>::max();
  switch (key.kind) {
    case Key::Kind::kUp:
      move(view, -1);
      break;
    case Key::Kind::kDown:
      move(view, 1);
      break;
    case Key::Kind::kPageUp:
      move(view, -page);
      break;
    case Key::Kind::kPageDown:
      move(view, page);
      break;
    case Key::Kind::kHome:
      move(view, -kFar);
      break;
    case Key::Kind::kEnd:
      move(view, kFar);
      break;
    case Key::Kind::kEscape:
      view.filter = {};
      view.filter_text.clear();
      break;
    case Key::Kind::kEnter:
      if (const Row* row = governed_row(view); row != nullptr) return {false, about(*row, Request::Kind::kExplain)};
      break;
    case Key::Kind::kLetter:
      return press_letter(view, key.letter);
    default:
      break;
  }
  return {};
}

void take_answer(View& view, const Request& request, const Result<nlohmann::json>& answer) {
  if (!answer) return say(view, answer.error());
  switch (request.kind) {
    case Request::Kind::kSet:
      return take_set(view, request, *answer);
    case Request::Kind::kWhy:
      return take_why(view, request, *answer);
    case Request::Kind::kExplain:
      return take_explained(view, request, *answer);
    case Request::Kind::kTrim:
      break;
  }
  const std::string text = text_in(*answer, "text");
  say(view, text.empty() ? request.workload + " was asked to give memory back." : text);
}

}  // namespace ration::top
