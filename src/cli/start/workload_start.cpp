#include "cli/start/workload_start.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <tuple>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/stable_hash.hpp"
#include "base/utf8.hpp"
#include "book/book.hpp"
#include "book/container_books.hpp"
#include "cli/session/node_client.hpp"
#include "cli/session/simulated.hpp"
#include "cli/start/admission.hpp"
#include "cli/start/gpu_choice.hpp"
#include "cli/start/guarded.hpp"
#include "cli/start/launch.hpp"
#include "cli/start/measured_context.hpp"
#include "cli/text/fields.hpp"
#include "config/settings.hpp"

namespace ration::cli {
namespace {

using admission::Plan;
using book::Book;
using book::BookStatus;

// Gives options that were not typed the values of the configuration.
Result<void> apply_settings(RunOptions& options) {
  RATION_TRY(const auto settings, config::read_settings());
  if (!settings.doubt.empty() && ::isatty(STDERR_FILENO) != 0)
    fmt::print(stderr, "ration: {}; the defaults that the daemon accepted before apply\n", settings.doubt);
  const auto value = [&](const char* key, std::string& option) {
    if (const auto found = settings.values.find(key); option.empty() && found != settings.values.end())
      option = found->second.value;
  };
  admission::PlanRequest& request = options.request;
  const bool own_place = !request.slice.empty();
  if (!own_place) {
    value("limit", request.limit);
    value("guarantee", request.guarantee);
    value("gpu", request.gpu);
  }
  value("host_limit", request.host_limit);
  value("on_deny", request.on_deny);
  value("account", request.account);
  value("managed", request.managed);
  value("tenant", request.tenant);
  value("summary", options.summary);
  const auto flag = [&](const char* key, bool& option) {
    if (const auto found = settings.values.find(key); found != settings.values.end())
      option = found->second.value == "true";
  };
  if (!request.growth) flag("growth", request.growth);
  if (request.framework_hints) flag("framework_hints", request.framework_hints);
  if (!options.require_enforced) flag("require_enforced", options.require_enforced);
  if (options.summary.empty()) options.summary = "auto";
  if (options.summary != "auto" && options.summary != "always" && options.summary != "never" &&
      options.summary.rfind("json:", 0) != 0) {
    return fail("E1418", fmt::format("'{}' is not a value of --summary.", options.summary),
                "--summary auto, always, never or json:FILE", 2);
  }
  return {};
}

/// Puts `value` in front of the variable's present value, and stores the result in `sets`. The present value is that in
/// `sets` or, if there is none, that in this environment.
void prepend(std::map<std::string, std::string>& sets, const char* variable, const std::string& value) {
  const char* present = std::getenv(variable);
  const auto known = sets.find(variable);
  const std::string rest = known != sets.end() ? known->second : present != nullptr ? present : "";
  if ((rest + ":").starts_with(value + ":")) return;
  sets[variable] = rest.empty() ? value : value + ":" + rest;
}

}  // namespace

Result<std::string> preloadable_folder(const book::Store& store, const std::string& kind) {
  const auto folder = library_folder(kind);
  const auto carried = [](const std::string& path) { return path.find_first_of(" :\t\n") == std::string::npos; };
  if (!folder || carried(*folder)) return folder;
  // Derives the name of the link from the folder, so that two installed versions have two links.
  const std::string link = fmt::format("{}/{}-{:08x}", store.folder(), kind == "shim" ? "guard" : "simulator",
                                       stable_hash(*folder) & 0xffffffff);
  std::error_code error;
  if (std::filesystem::read_symlink(link, error) != *folder) {
    const std::string fresh = fmt::format("{}.{}", link, ::getpid());
    std::filesystem::create_symlink(*folder, fresh, error);
    std::filesystem::rename(fresh, link, error);
  }
  if (carried(link) && std::filesystem::exists(link + "/libcuda.so.1", error)) return link;
  return fail("E1424",
              fmt::format("the guard is in '{}'. Neither that path nor the runtime folder can be preloaded, because "
                          "each has a space or a colon.",
                          *folder),
              "Move ration to a path without spaces, or export RATION_RUNTIME_DIR=<such a folder>", 125);
}

Result<void> add_simulation(const Session& session, const book::Store& store, const std::string& program,
                            const std::string& versions, Plan& plan) {
  RATION_TRY(session.driver_folder());
  RATION_TRY(const auto driver, preloadable_folder(store, "sim"));
  RATION_TRY(const auto libraries, simulated_libraries(driver, program, versions));
  plan.simulation = libraries.found;
  if (const char* node = std::getenv("RATION_SIM"); node != nullptr) plan.sets["RATION_SIM"] = node;
  std::string folders = simulated_driver_folder(driver);
  for (const std::string& folder : libraries.folders) folders += ":" + folder;
  prepend(plan.sets, "LD_LIBRARY_PATH", folders);
  if (!libraries.preload.empty())
    prepend(plan.sets, "LD_PRELOAD", fmt::format("{}", fmt::join(libraries.preload, ":")));
  return {};
}

namespace {

Result<void> add_guard(const Session& session, const book::Store& store, const RunOptions& options, Plan& plan) {
  RATION_TRY(const auto shim, preloadable_folder(store, "shim"));
  RATION_TRY(check_guard_files(shim, options.require_enforced));
  if (session.simulated) {
    const std::string program = options.program.empty() ? "" : options.program.front();
    RATION_TRY(add_simulation(session, store, program, options.simulated_cuda, plan));
    plan.sets["RATION_DRIVER_PATH"] = *session.driver_folder();
  }
  prepend(plan.sets, "LD_PRELOAD", shim + "/libcuda.so.1:" + shim + "/libnvidia-ml.so.1");
  // Preloads the audit library only on request: with it, the linker has little room for thread-local memory (3 KiB in
  // glibc 2.36), and a program linked with libraries that need more does not start.
  if (options.require_enforced) prepend(plan.sets, "LD_AUDIT", shim + "/libration-audit.so");
  return {};
}

/// Enters the chosen GPUs in the options. If any GPU will do, chooses the one with the most room, as `ration fits`
/// does.
Result<void> grant_gpus(const Session& session, const machine::Machine& machine, RunOptions& options) {
  admission::PlanRequest& request = options.request;
  if (!request.slice.empty()) return {};
  RATION_TRY(const auto choice, choose_gpus(session, machine, request.gpu));
  options.asked_gpus = choice.text();
  std::vector<std::string> granted;
  for (const machine::Device& device : choice.devices) granted.push_back(device.uuid);
  if (choice.any_one && granted.size() > 1) {
    RATION_TRY(const auto snapshot, node_snapshot(session, {.room_of = request.tenant}));
    const std::vector<Room> rooms = rooms_on(choice.devices, snapshot);
    // A daemon that governs other GPUs reports no room on these.
    granted = {rooms.empty() ? granted.front() : deciding(rooms, true).device.uuid};
  }
  request.gpu = fmt::format("{}", fmt::join(granted, ","));
  return {};
}

}  // namespace

Result<Plan> resolve(const Session& session, RunOptions& options, const book::Store& store, Measuring measuring) {
  RATION_TRY(apply_settings(options));
  const auto machine = session.machine();
  if (!machine) return tl::unexpected(machine.error());
  RATION_TRY(grant_gpus(session, *machine, options));
  auto plan = admission::make_plan(options.request, *machine, store, [&](const auto& device) -> std::optional<Bytes> {
    if (measuring == Measuring::kNo) return std::nullopt;
    const auto cost = measured_context(session, device);
    if (cost && !session.dry_run)
      machine::remember_context_cost(device, machine->driver_version, store.folder(), *cost);
    return cost;
  });
  if (!plan) return plan;
  if (!options.engine.empty()) return plan;  // a container gets the guard from its engine
  RATION_TRY(add_guard(session, store, options, *plan));
  return plan;
}

std::string workload_name(const RunOptions& options) {
  const std::string base = std::filesystem::path(options.program.front()).filename();
  std::string name(!options.request.name.empty() ? options.request.name : base.empty() ? "run" : shortened(base, 40));
  name = printable(std::move(name), '_');
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return static_cast<unsigned char>(letter) <= 0x20 || letter == ','; },
      '_');
  return name;
}

