// `ration run`: one program, and all that it starts, under one limit.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/command.hpp"
#include "base/printable.hpp"
#include "cli/admission.hpp"
#include "cli/launch.hpp"
#include "cli/simulated.hpp"
#include "cli/verbs.hpp"
#include "policy/enforcement.hpp"
#include "policy/settings.hpp"
#include "policy/variables.hpp"

namespace ration::cli {
namespace {

using ledger::Book;
using ledger::BookSnapshot;
using ledger::BookStatus;
using policy::Plan;

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

// What was not typed comes from the configuration.
Result<void> apply_settings(RunOptions& options) {
  const auto settings = policy::read_settings();
  if (!settings) return tl::unexpected(settings.error());
  const auto value = [&](const char* key, std::string& option) {
    if (const auto found = settings->find(key); option.empty() && found != settings->end())
      option = found->second.value;
  };
  policy::Wish& wish = options.wish;
  const bool own_place = !wish.slice.empty();
  if (!own_place) {
    value("limit", wish.limit);
    value("guarantee", wish.guarantee);
    value("gpu", wish.gpu);
  }
  value("on_deny", wish.on_deny);
  value("account", wish.account);
  value("managed", wish.managed);
  value("tenant", wish.tenant);
  value("summary", options.summary);
  const auto flag = [&](const char* key, bool& option) {
    if (const auto found = settings->find(key); found != settings->end()) option = found->second.value == "true";
  };
  if (!wish.growth) flag("growth", wish.growth);
  if (wish.framework_hints) flag("framework_hints", wish.framework_hints);
  if (!options.require_enforced) flag("require_enforced", options.require_enforced);
  if (options.summary.empty()) options.summary = "auto";
  if (options.summary != "auto" && options.summary != "always" && options.summary != "never" &&
      options.summary.rfind("json:", 0) != 0) {
    return fail("E1418", fmt::format("summary '{}' is unknown.", options.summary),
                "--summary auto, always, never or json:FILE", 2);
  }
  return {};
}

// A limit inside a limit would be a way out of the outer one.
Result<void> refuse_nesting() {
  const char* book = std::getenv("RATION_BOOK");
  if (book == nullptr || *book == '\0') return {};
  BookSnapshot outer;
  if (Book::read(book, outer) != BookStatus::kOk || outer.ended_ns != 0) return {};
  return fail(
      "E1414", fmt::format("this shell runs under the limit of workload {} already.", outer.name),
      command({"set", outer.name, "--limit", "SIZE"}) + "   changes that limit; start other workloads from outside.",
      125);
}

Result<void> check_program(const RunOptions& options, std::string& escape) {
  const std::string& program = options.program.front();
  const auto examined = policy::examine_program(program);
  if (examined) escape = examined->escape;
  if (!options.require_enforced || escape.empty()) return {};
  return fail("E1404", fmt::format("{} here would not be held to the limit: {}.", program, escape),
              "Continue without a guarantee: drop --require-enforced. More: ration help enforcement", 6);
}

/// In front of what stands there already, in `sets` or in this environment.
void prepend(std::map<std::string, std::string>& sets, const char* variable, const std::string& value) {
  const char* present = std::getenv(variable);
  const auto known = sets.find(variable);
  const std::string rest = known != sets.end() ? known->second : present != nullptr ? present : "";
  sets[variable] = rest.empty() ? value : value + ":" + rest;
}

/// The folder of the guard (`shim`) or the simulator (`sim`) as LD_PRELOAD can name it: a path with a space or a colon
/// goes through a link in the runtime folder.
Result<std::string> preloadable_folder(const ledger::Store& store, const std::string& kind) {
  const auto folder = library_folder(kind);
  const auto carried = [](const std::string& path) { return path.find_first_of(" :\t\n") == std::string::npos; };
  if (!folder || carried(*folder)) return folder;
  const std::string link = store.folder() + (kind == "shim" ? "/guard" : "/simulator");
  std::error_code error;
  if (std::filesystem::read_symlink(link, error) != *folder) {
    const std::string fresh = fmt::format("{}.{}", link, ::getpid());
    std::filesystem::create_symlink(*folder, fresh, error);
    std::filesystem::rename(fresh, link, error);
  }
  if (carried(link) && std::filesystem::exists(link + "/libcuda.so.1", error)) return link;
  return fail("E1424",
              fmt::format("the guard lies in '{}', and neither that nor the runtime folder can be preloaded: there is "
                          "a space or a colon in it.",
                          *folder),
              "Move ration to a path without spaces, or export RATION_RUNTIME_DIR=<such a folder>", 125);
}

/// The simulated driver and, where the program has a CUDA runtime, the simulated one in front of that.
Result<void> add_simulation(const Session& session, const ledger::Store& store, const std::string& program,
                            const std::string& versions, Plan& plan) {
  if (const auto known = session.driver_folder(); !known) return tl::unexpected(known.error());
  const auto driver = preloadable_folder(store, "sim");
  if (!driver) return tl::unexpected(driver.error());
  const auto libraries = simulated_libraries(*driver, program, versions);
  if (!libraries) return tl::unexpected(libraries.error());
  plan.simulation = libraries->found;
  if (const char* node = std::getenv("RATION_SIM"); node != nullptr) plan.sets["RATION_SIM"] = node;
  std::string folders = simulated_driver_folder(*driver);
  for (const std::string& folder : libraries->folders) folders += ":" + folder;
  prepend(plan.sets, "LD_LIBRARY_PATH", folders);
  if (!libraries->preload.empty())
    prepend(plan.sets, "LD_PRELOAD", fmt::format("{}", fmt::join(libraries->preload, ":")));
  return {};
}

Result<void> add_guard(const Session& session, const ledger::Store& store, const RunOptions& options, Plan& plan) {
  const auto shim = preloadable_folder(store, "shim");
  if (!shim) return tl::unexpected(shim.error());
  if (session.simulated) {
    const std::string program = options.program.empty() ? "" : options.program.front();
    if (auto good = add_simulation(session, store, program, options.simulated_cuda, plan); !good) return good;
    plan.sets["RATION_DRIVER_PATH"] = *session.driver_folder();
  }
  prepend(plan.sets, "LD_PRELOAD", *shim + "/libcuda.so.1:" + *shim + "/libnvidia-ml.so.1");
  // Not for everybody: the linker then has little room for the thread-local memory of libraries that a program is
  // linked with (3 KiB in glibc 2.36), and one that needs more does not start.
  if (options.require_enforced) prepend(plan.sets, "LD_AUDIT", *shim + "/libration-audit.so");
  return {};
}

Result<Plan> resolve(const Session& session, RunOptions& options, const ledger::Store& store,
                     policy::Machine& machine) {
  if (auto good = apply_settings(options); !good) return tl::unexpected(good.error());
  auto looked = session.machine();
  if (!looked) return tl::unexpected(looked.error());
  machine = std::move(*looked);
  auto plan = policy::make_plan(options.wish, machine, store, [&](const auto& device) {
    const auto cost = measured_context(session, device);
    if (cost && !session.dry_run) policy::remember_context_cost(device, machine.driver_version, store.folder(), *cost);
    return cost;
  });
  if (!plan) return plan;
  if (auto good = add_guard(session, store, options, *plan); !good) return tl::unexpected(good.error());
  return plan;
}

void show_plan(const Session& session, const RunOptions& options, const Plan& plan, const std::string& escape) {
  if (session.format() == Format::kJson) {
    auto accounts = nlohmann::json::array();
    for (const auto& account : plan.accounts) {
      accounts.push_back({{"gpu", account.device.index},
                          {"uuid", account.device.uuid},
                          {"name", account.device.name},
                          {"limit_bytes", account.limit.count()},
                          {"guarantee_bytes", account.guarantee.count()}});
    }
    session.print_json("run", {{"program", options.program},
                               {"accounts", accounts},
                               {"slice", plan.slice},
                               {"tenant", plan.tenant},
                               {"on_deny", plan.on_deny == ledger::OnDeny::kWait ? "wait" : "fail"},
                               {"simulation", plan.simulation},
                               {"enforced_by", escape.empty() ? "shim" : "nothing"},
                               {"escape", escape},
                               {"sets", plan.sets},
                               {"keeps", plan.keeps}});
    return;
  }
  fmt::print("would run   {}\n", joined(options.program));
  for (const auto& account : plan.accounts) {
    fmt::print("on          GPU {}  {}  {}  (PCI order)\n", account.device.index, account.device.name,
               account.device.uuid);
    fmt::print("limit       {} ({} granules of 2 MiB{})   guarantee {}   on deny: {}\n", session.size(account.limit),
               account.limit.count() >> 21,
               account.typed ? fmt::format("; rounded down from {} bytes", account.typed->count()) : "",
               account.guarantee > Bytes{0} ? session.size(account.guarantee) : "none",
               plan.on_deny == ledger::OnDeny::kFail ? "fail" : "wait");
  }
  if (!plan.slice.empty()) fmt::print("slice       {}\n", plan.slice);
  if (!plan.simulation.empty()) fmt::print("simulated   {}\n", plan.simulation);
  fmt::print("guard       {}\n", escape.empty()
                                     ? "preload: covers every memory call of the driver API, however it is found"
                                     : "NONE: " + escape);
  fmt::print(
      "            does not cover: direct ioctl use, static or set-uid programs, a cleared LD_PRELOAD (ration help "
      "enforcement)\n");
  for (const auto& [name, value] : plan.sets) fmt::print("sets        {}={}\n", name, value);
  for (const auto& [name, value] : plan.keeps) fmt::print("keeps       {}={} (yours)\n", name, value);
}

ledger::NewBook book_of(const Session& session, const Plan& plan, const RunOptions& options, std::uint64_t number) {
  ledger::NewBook book;
  book.simulation = session.context.simulated;
  const std::string base = std::filesystem::path(options.program.front()).filename().string().substr(0, 40);
  book.name = plan.name.empty() ? fmt::format("{}-{}", base.empty() ? "run" : base, number) : plan.name;
  book.name = printable(std::move(book.name), '_');
  std::replace_if(
      book.name.begin(), book.name.end(),
      [](char letter) { return static_cast<unsigned char>(letter) <= 0x20 || letter == ','; }, '_');
  book.tenant = plan.tenant;
  book.slice = plan.slice;
  book.labels = plan.labels;
  book.command = joined(options.program);
  book.run_number = number;
  book.on_deny = plan.on_deny;
  book.wait_ns = plan.wait_ns;
  book.account_mode = plan.account_mode;
  book.managed = plan.managed;
  for (const auto& planned : plan.accounts) {
    book.accounts.push_back({planned.device.bytes, planned.device.name, planned.device.total, planned.limit,
                             planned.guarantee, planned.context.value_or(Bytes{0})});
  }
  return book;
}

Result<std::string> make_book(const ledger::Store& store, const ledger::NewBook& contents) {
  for (const auto& present : store.list()) {
    if (!present.live || present.contents.name != contents.name) continue;
    return fail("E1410",
                fmt::format("a workload named '{}' is running (pid {}).", contents.name, present.contents.creator.pid),
                "Choose another --name, or leave it out.", 125);
  }
  const std::string path = store.path_of(contents.name, contents.run_number);
  const BookStatus status = Book::create(path.c_str(), contents);
  if (status == BookStatus::kOk) return path;
  return fail("E1405", fmt::format("no book could be made at {}: {}.", path, ledger::describe(status)),
              status == BookStatus::kNoSpace ? "Free some space there, or export RATION_RUNTIME_DIR=<another folder>."
                                             : "export RATION_RUNTIME_DIR=<a folder of yours>",
              125);
}

nlohmann::json summary_of(const BookSnapshot& book, int exit_code) {
  auto accounts = nlohmann::json::array();
  for (const auto& account : book.accounts) {
    accounts.push_back({{"device", account.device_name},
                        {"limit_bytes", account.limit.count()},
                        {"guarantee_bytes", account.guarantee.count()},
                        {"peak_bytes", account.peak.count()},
                        {"denials", account.denials}});
  }
  return {{"schema", "ration.summary/1"},
          {"workload", book.name},
          {"tenant", book.tenant},
          {"run", book.run_number},
          {"command", book.command},
          {"exit_code", exit_code},
          {"started", utc(book.created_ns)},
          {"ended", utc(book.ended_ns)},
          {"seconds", static_cast<double>(book.ended_ns - book.created_ns) / 1e9},
          {"accounts", accounts}};
}

void summarise(const Session& session, const BookSnapshot& book, const RunOptions& options, const Plan& plan,
               int exit_code) {
  if (options.summary.rfind("json:", 0) == 0) {
    const std::string path = options.summary.substr(5);
    if (std::ofstream file(path);
        !(file << summary_of(book, exit_code).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n")) {
      fmt::print(stderr, "E1405 ration: {} cannot be written.\n      --summary json:/a/folder/of/yours/run.json\n",
                 path);
    }
    return;
  }
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (options.summary == "never" || (options.summary == "auto" && !terminal)) return;
  for (std::size_t i = 0; i < book.accounts.size(); ++i) {
    const auto& account = book.accounts[i];
    const auto percent = account.limit > Bytes{0} ? account.peak.count() * 100 / account.limit.count() : 0;
    fmt::print(
        stderr, "ration: {} · {} · peak {} of {} ({}%) · {} denied · GPU {} {}{}\n", book.command,
        format_duration(book.ended_ns - book.created_ns), format_size(account.peak), format_size(account.limit),
        percent, account.denials, plan.accounts[i].device.index, account.device_name,
        account.denials == 0
            ? ""
            : " · " + session.hint(command({"why", fmt::format("d-{}-{}", book.run_number, book.denial_count)})));
  }
}

/// Waits until the daemon says where there is room; from then on the whole limit is promised to it.
Result<std::string> queue_up(const Session& session, RunOptions& options, const ledger::Store& store) {
  auto daemon = NodeClient::require(session);
  if (!daemon) return tl::unexpected(daemon.error());
  RunOptions wanted = options;
  wanted.wish.guarantee.clear();  // promised when there is room, not now
  policy::Machine machine;
  const auto plan = resolve(session, wanted, store, machine);
  if (!plan) return tl::unexpected(plan.error());
  Bytes bytes;
  for (const auto& account : plan->accounts) bytes = std::max(bytes, account.limit);
  if (wanted.wish.limit.empty() || bytes >= kUnlimited)
    return fail("E1310", "--wait needs to know for how much.", "ration run --wait --limit 20GiB -- …", 2);
  const auto lease = wait_for_lease(session, *daemon, wanted, bytes);
  if (!lease) return tl::unexpected(lease.error());
  options.wish.gpu = lease->gpus;
  options.wish.guarantee = exact_size(bytes);
  return lease->id;
}

/// What came of one start of the program.
struct Outcome {
  int exit_code = 0;
  BookSnapshot book;  ///< without accounts: nothing ran
  Plan plan;
};

/// `+25%` or `+2GiB` of a limit, in whole MiB. E1311.
Result<Bytes> raised(Bytes limit, const std::string& step) {
  const auto wrong = [&] {
    return fail("E1311", fmt::format("'{}' is no step of a limit.", step), "--retry-limit +25%, or +2GiB", 2);
  };
  if (step.size() < 2 || step.front() != '+') return wrong();
  const auto more = parse_size(step.substr(1), limit, limit);
  if (!more || *more == Bytes{0}) return wrong();
  return Bytes{(limit + *more).count() >> 20 << 20};
}

void explain_start_failure(const Session& session, const std::string& program, int error) {
  const std::string word = shell_word(program);
  const auto print = [&](const char* id, const std::string& what, const std::string& fix) {
    session.print_finding(id, fmt::format("'{}' {}.", program, what), fix);
  };
  if (error == ENOENT) return print("E1419", "was not found", "Give its path, or look at PATH: command -v " + word);
  if (error == EACCES && program.ends_with(".py"))
    return print("E1401", "is not executable",
                 "Did you mean: " + command({"run", "--limit", "4GiB", "--", "python", program}) + " ?");
  print("E1401", fmt::format("cannot be started: {}", std::strerror(error)),
        fmt::format("chmod +x {}   (or give the interpreter: {})", word, command({"run", "--", "python", program})));
}

}  // namespace

Result<int> env(const Session& session, RunOptions options) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  policy::Machine machine;
  const auto plan = resolve(session, options, *store, machine);
  if (!plan) return tl::unexpected(plan.error());
  if (session.format() == Format::kJson) {
    session.print_json("env", {{"sets", plan->sets}, {"keeps", plan->keeps}});
    return 0;
  }
  fmt::print("# what `ration run` sets for the program; RATION_BOOK is added when the run starts\n");
  for (const auto& [name, value] : plan->sets) fmt::print("export {}='{}'\n", name, value);
  for (const auto& [name, value] : plan->keeps) fmt::print("# kept: {}={}\n", name, value);
  return 0;
}

Result<int> simulation(const Session& session, const SimulationOptions& options,
                       const std::vector<std::string>& program) {
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  if (const auto machine = session.machine(); !machine) return tl::unexpected(machine.error());
  Plan plan;
  const std::string first = program.empty() ? "" : program.front();
  if (auto good = add_simulation(session, *store, first, options.cuda, plan); !good)
    return tl::unexpected(good.error());
  if (session.format() == Format::kJson) {
    session.print_json("sim", {{"sets", plan.sets}, {"simulation", plan.simulation}});
    return 0;
  }
  fmt::print("# simulated: {}; without a limit\n", plan.simulation);
  for (const auto& [name, value] : plan.sets) fmt::print("export {}='{}'\n", name, value);
  return 0;
}

namespace {

Result<Outcome> run_once(const Session& session, RunOptions options, const ledger::Store& store,
                         std::optional<NodeClient>& daemon) {
  std::string path, lease;
  policy::Machine machine;
  Plan plan;
  if (options.queue && !session.dry_run) {
    auto granted = queue_up(session, options, store);
    if (!granted) return tl::unexpected(granted.error());
    lease = std::move(*granted);
  }
  {
    // Promises are checked and entered, and names taken, by one run at a time.
    const auto alone = store.lock();
    auto resolved = resolve(session, options, store, machine);
    if (!resolved) return tl::unexpected(resolved.error());
    plan = std::move(*resolved);
    std::string escape;
    if (auto good = check_program(options, escape); !good) return tl::unexpected(good.error());
    if (session.dry_run) {
      show_plan(session, options, plan, escape);
      return Outcome{};
    }
    const auto number = store.next_run();
    if (!number) return tl::unexpected(number.error());
    ledger::NewBook contents = book_of(session, plan, options, *number);
    if (daemon) {
      auto tenant = register_workload(*daemon, store.folder(), store.path_of(contents.name, *number), options.wish,
                                      contents.labels, lease, plan.accounts);
      if (!tenant && !lease.empty()) (void)daemon->remove("/api/v1/leases/" + lease);
      const bool other_node = !tenant && tenant.error().id == "E1532" && lease.empty() && !daemon->was_named();
      if (!tenant && !other_node) return tl::unexpected(tenant.error());
      if (other_node)
        daemon.reset();  // the machine's, and these are simulated devices: nobody governs them
      else
        contents.tenant = std::move(*tenant);
    }
    auto made = make_book(store, contents);
    if (!made) return tl::unexpected(made.error());
    path = std::move(*made);
  }
  if (daemon) show_book(*daemon, store.folder(), options.wish.tenant, plan.labels);
  for (const auto& [name, value] : plan.sets) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("RATION_BOOK", path.c_str(), 1);

  const Ended ended = launch(options.program);
  if (ended.start_error != 0) {
    ::unlink(path.c_str());  // nothing ran, so nothing is left behind
    explain_start_failure(session, options.program.front(), ended.start_error);
    return Outcome{ended.exit_code, {}, {}};
  }
  Outcome outcome{ended.exit_code, {}, std::move(plan)};
  Book book;
  if (Book::open(path.c_str(), book) == BookStatus::kOk) {
    book.reap();
    book.mark_ended(ended.exit_code);
  }
  if (Book::read(path.c_str(), outcome.book) == BookStatus::kOk)
    summarise(session, outcome.book, options, outcome.plan, ended.exit_code);
  return outcome;
}

/// The last denial, if it stood shortly before the end: then it is taken for the reason.
const ledger::Denial* denied_to_death(const Outcome& outcome) {
  constexpr std::uint64_t kShortlyNs = 5'000'000'000;
  if (outcome.exit_code == 0 || outcome.book.denials.empty()) return nullptr;
  const ledger::Denial& last = outcome.book.denials.back();
  return last.time_ns + kShortlyNs >= outcome.book.ended_ns ? &last : nullptr;
}

}  // namespace

Result<int> run(const Session& session, RunOptions options) {
  if (options.print_env) return env(session, std::move(options));
  if (options.program.empty())
    return fail("E1402", "no program to run.", "ration run --limit 4GiB -- python train.py", 2);
  if (auto good = refuse_nesting(); !good) return tl::unexpected(good.error());
  if (const auto good = raised(Bytes{std::uint64_t{1} << 30}, options.retry_limit); !good)
    return tl::unexpected(good.error());
  const auto store = session.store();
  if (!store) return tl::unexpected(store.error());
  auto daemon = NodeClient::find(session);
  if (!daemon) return tl::unexpected(daemon.error());
  int failed_with = 0;  // the program's own word, once it ran
  for (int attempt = 0;; ++attempt) {
    const auto outcome = run_once(session, options, *store, *daemon);
    if (!outcome && attempt > 0) {
      session.print_error("run", outcome.error());
      return failed_with;
    }
    if (!outcome) return tl::unexpected(outcome.error());
    failed_with = options.denied_exit != 0 ? options.denied_exit : outcome->exit_code;
    const ledger::Denial* denial = denied_to_death(*outcome);
    if (denial == nullptr) return outcome->exit_code;
    if (denial->account >= std::min(outcome->book.accounts.size(), outcome->plan.accounts.size()))
      return outcome->exit_code;  // a device that it was not given
    const auto& account = outcome->book.accounts[denial->account];
    // As it was asked for: what the book says may be less at that moment, for others' sake.
    const Bytes limit = std::max(account.limit, outcome->plan.accounts[denial->account].limit);
    const Bytes more = std::min(*raised(limit, options.retry_limit), account.device_total);
    if (attempt == options.retries || more <= limit) return failed_with;
    fmt::print(stderr, "ration: denied at {} (d-{}-{}) and the program ended with {} · retry {} of {} with {}\n",
               format_size(limit), outcome->book.run_number, denial->sequence, outcome->exit_code, attempt + 1,
               options.retries, format_size(more));
    options.wish.limit = exact_size(more);
  }
}

}  // namespace ration::cli
