// `ration run`: starts a program, with all that it starts, under one limit.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "adapters/containers/wrapper.hpp"
#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/time.hpp"
#include "book/book.hpp"
#include "book/container_books.hpp"
#include "book/workload_book.hpp"
#include "cli/session/standard_streams.hpp"
#include "cli/start/admission.hpp"
#include "cli/start/container_edits.hpp"
#include "cli/start/guarded.hpp"
#include "cli/start/launch.hpp"
#include "cli/start/run_recording.hpp"
#include "cli/start/stray_watch.hpp"
#include "cli/start/tensorboard_log.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/text/fields.hpp"
#include "cli/verbs/verbs.hpp"
#include "machine/process_origin.hpp"
#include "node/books/machine_daemon.hpp"

namespace ration::cli {
namespace {

using admission::Plan;
using book::Book;
using book::BookSnapshot;
using book::BookStatus;

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

/// Returns the workload that this process runs in. Finds the workload by the container, by the environment or, if a
/// program cleared the environment, by this process's ancestors.
std::optional<std::string> workload_around(const book::Store& store) {
  const char* book = book::workload_book();
  BookSnapshot outer;
  if (book != nullptr && Book::read(book, outer) == BookStatus::kOk && outer.ended_ns == 0) return outer.name;
  const std::uint64_t own_namespace = current_process().pid_namespace;
  for (const book::StoredBook& stored : store.list()) {
    const ProcessIdentity& creator = stored.contents.creator;
    if (stored.live && creator.pid > 1 && creator.pid_namespace == own_namespace &&
        machine::descends_from(::getpid(), creator.pid))
      return stored.contents.name;
  }
  return std::nullopt;
}

// Returns E1414 inside a workload, since a limit inside a limit would be a way out of the outer one.
Result<void> refuse_nesting(const book::Store& store) {
  const auto outer = workload_around(store);
  if (!outer) return {};
  return fail("E1414", fmt::format("this process runs under the limit of workload {} already.", *outer),
              command({"set", *outer, "--limit", "SIZE"}) +
                  "   changes that limit; start other workloads outside this workload.",
              125);
}

constexpr const char* kCovered =
    "preload: covers every memory call of the driver API, however the program finds the function";

void show_plan(const Session& session, const RunOptions& options, const Plan& plan,
               const machine::Enforcement& examined) {
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
                               {"host_limit_bytes", limit_field(plan.host_limit)},
                               {"on_deny", plan.on_deny == book::OnDeny::kWait ? "wait" : "fail"},
                               {"simulation", plan.simulation},
                               {"enforced_by", examined.hold == machine::Hold::kNothing ? "nothing" : "shim"},
                               {"escape", examined.reason},
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
               plan.on_deny == book::OnDeny::kFail ? "fail" : "wait");
  }
  if (plan.host_limit < kUnlimited) fmt::print("host        {} of pinned memory\n", session.size(plan.host_limit));
  if (!plan.slice.empty()) fmt::print("slice       {}\n", plan.slice);
  if (!plan.simulation.empty()) fmt::print("simulated   {}\n", plan.simulation);
  fmt::print("guard       {}\n", examined.hold == machine::Hold::kNothing    ? "NONE: " + examined.reason
                                 : examined.hold == machine::Hold::kChildren ? examined.reason
                                                                             : kCovered);
  fmt::print(
      "            does not cover: direct ioctl use, direct system calls, static or set-uid programs (ration help "
      "enforcement)\n");
  for (const auto& [name, value] : plan.sets) fmt::print("sets        {}={}\n", name, value);
  for (const auto& [name, value] : plan.keeps) fmt::print("keeps       {}={} (yours)\n", name, value);
}

using Strays = std::map<std::int32_t, Stray>;