namespace {

/// Returns the command of the same run with another limit.
std::string again(const RunOptions& options, bool wait, Bytes limit) {
  const std::string &gpus = options.asked_gpus, &tenant = options.request.tenant, &name = options.request.name;
  return command({"run", wait ? "--wait" : "", name.empty() ? "" : "--name", name, gpus.empty() ? "" : "--gpu", gpus,
                  tenant.empty() ? "" : "--tenant", tenant, "--limit", exact_size(limit), "--"}) +
         " …";
}

/// Returns E1303 if one snapshot shows that others hold memory for which the run wants a guarantee.
Result<void> could_be_kept_now(const Session& session, const Plan& plan, const RunOptions& options) {
  RATION_TRY(const auto snapshot, node_snapshot(session, {.room_of = options.request.tenant}));
  for (const auto& account : plan.accounts) {
    const std::vector<Room> rooms = rooms_on({account.device}, snapshot);
    if (rooms.empty()) continue;  // the daemon governs another node
    const int gpu = account.device.index;
    const Bytes room = rooms.front().available;
    if (account.guarantee <= room) continue;
    const std::string who = holders_on(session, snapshot, gpu);
    const Bytes most = round_down(room, kGranule);
    return fail("E1303",
                fmt::format("{} cannot be kept for the workload now: GPU {} has {} available of {}.{}",
                            session.size(account.guarantee), gpu, session.size(room),
                            session.size(account.device.total), who.empty() ? "" : " Held by " + who + "."),
                (most == Bytes{0} ? "" : fmt::format("--guarantee {}, at most; or: ", exact_size(most))) +
                    (snapshot.contains("queue") ? again(options, true, account.limit) + "   starts when there is room"
                                                : "ration ps   shows which workloads hold it"),
                4);
  }
  return {};
}

/// Returns E1303 if others hold memory for which the run wants a guarantee. Memory that a program takes during the tick
/// may count twice in a snapshot, so several snapshots in a row must agree.
Result<void> can_be_kept(const Session& session, const Plan& plan, const RunOptions& options) {
  const auto wanted = [](const auto& account) { return account.guarantee > Bytes{0}; };
  if (!plan.slice.empty() || std::none_of(plan.accounts.begin(), plan.accounts.end(), wanted)) return {};
  constexpr int kSnapshots = 3;
  Result<void> result = could_be_kept_now(session, plan, options);
  for (int again = 1; !result && again < kSnapshots; ++again) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // until the daemon's next tick
    result = could_be_kept_now(session, plan, options);
  }
  return result;
}

