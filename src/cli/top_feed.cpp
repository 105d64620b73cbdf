#include "cli/top_feed.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/command_json.hpp"
#include "cli/holders.hpp"
#include "cli/node_client.hpp"
#include "node/explain.hpp"
#include "policy/denials.hpp"

namespace ration::cli {
namespace {

using nlohmann::json;

constexpr int kLookEvery = 1000;  // milliseconds

void signal_on(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event.get(), &one, sizeof one);
}

Result<json> set_limit(NodeClient& daemon, const top::Request& request) {
  const std::string path = "/api/v1/workloads/" + percent_encoded(request.workload);
  json wish{{"limit", request.value}};
  if (request.gpu) wish["gpu"] = std::to_string(*request.gpu);
  http::ExtraHeaders headers;
  if (request.changes) headers.emplace_back("If-Match", fmt::format("\"{}\"", *request.changes));
  if (!request.agreed) {
    auto would_be = daemon.patch(path + "?dry_run=1", wish, headers);
    if (!would_be) return would_be;
    for (const json& row : would_be->value("changes", json::array())) {
      const auto limit = top::number_in(row, "limit_bytes"), old = top::number_in(row, "old_limit_bytes");
      if (!row.value("shrinking", false) || !limit || !old || *limit >= *old) continue;
      (*would_be)["agree"] = true;
      return would_be;
    }
  }
  return daemon.patch(path, wish, headers);
}

/// Without a daemon: from the books of this user.
Result<json> why_by_book(const Session& session, const top::Request& request) {
  const auto store = session.store();
  const auto wanted = policy::parse_denial_id(request.value);
  if (!store) return tl::unexpected(store.error());
  for (const auto& stored : store->list()) {
    if (!wanted || stored.contents.run_number != wanted->run) continue;
    for (const auto& denial : stored.contents.denials) {
      if (denial.sequence != wanted->number) continue;
      const auto explained = policy::explain_denial(
          denial, stored.contents, stored.live, stored.live ? room_for(session, stored.contents, denial) : std::nullopt,
          device_index(session), session.display_units());
      return json{{"time", utc(denial.time_ns)},          {"tenant", stored.contents.tenant},
                  {"workload", stored.contents.name},     {"requested_bytes", denial.requested.count()},
                  {"function", denial.function},          {"because", explained.because},
                  {"not_because", explained.not_because}, {"fix", explained.fix}};
    }
  }
  return fail("E1413", fmt::format("{} is no longer on the books.", request.value), "ration ps", 3);
}

Result<json> explain_by_book(const Session& session, const top::Request& request) {
  const auto look = look_directly(session);
  if (!look) return tl::unexpected(look.error());
  return node::explain_workload(look->registry, look->now, request.workload, {true, ::getuid()});
}

Result<json> answer_to(const Session& session, const top::Request& request, int stop) {
  using Kind = top::Request::Kind;
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  if (!*daemon && request.kind == Kind::kWhy) return why_by_book(session, request);
  if (!*daemon && request.kind == Kind::kExplain) return explain_by_book(session, request);
  auto required = NodeClient::require(session);
  if (!required) return tl::unexpected(required.error());
  required->interrupted_by(stop);
  const std::string path = "/api/v1/workloads/" + percent_encoded(request.workload);
  switch (request.kind) {
    case Kind::kSet:
      return set_limit(*required, request);
    case Kind::kTrim:
      return required->post(path + "/trim", json::object());
    case Kind::kWhy:
      return required->get("/api/v1/denials/" + percent_encoded(request.value));
    case Kind::kExplain:
      break;
  }
  return required->get(path + "/explain");
}

bool is_operator(NodeClient& daemon) {
  const auto known = daemon.get("/api/v1/session");
  return known && top::text_in(*known, "role") == "operator";
}

Past look_back(NodeClient& daemon, const top::Model& model) {
  Past past;
  if (const auto events = daemon.get(fmt::format("/api/v1/events?limit={}", top::View::kEventsKept));
      events && events->is_array())
    for (const json& event : *events) past.events.push_back(top::read_event(event));
  // One question for all, and one more for each device with a workload that is on others, too.
  std::map<std::string, std::set<int>> places;
  for (const top::Row& row : model.rows)
    if (row.governed && row.gpu) places[row.tenant + "/" + row.name].insert(*row.gpu);
  std::set<int> apart;
  for (const auto& [name, gpus] : places)
    if (gpus.size() > 1) apart.insert(gpus.begin(), gpus.end());
  const std::string question = fmt::format("/api/v1/series?by=workload&from=-10m&points={}", top::History::kSteps);
  std::vector<std::string> questions{question};
  for (const int gpu : apart) questions.push_back(fmt::format("{}&gpu={}", question, gpu));
  for (const std::string& each : questions)
    if (auto series = daemon.get(each)) past.series.push_back(std::move(*series));
  return past;
}

}  // namespace

Result<FirstLook> first_look(const Session& session) {
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  FirstLook look;
  const bool shown = session.format() == Format::kText;  // where the first process of each is enough
  const std::size_t processes = shown ? 1 : node::kAllProcesses;
  auto snapshot = *daemon ? (*daemon)->get(snapshot_path(processes)) : node_snapshot(session, processes);
  if (!snapshot) return tl::unexpected(snapshot.error());
  look.snapshot = std::move(*snapshot);
  look.daemon = daemon->has_value();
  look.is_operator = look.daemon && is_operator(**daemon);
  return look;
}

Past look_back(const Session& session, const top::Model& model) {
  auto daemon = NodeClient::find(session);
  return daemon && *daemon ? look_back(**daemon, model) : Past{};
}

Feed::Feed(const Session& session, const FirstLook& first)
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

void Feed::tell(News news) {
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
    // Once there was a daemon its numbers are not mixed with others: it is waited for.
    if (!daemon) {
      const auto found = NodeClient::find(session_);
      daemon = found && found->has_value();
    }
    if (daemon) {
      const std::string why = follow();
      if (stopped_within(0)) return;
      tell(Lost{why});
      continue;
    }
    const auto snapshot = node_snapshot(session_);
    if (snapshot)
      tell(top::read_snapshot(*snapshot));
    else
      tell(Lost{snapshot.error().what});
  } while (!stopped_within(kLookEvery));
}

std::string Feed::follow() {
  auto daemon = NodeClient::require(session_);
  if (!daemon) return daemon.error().what;
  daemon->interrupted_by(stop_.get());
  const auto snapshot = daemon->get(snapshot_path(1));  // the stream brings the rest
  if (!snapshot) return snapshot.error().what;
  const top::Model model = top::read_snapshot(*snapshot);
  tell(Found{is_operator(*daemon)});
  tell(model);
  Past past = look_back(*daemon, model);
  if (!past.events.empty()) last_event_ = std::max(last_event_, past.events.back().id);
  tell(std::move(past));
  const std::string path = fmt::format("/api/v1/stream?topics=snapshot,events&every=1s{}",
                                       last_event_ > 0 ? fmt::format("&last_event_id={}", last_event_) : "");
  const auto followed = daemon->stream(path, [this](const http::StreamEvent& received) {
    const json data = json::parse(received.data, nullptr, false);
    if (received.name == "snapshot" && data.is_object()) tell(top::read_snapshot(data));
    if (received.name == "event" && data.is_object()) {
      top::Event event = top::read_event(data);
      last_event_ = std::max(last_event_, event.id);
      tell(std::move(event));
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
    tell(Answer{std::move(request), std::move(answer)});
  }
}

}  // namespace ration::cli