nlohmann::json summary_of(const BookSnapshot& book, int exit_code, const Strays& strays) {
  auto accounts = nlohmann::json::array();
  for (const auto& account : book.accounts) {
    accounts.push_back({{"device", account.device_name},
                        {"limit_bytes", account.limit.count()},
                        {"guarantee_bytes", account.guarantee.count()},
                        {"peak_bytes", account.peak.count()},
                        {"denials", account.denials}});
  }
  auto ungoverned = nlohmann::json::array();
  for (const auto& [pid, stray] : strays)
    ungoverned.push_back({{"pid", pid}, {"command", stray.command}, {"peak_bytes", stray.most.count()}});
  return {{"schema", "ration.summary/1"},
          {"workload", book.name},
          {"tenant", book.tenant},
          {"run", book.run_number},
          {"command", book.command},
          {"exit_code", exit_code},
          {"started", utc(book.created_ns)},
          {"ended", utc(book.ended_ns)},
          {"seconds", static_cast<double>(book.ended_ns - book.created_ns) / 1e9},
          {"accounts", accounts},
          {"host_memory",
           {{"limit_bytes", limit_field(book.host.in_force())},
            {"peak_bytes", book.host.peak.count()},
            {"denials", book.host.denials}}},
          {"ungoverned", ungoverned}};
}

constexpr std::string_view kJsonSummary = "json:";

/// Returns E1405, before anything starts, if the file of the summary cannot be written.
Result<void> check_summary(const std::string& summary) {
  if (!summary.starts_with(kJsonSummary)) return {};
  const std::filesystem::path file = summary.substr(kJsonSummary.size());
  std::error_code error;
  const bool is_there = std::filesystem::exists(file, error);
  const std::filesystem::path place = is_there ? file : file.has_parent_path() ? file.parent_path() : ".";
  const bool good =
      is_there ? !std::filesystem::is_directory(file, error) : std::filesystem::is_directory(place, error);
  if (good && !file.empty() && ::access(place.c_str(), is_there ? W_OK : W_OK | X_OK) == 0) return {};
  return fail("E1405", fmt::format("the summary cannot be written to {}.", file.string()),
              "--summary json:/a/folder/of/yours/run.json", 125);
}