book::NewBook book_of(const Session& session, const Plan& plan, const RunOptions& options, std::uint64_t number) {
  book::NewBook book;
  book.simulation = session.context.simulated;
  book.name = workload_name(options);
  if (plan.name.empty()) book.name += fmt::format("-{}", number);
  book.tenant = plan.tenant;
  book.slice = plan.slice;
  book.labels = plan.labels;
  book.command = shown_command(options.program);
  book.run_number = number;
  book.on_deny = plan.on_deny;
  book.wait_ns = plan.wait_ns;
  book.account_mode = plan.account_mode;
  book.managed = plan.managed;
  book.host_limit = plan.host_limit;
  for (const auto& planned : plan.accounts) {
    book.accounts.push_back({planned.device.bytes, planned.device.name, planned.device.total, planned.limit,
                             planned.guarantee, planned.context.value_or(Bytes{0})});
  }
  return book;
}

/// Makes the book and returns its path. For a container (`engine` is not empty), puts the grant beside the book, and
/// puts the book into a file system of its own if the process `daemon` can see that file system.
Result<std::string> make_book(const book::Store& store, const book::NewBook& contents, const std::string& engine,
                              std::optional<std::int32_t> daemon) {
  book::remove_unfinished(store.folder());
  for (const auto& present : store.list()) {
    if (!present.live || present.contents.name != contents.name) continue;
    return fail("E1410",
                fmt::format("a workload named '{}' is running (pid {}).", contents.name, present.contents.creator.pid),
                "Choose another --name, or leave --name out.", 125);
  }
  const std::string path = store.path_of(contents.name, contents.run_number);
  const BookStatus status =
      engine.empty() ? Book::create(path.c_str(), contents) : book::create_granted(path, contents, daemon);
  if (status == BookStatus::kOk) return path;
  return fail("E1405", fmt::format("the book {} cannot be made: {}.", path, book::describe(status)),
              status == BookStatus::kNoSpace ? "Free some space there, or export RATION_RUNTIME_DIR=<another folder>."
                                             : "export RATION_RUNTIME_DIR=<a folder of yours>",
              125);
}

