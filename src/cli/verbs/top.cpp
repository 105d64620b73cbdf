// `ration top`: shows the node live in the terminal, or prints one frame as text.
#include <fmt/format.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "cli/verbs/top_feed.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/user_names.hpp"
#include "top/frame.hpp"
#include "top/screen.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::int64_t seconds_now() { return static_cast<std::int64_t>(std::time(nullptr)); }

/// Returns true if input and output are a terminal that can be drawn on.
bool interactive() { return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && variable("TERM") != "dumb"; }

bool wants_colour(const Session& session) {
  if (session.colour != "auto") return session.colour == "always";
  return variable("NO_COLOR").empty() && (!variable("CLICOLOR_FORCE").empty() || interactive());
}

int columns_as_text() {
  const int given = std::atoi(variable("COLUMNS").c_str());
  if (given > 0) return std::min(given, 1000);
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void take_past(top::View& view, Past past) {
  for (top::Event& event : past.events) top::take_event(view, std::move(event));
  for (const json& series : past.series) view.history.fill(series, view.model, view.now);
}

void call_source(top::View& view, bool daemon, bool is_operator, const TopOptions& options) {
  view.has_daemon = daemon;
  view.source = daemon ? "daemon" : "no daemon: own books";
  view.read_only = options.read_only || !daemon || !is_operator;
}

Result<top::View> first_view(const Session& session, const TopOptions& options, const TopStart& first) {
  top::View view;
  view.host = machine::host_name();
  view.units = session.display_units();
  if (!options.filter.empty()) {
    RATION_TRY(auto filter, top::Filter::parse(options.filter));
    view.filter = std::move(filter);
    view.filter_text = options.filter;
  }
  if (!options.sort.empty()) {
    RATION_TRY(auto order, top::Order::parse(options.sort));
    view.order = std::move(order);
  }
  call_source(view, first.daemon, first.is_operator, options);
  view.notes = first.notes;
  top::take_snapshot(view, top::read_snapshot(first.snapshot), seconds_now());
  return view;
}

void take(top::View& view, Feed::News& news, const TopOptions& options) {
  if (auto* model = std::get_if<top::Model>(&news)) return top::take_snapshot(view, std::move(*model), seconds_now());
  if (auto* event = std::get_if<top::Event>(&news)) return top::take_event(view, std::move(*event));
  if (auto* past = std::get_if<Past>(&news)) return take_past(view, std::move(*past));
  if (auto* lost = std::get_if<Feed::Lost>(&news)) view.lost = lost->why;
  if (auto* found = std::get_if<Feed::Found>(&news)) call_source(view, true, found->is_operator, options);
  if (auto* notes = std::get_if<Feed::Notes>(&news)) view.notes = std::move(notes->lines);
  if (auto* answer = std::get_if<Feed::Answer>(&news)) top::take_answer(view, answer->request, answer->answer);
}

Result<int> live(const Session& session, const TopOptions& options, const TopStart& first, top::View view, bool utf8) {
  RATION_TRY(auto opened, top::Screen::open(wants_colour(session)));
  auto screen = std::move(opened);
  const auto show = [&] { screen->show(top::draw(view, screen->columns(), screen->rows(), utf8)); };
  show();
  Feed feed(session, first);
  for (bool quit = false; !quit && screen->ended_by() == 0;) {
    screen->wait(feed.descriptor(), 1000);
    view.now = seconds_now();
    for (Feed::News& news : feed.take()) take(view, news, options);
    while (const auto key = screen->key()) {
      top::Pressed pressed = top::press(view, *key);
      if (pressed.request) feed.ask(std::move(*pressed.request));
      quit = quit || pressed.quit;
    }
    show();
  }
  const int signal = screen->ended_by();
  screen.reset();  // restores the terminal before the wait for the daemon
  if (signal != 0) top::end_by(signal);
  return 0;
}

}  // namespace

Result<int> top(const Session& given, const TopOptions& options) {
  const bool utf8 = !options.ascii && std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
  Session session = given;
  RATION_TRY(const auto first, begin_top(session));
  if (session.format() == Format::kJson) {
    json more = json::object();
    if (first.daemon) more["source"] = "daemon";
    json data = first.snapshot;
    if (data.contains("warnings")) {
      more["warnings"] = data["warnings"];
      data.erase("warnings");
    }
    session.print_json("top", data, more);
    return 0;
  }
  RATION_TRY(auto view, first_view(session, options, first));
  if (!options.once && interactive()) return live(session, options, first, std::move(view), utf8);
  view.once = true;
  take_past(view, look_back(session, view.model));
  fmt::print("{}", top::draw(view, columns_as_text(), top::needed_rows(view), utf8).text(wants_colour(session)));
  return 0;
}

}  // namespace ration::cli