void summarise(const Session& session, const BookSnapshot& book, const RunOptions& options, const Plan& plan,
               int exit_code, const Strays& strays) {
  // Prints this in every format, even without a summary: nobody must believe that a limit held memory that escaped.
  for (const auto& [pid, stray] : strays) {
    fmt::print(stderr,
               "ration: UNGOVERNED pid {} ({}) of this workload held {} without the guard, under no limit · {}\n", pid,
               printable(stray.command.substr(0, stray.command.find(' '))),
               stray.most > Bytes{0} ? format_size(stray.most) : "n/a (the driver does not report it)",
               session.hint("ration help enforcement"));
  }
  if (options.summary.starts_with(kJsonSummary)) {
    const std::string path = options.summary.substr(kJsonSummary.size());
    if (std::ofstream file(path);
        !(file << summary_of(book, exit_code, strays).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
               << "\n"
               << std::flush)) {
      fmt::print(stderr, "E1405 ration: {} cannot be written.\n      --summary json:/a/folder/of/yours/run.json\n",
                 path);
    }
    return;
  }
  const bool failed_after_denial = exit_code != 0 && book.denial_count > 0;
  const bool is_wanted = options.summary == "always" || ::isatty(STDERR_FILENO) != 0 || failed_after_denial;
  if (options.summary == "never" || !is_wanted) return;
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

/// Waits until the daemon grants GPUs with room; from then on the whole limit is promised to this run.
Result<std::string> queue_up(const Session& session, RunOptions& options, const book::Store& store) {
  RATION_TRY(auto daemon, NodeClient::require(session));
  RunOptions wanted = options;
  wanted.request.guarantee.clear();  // the guarantee is promised only once there is room
  // Contexts are measured later, on the GPUs that are granted.
  RATION_TRY(const auto plan, resolve(session, wanted, store, Measuring::kNo));
  wanted.request.gpu = wanted.asked_gpus;
  Bytes bytes;
  for (const auto& account : plan.accounts) bytes = std::max(bytes, account.limit);
  if (wanted.request.limit.empty() || bytes >= kUnlimited)
    return fail("E1310", "--wait needs a --limit to wait for.", "ration run --wait --limit 20GiB -- …", 2);
  RATION_TRY(const auto lease, wait_for_lease(session, daemon, wanted, bytes));
  options.request.gpu = lease.gpus;
  options.request.guarantee = exact_size(bytes);
  return lease.id;
}

/// Returns the command line that starts the engine with its container's book at `book`.
Result<std::vector<std::string>> program_of(const Session& session, const RunOptions& options, const book::Store& store,
                                            const std::string& book) {
  if (options.engine.empty()) return options.program;
  RATION_TRY(const auto edits, container_edits(session, store));
  return adapters::with_options(options.engine, options.program, adapters::options_of(options.engine, edits, book));
}

/// Makes the file for TensorBoard, if one was asked for. Fails with E1405.
Result<std::unique_ptr<TensorboardLog>> tensorboard_log(const RunOptions& options, const std::string& book,
                                                        const Plan& plan) {
  if (options.tensorboard.empty()) return nullptr;
  std::vector<int> gpus;
  for (const auto& account : plan.accounts) gpus.push_back(account.device.index);
  return TensorboardLog::open(options.tensorboard, book, std::move(gpus));
}

/// Writes the last values for TensorBoard and prints what is missing.
void end_log(TensorboardLog* log) {
  if (log == nullptr) return;
  const std::string problem = log->finish();
  if (!problem.empty()) tell([&] { fmt::print(stderr, "ration: {}\n", problem); });
}

/// Prints that the book was removed, replaced or damaged by somebody else, so that nothing is known of the run.
void report_lost_book(const Session& session, const std::string& name, const std::string& path, BookStatus status) {
  session.print_finding(
      "E1451",
      fmt::format("the book of {} was {} while the workload ran: {}. Processes that the workload started later got "
                  "no GPU memory, and the memory that the workload held is not known.",
                  name, status == BookStatus::kMissing ? "removed" : "replaced or damaged", path),
      path.starts_with("/run/user/") ? "loginctl enable-linger   keeps that folder after the last logout"
                                     : "export RATION_RUNTIME_DIR=<a folder that nothing cleans>");
}

/// The outcome of one start of the program.
struct Outcome {
  int exit_code = 0;
  BookSnapshot book;  ///< book at the end; without accounts if nothing ran
  Plan plan;
};

/// Returns a limit raised by a step, `+25%` or `+2GiB`, in whole MiB. Fails with E1311.
Result<Bytes> raised(Bytes limit, const std::string& step) {
  const auto wrong = [&] {
    return fail("E1311", fmt::format("--retry-limit '{}' does not say how much to add to the limit.", step),
                "--retry-limit +25%, or +2GiB", 2);
  };
  if (step.size() < 2 || step.front() != '+') return wrong();
  const auto more = parse_size(step.substr(1), limit, limit);
  if (!more || *more == Bytes{0}) return wrong();
  return Bytes{(limit + *more).count() >> 20 << 20};
}

/// Returns true for a variable with its value, as a shell takes it before a program: `TF_X=1`.
bool is_assignment(const std::string& word) {
  const std::size_t length = word.find('=');
  const auto is_of_name = [](unsigned char letter) { return std::isalnum(letter) != 0 || letter == '_'; };
  return length != std::string::npos && length > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(length), is_of_name);
}

/// Returns the typed line with the variables at the beginning of the program put in front of it; an empty text if there
/// are none, or nothing follows them.
std::string with_variables_in_front(const std::vector<std::string>& program) {
  const auto first = std::find_if_not(program.begin(), program.end(), is_assignment);
  std::vector<std::string> typed = words_of_process(::getpid());
  if (first == program.begin() || first == program.end() || typed.size() <= program.size()) return {};
  typed.resize(typed.size() - program.size());
  if (typed.back() == "--") typed.pop_back();
  std::string line;
  for (auto each = program.begin(); each != first; ++each) {
    const std::size_t value = each->find('=') + 1;
    line += each->substr(0, value) + (value == each->size() ? "" : shell_word(each->substr(value))) + " ";
  }
  line += "ration";
  for (std::size_t i = 1; i < typed.size(); ++i) line += " " + shell_word(typed[i]);
  return line + " -- " + shown_command({first, program.end()});
}