/// Prints the GPUs on which less than the granted limit is available now, how much is missing, and for whom it is kept;
/// with --require-limit, returns E1447 instead. Prints only if `aloud`, since standard error may belong to a program.
Result<void> tell_limit_in_force(const Session& session, const RunOptions& options, const Plan& plan,
                                 const std::string& path, NodeClient& daemon, bool aloud) {
  book::BookSnapshot book;
  if (Book::read(path.c_str(), book) != BookStatus::kOk) return {};
  nlohmann::json rows;
  for (std::size_t i = 0; i < std::min(plan.accounts.size(), book.accounts.size()); ++i) {
    const auto& [device, limit] = std::tie(plan.accounts[i].device, plan.accounts[i].limit);
    const Bytes granted = std::min(limit, device.total);
    const Bytes now = std::max(book.accounts[i].limit, book.accounts[i].reach);
    if (now >= granted) continue;
    if (rows.is_null()) rows = daemon.get("/api/v1/workloads").value_or(nlohmann::json::array());
    std::string why;
    for (const nlohmann::json& row : rows)
      if (row.value("run", std::uint64_t{0}) == book.run_number && row.value("workload", "") == book.name &&
          row.value("uuid", "") == device.uuid)
        why = row.value("held_back_by", "");
    const std::string what =
        fmt::format("{0} of the limit of {1} can be allocated now on GPU {2}, but {3} cannot{4}{5}", session.size(now),
                    session.size(granted), device.index, session.size(granted - now), why.empty() ? "" : ": ", why);
    if (options.require_limit)
      return fail("E1447", what + ".",
                  (now == Bytes{0} ? "" : again(options, false, now) + "   fits; ") +
                      "ration ps   shows who holds the "
                      "missing memory",
                  6);
    if (aloud) fmt::print(stderr, "ration: {} (with --require-limit the program would not start)\n", what);
  }
  return {};
}

/// Registers the workload with the daemon, and takes its tenant from there. Resets `daemon` if it is the machine's and
/// does not govern these simulated devices.
Result<void> register_with(std::optional<NodeClient>& daemon, const book::Store& store, const RunOptions& options,
                           const Plan& plan, const std::string& lease, const std::optional<ProcessIdentity>& creator,
                           std::uint64_t number, book::NewBook& contents) {
  auto tenant = register_workload(*daemon, store.folder(), store.path_of(contents.name, number), options.request,
                                  contents.labels, lease, plan.accounts,
                                  options.engine == kSlurmEngine ? std::optional(creator->user) : std::nullopt);
  if (!tenant && !lease.empty()) (void)daemon->remove("/api/v1/leases/" + lease);
  const bool other_node = !tenant && tenant.error().id == "E1532" && lease.empty() && !daemon->was_named();
  if (!tenant && !other_node) return tl::unexpected(tenant.error());
  if (other_node)
    daemon.reset();
  else
    contents.tenant = std::move(*tenant);
  return {};
}

}  // namespace

Result<Started> start_workload(const Session& session, RunOptions& options, const book::Store& store,
                               const std::string& lease, std::optional<NodeClient>& daemon,
                               const std::optional<ProcessIdentity>& creator,
                               const std::function<Result<void>(const std::string&)>& bring) {
  // The lock lets only one start at a time check and enter promises, and take a name.
  auto alone = std::optional(store.lock());
  RATION_TRY(auto plan, resolve(session, options, store));
  // A program that asks for its own limit has loaded the guard itself, and a container gets the guard from its engine.
  if (!creator && options.engine.empty()) {
    RATION_TRY(refuse_ungoverned(options, examine(options, plan)));
  }
  RATION_TRY(const auto number, store.next_run());
  book::NewBook contents = book_of(session, plan, options, number);
  contents.creator = creator;
  if (daemon) RATION_TRY(register_with(daemon, store, options, plan, lease, creator, number, contents));
  if (!creator && lease.empty()) RATION_TRY(can_be_kept(session, plan, options));
  // Takes the daemon's pid from its socket, because reading it from /proc/locks takes ten milliseconds.
  const bool by_hook = creator && daemon;
  const auto book = make_book(store, contents, options.engine, by_hook ? daemon->daemon_pid() : std::nullopt);
  if (!book) return tl::unexpected(book.error());
  alone.reset();
  Result<void> brought;
  Result<bool> shown = false;
  const bool can_record = !creator && options.engine.empty() && options.record.empty();
  std::string recording = can_record ? policy_recording(contents.name, number) : "";
  const auto work = [&] {
    if (bring) brought = bring(*book);
  };
  if (daemon)
    shown = show_book(*daemon, store.folder(), *book, options.request.tenant, plan.labels, recording, work);
  else
    work();
  if (bring && brought && !shown)
    brought = tl::unexpected(shown.error());  // without the daemon, the tenant's limit would not be in force
  if (brought && daemon) brought = tell_limit_in_force(session, options, plan, *book, *daemon, !creator);
  if (!brought) {
    book::remove_book(*book);
    if (daemon) (void)show_book(*daemon, store.folder(), *book, options.request.tenant, plan.labels, "", [] {});
    return tl::unexpected(brought.error());
  }
  if (!shown.value_or(false)) recording.clear();
  return Started{*book, std::move(plan), std::move(recording)};
}

}  // namespace ration::cli
