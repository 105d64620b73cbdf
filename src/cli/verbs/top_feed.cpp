#include "cli/verbs/top_feed.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/command_json.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/other_nodes.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

constexpr int kLookEvery = 1000;  // milliseconds

void signal_on(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

Result<json> set_limit(NodeAccess& node, const top::Request& request) {
  const std::string path = "/api/v1/workloads/" + percent_encoded(request.workload);
  json body{{"limit", request.value}};
  if (request.gpu) body["gpu"] = std::to_string(*request.gpu);
  http::ExtraHeaders headers;
  if (request.changes) headers.emplace_back("If-Match", fmt::format("\"{}\"", *request.changes));
  if (!request.agreed) {
    auto would_be = node.patch(path + "?dry_run=1", body, headers);
    if (!would_be) return would_be;
    for (const json& row : would_be->value("changes", json::array())) {
      const auto limit = top::number_in(row, "limit_bytes"), old = top::number_in(row, "old_limit_bytes");
      if (!row.value("shrinking", false) || !limit || !old || *limit >= *old) continue;
      (*would_be)["agree"] = true;
      return would_be;
    }
  }
  return node.patch(path, body, headers);
}

Result<json> answer_to(const Session& session, const top::Request& request, int stop) {
  using Kind = top::Request::Kind;
  const std::string path = "/api/v1/workloads/" + percent_encoded(request.workload);
  if (request.kind == Kind::kTrim) {  // only a daemon can trim
    RATION_TRY(auto daemon, NodeClient::require(session));
    daemon.interrupted_by(stop);
    return daemon.post(path + "/trim", json::object());
  }
  RATION_TRY(const auto node, NodeAccess::open(session));
  node->interrupted_by(stop);
  if (request.kind == Kind::kSet) return set_limit(*node, request);
  return node->get(request.kind == Kind::kWhy ? "/api/v1/denials/" + percent_encoded(request.value)
                                              : path + "/explain");
}

bool is_operator(NodeClient& daemon) {
  const auto known = daemon.get("/api/v1/session");
  return known && top::text_in(*known, "role") == "operator";
}

Past past_of(NodeClient& daemon, const top::Model& model) {
  Past past;
  if (const auto events = daemon.get(fmt::format("/api/v1/events?limit={}", top::View::kEventsKept));
      events && events->is_array())
    for (const json& event : *events) past.events.push_back(top::read_event(event));
  // Asks for workloads once on all devices, and once more on each device with a workload that uses several devices.
  std::map<std::string, std::set<int>> places;
  for (const top::Row& row : model.rows)
    if (row.governed && row.gpu) places[row.tenant + "/" + row.name].insert(*row.gpu);
  std::set<int> apart;
  for (const auto& [name, gpus] : places)
    if (gpus.size() > 1) apart.insert(gpus.begin(), gpus.end());
  const auto question = [](const char* by) {
    return fmt::format("/api/v1/series?by={}&from=-10m&points={}", by, top::History::kSteps);
  };
  std::vector<std::string> questions{question("workload")};
  for (const int gpu : apart) questions.push_back(fmt::format("{}&gpu={}", question("workload"), gpu));
  for (const top::Device& device : model.devices)
    for (const char* by : {"tenant", "device"}) questions.push_back(fmt::format("{}&gpu={}", question(by), device.gpu));
  for (const std::string& each : questions)
    if (auto series = daemon.get(each)) past.series.push_back(std::move(*series));
  return past;
}

/// Returns what a view without a daemon does not show, and how to see it.
std::vector<std::string> notes_without_daemon(const Session& session, const json& snapshot) {
  std::vector<std::string> notes;
  const json devices = snapshot.value("devices", json::array());
  for (const auto& [node, count] : workloads_of_other_nodes(session, devices, json::array()))
    notes.push_back(fmt::format("{} more on simulated GPUs: {}", count, in_context("ration top", {node, {}})));
  notes.push_back(session.hint("a daemon also shows events and limits of tenants: ration serve"));
  return notes;
}

/// Returns the session of the only simulated node on which workloads run; absent if there are none or several.
std::optional<Session> session_of_only_node(const Session& session) {
  const auto store = session.store();
  if (!store) return std::nullopt;
  std::map<std::string, Session> nodes;
  for (const book::StoredBook& stored : store->list())
    if (stored.live && !stored.contents.simulation.empty())
      nodes.emplace(stored.contents.simulation, session.about(stored.contents));
  return nodes.size() == 1 ? std::optional(nodes.begin()->second) : std::nullopt;
}

}  // namespace