void explain_start_failure(const Session& session, const std::vector<std::string>& words, int error) {
  const std::string& program = words.front();
  const std::string word = shell_word(program);
  const auto print = [&](const char* id, const std::string& what, const std::string& fix) {
    session.print_finding(id, fmt::format("'{}' {}.", program, what), fix);
  };
  if (error == ENOENT && program == "nvidia-smi")
    return print("E1419", "was not found",
                 "NVIDIA provides this program: apt install nvidia-smi (Debian, component non-free) or "
                 "nvidia-utils-RELEASE (Ubuntu). With --sim the program needs no driver");
  std::error_code problem;
  if (error == ENOENT && program.ends_with(".py") && std::filesystem::exists(program, problem))
    return print("E1419", "is not in PATH",
                 "Did you mean: " + command({"run", "--limit", "4GiB", "--", "python", program}) + " ?");
  if (const std::string line = with_variables_in_front(words); error == ENOENT && !line.empty())
    return print("E1419", "is a variable, not a program", "Put it before 'ration run': " + line);
  if (error == ENOENT) return print("E1419", "was not found", "Give its path, or check PATH: command -v " + word);
  if (error == EACCES && program.ends_with(".py"))
    return print("E1401", "is not executable",
                 "Did you mean: " + command({"run", "--limit", "4GiB", "--", "python", program}) + " ?");
  const auto kind = std::filesystem::status(program, problem).type();
  if (kind != std::filesystem::file_type::regular)
    return print("E1401", kind == std::filesystem::file_type::directory ? "is a folder" : "is not a program",
                 "Give the program: " + command({"run", "--limit", "4GiB", "--"}) + " PROGRAM");
  print("E1401", fmt::format("cannot be started: {}", std::strerror(error)),
        fmt::format("chmod +x {}   (or give the interpreter: {})", word, command({"run", "--", "python", program})));
}

std::string name_in(const std::string& path) {
  BookSnapshot book;
  return Book::read(path.c_str(), book) == BookStatus::kOk ? book.name : "";
}

Result<Outcome> run_once(const Session& session, RunOptions options, const book::Store& store,
                         std::optional<NodeClient>& daemon) {
  std::string lease;
  if (session.dry_run) {
    RATION_TRY(const auto plan, resolve(session, options, store));
    RATION_TRY(auto program, program_of(session, options, store, "BOOK"));
    options.program = program;
    machine::Enforcement held;  // the default, for a container: the files that it gets hold it
    if (options.engine.empty()) held = examine(options, plan);
    show_plan(session, options, plan, held);
    return Outcome{};
  }
  if (options.queue) {
    RATION_TRY(auto granted, queue_up(session, options, store));
    lease = std::move(granted);
  }
  RATION_TRY(auto started, start_workload(session, options, store, lease, daemon));
  auto& [path, plan, policy_file] = started;
  std::vector<std::string> uuids;
  for (const auto& account : plan.accounts) uuids.push_back(account.device.uuid);
  if (!daemon && ::isatty(STDERR_FILENO) != 0 && node::machine_daemon_is_missing(uuids))
    fmt::print(stderr, "ration: {}\n", kDaemonIsMissing);
  const auto program = program_of(session, options, store, path);
  if (!program) {
    ::unlink(path.c_str());
    return tl::unexpected(program.error());
  }
  const auto log = tensorboard_log(options, path, plan);
  if (!log) {
    book::remove_book(path);
    return tl::unexpected(log.error());
  }
  if (options.engine.empty()) {
    for (const auto& [name, value] : plan.sets) ::setenv(name.c_str(), value.c_str(), 1);
    ::setenv("RATION_BOOK", path.c_str(), 1);
    if (options.allow_ungoverned)
      ::setenv("RATION_ALLOW_UNGOVERNED", "1", 1);  // the guard does not return to a child that drops it
    else
      ::unsetenv("RATION_ALLOW_UNGOVERNED");
  }

  std::optional<StrayWatch> watch;
  const std::string name = name_in(path);
  std::unique_ptr<RunRecording> recording;
  ::unsetenv("RATION_RECORD");
  ::unsetenv("RATION_RECORD_SITES");
  if (!policy_file.empty()) {
    options.record = policy_file;
    options.is_policy_recording = true;
  }
  if (!options.record.empty()) {
    auto begun = RunRecording::begin(options, store, name, plan);
    if (!begun && !options.is_policy_recording) {
      ::unlink(path.c_str());
      return tl::unexpected(begun.error());
    }
    if (begun)
      recording = std::move(*begun);
    else
      session.print_finding(begun.error().id,
                            "a policy of the daemon asks for a recording, but " + std::string(begun.error().what),
                            "XDG_STATE_HOME=/a/folder/of/yours ration run …");
  }
  const Ended ended = launch(*program, [&] {
    watch.emplace(session, name);
    if (*log) (*log)->start();
  });
  if (recording) recording->program_ended(ended.pid, ended.exit_code);
  const auto strays = watch ? watch->finish(ended.left_running) : std::map<std::int32_t, Stray>{};
  if (ended.start_error != 0) {
    book::remove_book(path);  // nothing ran, so no book must stay
    if (*log) (*log)->discard();
    if (recording) recording->drop();
    tell([&] { explain_start_failure(session, options.program, ended.start_error); });
    return Outcome{ended.exit_code, {}, {}};
  }
  Outcome outcome{ended.exit_code, {}, std::move(plan)};
  if (const BookStatus status = Book::read(path.c_str(), outcome.book); status != BookStatus::kOk) {
    end_log(log->get());
    tell([&] { report_lost_book(session, name, path, status); });
    return outcome;
  }
  Book book;
  if (!options.engine.empty()) {
    book::retire(path, ended.exit_code);  // treats the book as hostile, since the container could write to it
  } else if (Book::open(path.c_str(), book) == BookStatus::kOk) {
    book.processes().reap();
    book.mark_ended(ended.exit_code);
  }
  end_log(log->get());
  if (Book::read(path.c_str(), outcome.book) == BookStatus::kOk)
    tell([&] { summarise(session, outcome.book, options, outcome.plan, ended.exit_code, strays); });
  if (recording) tell([&] { recording->finish(session, ended.left_running); });
  return outcome;
}

