#include "node/local_node.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "admission/denials.hpp"
#include "base/clock.hpp"
#include "http/grammar.hpp"
#include "http/problem.hpp"
#include "machine/process_origin.hpp"
#include "machine/user_names.hpp"
#include "node/books/known_folders.hpp"
#include "node/http/event_view.hpp"
#include "node/limits/unwatched_changes.hpp"

namespace ration::node {

using http::Request;
using http::Response;

Result<std::unique_ptr<LocalNode>> LocalNode::open(NodeOptions options, book::Store store, bool only_these_devices) {
  std::unique_ptr<LocalNode> node(new LocalNode(std::move(options), std::move(store)));
  Moment& moment = node->moment_;
  if (only_these_devices)
    moment.registry.set_node_rule([&moment](const Workload& workload) {
      return !moment.machine ||
             std::any_of(workload.book.accounts.begin(), workload.book.accounts.end(),
                         [&](const auto& account) { return gpu_of(moment, account.device).has_value(); });
    });
  RATION_TRY(moment.registry.watch(node->store_.folder(), ::getuid()));
  for (const auto& [folder, owner] : folders_of_others()) (void)moment.registry.watch(folder, owner);
  node->tick_now();
  return node;
}

LocalNode::LocalNode(NodeOptions options, book::Store store)
    : store_(std::move(store)), options_(std::move(options)), subjects_(options_) {
  const AddRoute add = [this](const std::string& method, std::string_view pattern, auto handler) {
    (void)router_.add(method, pattern);
    handlers_.push_back(std::move(handler));
  };
  routes_.install(add);
  add("GET", "/api/v1/denials/{id}", [this](const Request& request) { return denial(request.captures.at("id")); });
}

void LocalNode::tick_now() {
  moment_.now_ns = moment_.time_of_day_ns = unix_time_ns();
  moment_.machine = options_.query();
  moment_.slices = options_.slices();
  if (moment_.machine && ::getuid() == 0) watch_books_of(*moment_.machine);
  moment_.registry.refresh();
  for (const auto& [path, workload] : moment_.registry.workloads()) subjects_.limits.limits.add(workload);
  builder_.build(moment_, subjects_);
  for (UngovernedView& each : moment_.snapshot.ungoverned) each.policy = nullptr;  // no daemon applies a policy
}

// Watches the folders of the books with which the processes on the devices were started, whosever they are.
void LocalNode::watch_books_of(const machine::Machine& machine) {
  for (const machine::Device& device : machine.devices) {
    if (!device.processes) continue;
    for (const auto& process : *device.processes) {
      const auto book = machine::variable_of(process.pid, "RATION_BOOK");
      if (!book || book->empty()) continue;
      const auto folder = std::filesystem::path(*book).parent_path().parent_path();
      struct stat status {};
      if (::lstat(folder.c_str(), &status) == 0) (void)moment_.registry.watch(folder, status.st_uid);
    }
  }
}

void LocalNode::record(Events events) {
  if (events.empty()) return;
  UnwatchedChanges changes = read_unwatched_changes(store_.folder(), ::getuid());
  for (const auto& [path, workload] : moment_.registry.workloads()) {
    const OwnedWorkload* owned = subjects_.limits.limits.find(path);
    const auto& accounts =
        workload.granted.empty() ? workload.book.accounts : workload.granted;  // the accounts before the change
    for (std::uint32_t i = 0; owned != nullptr && i < std::min(owned->accounts.size(), accounts.size()); ++i) {
      const bool limit = owned->accounts[i].configured != accounts[i].limit;
      const bool guarantee = owned->accounts[i].guarantee != accounts[i].guarantee;
      if (!limit && !guarantee) continue;
      UnwatchedChange& change = changes[path];
      if (change.file_number != workload.file_number) change = {workload.file_number, 0, {}, {}};
      change.time_ns = steady_time_ns();
      if (limit) change.accounts[i].limit = owned->accounts[i].configured;
      if (guarantee) change.accounts[i].guarantee = owned->accounts[i].guarantee;
    }
    if (owned != nullptr && owned->host_configured != workload.book.host.limit) {
      UnwatchedChange& change = changes[path];
      if (change.file_number != workload.file_number) change = {workload.file_number, 0, {}, {}};
      change.time_ns = steady_time_ns();
      change.host_limit = owned->host_configured;
    }
  }
  recorded_ = write_unwatched_changes(store_.folder(), changes);
}

Response LocalNode::handle(const std::string& method, const std::string& target, const std::string& body,
                           const http::Headers& headers) {
  const auto parsed = http::parse_target(target);
  if (!parsed) return http::problem({"E1511", fmt::format("no such path: {}", target), "ration doctor", 3});
  auto found = router_.find(method, parsed->path);
  if (!found.route)
    return http::problem({"E1501", "the daemon is not running.",
                          "ration serve   in another terminal, or: ration service install --now", 3});
  Request request;
  request.method = method;
  request.path = parsed->path;
  request.query = parsed->query;
  request.captures = std::move(found.captures);
  request.headers = headers;
  request.body = body;
  request.peer.uid = ::getuid();
  request.peer.token_accepted = true;                                     // the books belong to this user
  const auto alone = method == "GET" ? FileDescriptor{} : store_.lock();  // serializes commands that make promises
  auto response = handlers_[*found.route](request);
  if (!response) return http::problem(response.error());
  return recorded_ ? *std::move(response) : http::problem(recorded_.error());
}

Response LocalNode::denial(const std::string& id) {
  const auto wanted = admission::parse_denial_id(id);
  for (const book::StoredBook& stored : store_.list()) {
    const book::BookSnapshot& book = stored.contents;
    if (!wanted || book.run_number != wanted->run) continue;
    for (const book::Denial& denial : book.denials) {
      if (denial.sequence != wanted->number) continue;
      const auto running = moment_.registry.workloads().find(stored.path);
      Workload workload;
      if (running != moment_.registry.workloads().end()) workload = running->second;
      workload.path = stored.path;
      workload.owner = workload.person = ::getuid();
      workload.user = machine::user_name(workload.owner);
      workload.book = book;
      const history::Event event = to_record(subjects_.limits.denials.event_of(moment_, workload, denial, stored.live));
      return node::answer(source(), "why", denial_json(event, {true, workload.owner}, ""));
    }
    return http::problem(
        {"E1413",
         fmt::format("run {} ({}) has no denial {}: it was denied {} times, and only the newest 256 denials are kept.",
                     wanted->run, book.name, id, book.denial_count),
         "ration ps", 3});
  }
  return http::problem(
      {"E1413",
       fmt::format("no run {} is recorded here; of the runs that have ended, only the newest 32 are kept.",
                   wanted ? std::to_string(wanted->run) : id),
       "ration ps", 3});
}

}  // namespace ration::node