Result<TopStart> begin_top(Session& session) {
  RATION_TRY(auto daemon, NodeClient::find(session));
  TopStart start;
  const bool shown = session.format() == Format::kText;  // text needs only the first process of each workload
  const std::size_t processes = shown ? 1 : node::kAllProcesses;
  RATION_TRY(auto snapshot, daemon ? daemon->get(snapshot_path({.processes = processes}))
                                   : node_snapshot(session, {.processes = processes}));
  if (shown && !daemon && !session.simulated && snapshot.value("devices", json::array()).empty())
    if (auto only = session_of_only_node(session)) {
      session = std::move(*only);
      RATION_TRY(snapshot, node_snapshot(session, {.processes = processes}));
    }
  if (!daemon) start.notes = notes_without_daemon(session, snapshot);
  start.snapshot = std::move(snapshot);
  start.daemon = daemon.has_value();
  start.is_operator = start.daemon && is_operator(*daemon);
  return start;
}

Past look_back(const Session& session, const top::Model& model) {
  auto daemon = NodeClient::find(session);
  return daemon && *daemon ? past_of(**daemon, model) : Past{};
}

Feed::Feed(const Session& session, const TopStart& first)
    : session_(session), news_ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  watcher_ = std::thread([this, daemon = first.daemon] { watch(daemon); });
  answerer_ = std::thread([this] { answer_questions(); });
}

Feed::~Feed() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  signal_on(stop_);
  asked_.notify_all();
  watcher_.join();
  answerer_.join();
}

std::vector<Feed::News> Feed::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto size = ::read(news_ready_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

void Feed::ask(top::Request request) {
  const std::lock_guard lock(mutex_);
  questions_.push_back(std::move(request));
  asked_.notify_one();
}

void Feed::add(News news) {
  {
    const std::lock_guard lock(mutex_);
    news_.push_back(std::move(news));
  }
  signal_on(news_ready_);
}

bool Feed::stopped_within(int milliseconds) const {
  pollfd one{stop_.get(), POLLIN, 0};
  return ::poll(&one, 1, milliseconds) > 0;
}

void Feed::watch(bool daemon) {
  do {
    // Once a daemon has answered, waits for it whenever it is gone, so that its numbers are not mixed with those that
    // this process would read itself.
    if (!daemon) {
      const auto found = NodeClient::find(session_);
      daemon = found && found->has_value();
    }
    if (daemon) {
      const std::string why = follow();
      if (stopped_within(0)) return;
      add(Lost{why});
      continue;
    }
    const auto snapshot = node_snapshot(session_);
    if (snapshot) {
      add(top::read_snapshot(*snapshot));
      add(Notes{notes_without_daemon(session_, *snapshot)});
    } else {
      add(Lost{snapshot.error().what});
    }
  } while (!stopped_within(kLookEvery));
}

std::string Feed::follow() {
  auto daemon = NodeClient::require(session_);
  if (!daemon) return daemon.error().what;
  daemon->interrupted_by(stop_.get());
  const auto snapshot = daemon->get(snapshot_path({.processes = 1}));  // the stream brings the rest
  if (!snapshot) return snapshot.error().what;
  const top::Model model = top::read_snapshot(*snapshot);
  add(Found{is_operator(*daemon)});
  add(model);
  Past past = past_of(*daemon, model);
  if (!past.events.empty()) last_event_ = std::max(last_event_, past.events.back().id);
  add(std::move(past));
  const std::string path = fmt::format("/api/v1/stream?topics=snapshot,events&every=1s{}",
                                       last_event_ > 0 ? fmt::format("&last_event_id={}", last_event_) : "");
  const auto followed = daemon->stream(path, [this](const http::StreamEvent& received) {
    const json data = json::parse(received.data, nullptr, false);
    if (received.name == "snapshot" && data.is_object()) add(top::read_snapshot(data));
    if (received.name == "event" && data.is_object()) {
      top::Event event = top::read_event(data);
      last_event_ = std::max(last_event_, event.id);
      add(std::move(event));
    }
    return !stopped_within(0);
  });
  return followed ? "the daemon ended" : followed.error().what;
}

void Feed::answer_questions() {
  for (;;) {
    top::Request request;
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
      if (stopping_) return;
      request = std::move(questions_.front());
      questions_.pop_front();
    }
    auto answer = answer_to(session_, request, stop_.get());
    if (answer) add_command_options(*answer, command_options(session_.context));
    add(Answer{std::move(request), std::move(answer)});
  }
}

}  // namespace ration::cli