/// Returns the last denial if it came shortly before the end and so probably caused it; otherwise null.
const book::Denial* denied_to_death(const Outcome& outcome) {
  constexpr std::uint64_t kShortlyNs = 5'000'000'000;
  if (outcome.exit_code == 0 || outcome.book.denials.empty()) return nullptr;
  const book::Denial& last = outcome.book.denials.back();
  return last.time_ns + kShortlyNs >= outcome.book.ended_ns ? &last : nullptr;
}

}  // namespace

Result<int> run(const Session& session, RunOptions options) {
  if (options.print_env) return env(session, std::move(options));
  if (options.program.empty())
    return fail("E1402", "no program to run.", "ration run --limit 4GiB -- python train.py", 2);
  if (const auto good = raised(Bytes{std::uint64_t{1} << 30}, options.retry_limit); !good)
    return tl::unexpected(good.error());
  RATION_TRY(check_summary(options.summary));
  if (!options.tensorboard.empty() && !session.dry_run) {
    RATION_TRY(TensorboardLog::prepare(options.tensorboard));
  }
  if (!options.record.empty() && !session.dry_run) {
    RATION_TRY(RunRecording::check(options.record));
  }
  RATION_TRY(const auto store, session.store());
  RATION_TRY(refuse_nesting(store));
  RATION_TRY(auto daemon, NodeClient::find(session));
  int failed_with = 0;  // exit code of the program's last failure
  for (int attempt = 0;; ++attempt) {
    const auto outcome = run_once(session, options, store, daemon);
    if (!outcome && attempt > 0) {
      tell([&] { session.print_error("run", outcome.error()); });
      return failed_with;
    }
    if (!outcome) return tl::unexpected(outcome.error());
    failed_with = options.denied_exit != 0 ? options.denied_exit : outcome->exit_code;
    const book::Denial* denial = denied_to_death(*outcome);
    if (denial == nullptr) return outcome->exit_code;
    if (denial->account >= std::min(outcome->book.accounts.size(), outcome->plan.accounts.size()))
      return outcome->exit_code;  // a larger limit cannot help: the denied device was not granted
    const auto& account = outcome->book.accounts[denial->account];
    // Raises the limit that was asked for, since the limit in the book may be lower while others need the room.
    const Bytes limit = std::max(account.limit, outcome->plan.accounts[denial->account].limit);
    const Bytes more = std::min(*raised(limit, options.retry_limit), account.device_total);
    if (attempt == options.retries || more <= limit) return failed_with;
    tell([&] {
      fmt::print(stderr, "ration: denied at {} (d-{}-{}) and the program ended with {} · retry {} of {} with {}\n",
                 format_size(limit), outcome->book.run_number, denial->sequence, outcome->exit_code, attempt + 1,
                 options.retries, format_size(more));
    });
    options.request.limit = exact_size(more);
  }
}

}  // namespace ration::cli
