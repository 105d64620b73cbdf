// `ration run`: one program, and all that it starts, under one limit.
#include <fmt/format.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/units.hpp"
#include "cli/devices.hpp"
#include "cli/verbs.hpp"
#include "ledger/store.hpp"

namespace ration::cli {
namespace {

using ledger::Book;
using ledger::BookSnapshot;
using ledger::BookStatus;

/// Folder of the shim or the simulator: installed under lib/ration, in a build tree beside bin.
Result<std::string> library_folder(const std::string& kind) {
  const auto here = std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
  for (const auto& folder : {here / "lib" / "ration" / kind, here / kind}) {
    if (std::filesystem::exists(folder / "libcuda.so.1")) return folder.string();
  }
  return fail("E1406", fmt::format("the {} libraries are not beside this program.", kind), "Install the whole package again.", 125);
}

Result<Device> choose(const std::vector<Device>& devices, const std::string& wanted) {
  if (wanted == "auto") {
    return *std::max_element(devices.begin(), devices.end(), [](const auto& left, const auto& right) { return left.free < right.free; });
  }
  for (const Device& device : devices) {
    if (wanted == std::to_string(device.index) || (wanted.size() > 4 && device.uuid.rfind(wanted, 0) == 0)) return device;
  }
  return fail("E1407", fmt::format("there is no GPU '{}'; this machine has {}.", wanted, devices.size()),
              fmt::format("Use --gpu 0 to {} or a UUID.", devices.size() - 1), 3);
}

Result<Bytes> checked_limit(const std::string& text, const Device& device) {
  const Result<Bytes> asked = parse_size(text, device.total);
  if (!asked) return asked;
  if (*asked > device.total && *asked != kUnlimited) {
    return fail("E1104", fmt::format("limit {} is more than GPU {} has ({}).", text, device.index, format_size(device.total)),
                "Use --limit max.", 2);
  }
  const Bytes limit = round_down(std::min(*asked, device.total), kGranule);
  if (limit == Bytes{0}) {
    return fail("E1105", fmt::format("limit {} is less than one granule of device memory (2.00 MiB).", text),
                "Give at least 512MiB.", 2);
  }
  return limit;
}

struct Patience {
  ledger::OnDeny on_deny = ledger::OnDeny::kFail;
  std::uint64_t wait_ns = 0;
};

/// `fail`, `wait` (for ever) or `wait:30s`.
Result<Patience> parse_on_deny(const std::string& text) {
  if (text == "fail") return Patience{};
  if (text == "wait") return Patience{ledger::OnDeny::kWait, ~std::uint64_t{0}};
  if (text.rfind("wait:", 0) == 0) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str() + 5, &end);
    const std::string unit = end;
    const double factor = unit == "ms" ? 1e6 : unit == "s" ? 1e9 : unit == "m" ? 60e9 : unit == "h" ? 3600e9 : 0;
    if (number > 0 && factor > 0) return Patience{ledger::OnDeny::kWait, static_cast<std::uint64_t>(number * factor)};
  }
  return fail("E1408", fmt::format("'{}' is no answer to a denial.", text), "Write --on-deny fail, wait or wait:30s.", 2);
}

std::string default_name(const std::vector<std::string>& program, std::uint64_t run) {
  return fmt::format("{}-{}", std::filesystem::path(program.front()).filename().string(), run);
}

bool valid_name(const std::string& name) {
  return !name.empty() && name.size() < 60 && name.front() != '.' && name.find('/') == std::string::npos &&
         std::all_of(name.begin(), name.end(), [](char letter) { return static_cast<unsigned char>(letter) > 0x20; });
}

void prepend(const char* variable, const std::string& value) {
  const char* present = std::getenv(variable);
  ::setenv(variable, present != nullptr && *present != '\0' ? (value + ":" + present).c_str() : value.c_str(), 1);
}

void set_if_unset(const char* variable, const char* value) { ::setenv(variable, value, 0); }

volatile std::sig_atomic_t child_pid = 0;
void forward(int signal) {
  if (child_pid > 0) ::kill(child_pid, signal);
}

/// Starts the program and waits for it. Terminal signals reach it through the process group; others are passed on.
int execute(const RunOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& argument : options.program) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return 125 << 8;
  const pid_t child = ::fork();
  if (child == 0) {
    ::execvp(arguments[0], arguments.data());
    const int error = errno;
    (void)!::write(report[1], &error, sizeof error);
    ::_exit(error == ENOENT ? 127 : 126);
  }
  ::close(report[1]);
  child_pid = child;
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) ::signal(signal, forward);
  for (const int signal : {SIGINT, SIGQUIT}) ::signal(signal, SIG_IGN);
  int error = 0;
  const bool failed = ::read(report[0], &error, sizeof error) == sizeof error;
  ::close(report[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed) {
    fmt::print(stderr, "E1401 ration: '{}' cannot be started: {}.\n", options.program.front(), std::strerror(error));
    fmt::print(stderr, "      ration run --limit 4GiB -- /path/to/program\n");
  }
  return status;
}

std::string duration(std::uint64_t nanoseconds) {
  const std::uint64_t seconds = nanoseconds / 1'000'000'000U;
  return seconds >= 60 ? fmt::format("{}m {}s", seconds / 60, seconds % 60) : fmt::format("{}s", seconds);
}

void summarise(const BookSnapshot& book, const RunOptions& options, const Device& device) {
  const auto& account = book.accounts.front();
  if (options.summary != "always" && (options.summary == "never" || ::isatty(STDERR_FILENO) == 0) && account.denials == 0) return;
  if (options.summary == "never") return;
  const auto percent = account.limit > Bytes{0} ? account.peak.count() * 100 / account.limit.count() : 0;
  fmt::print(stderr, "ration: {} · {} · peak {} of {} ({}%) · {} denied · GPU {} {}\n", book.command,
             duration(book.ended_ns - book.created_ns), format_size(account.peak), format_size(account.limit), percent,
             account.denials, device.index, device.name);
  if (account.denials > 0) fmt::print(stderr, "        ration why d-{}-{}\n", book.run_number, book.denial_count);
}

}  // namespace

Result<int> run(const RunOptions& options) {
  if (options.program.empty()) {
    return fail("E1402", "no program to run.", "ration run --limit 4GiB -- python train.py", 2);
  }
  const Result<Patience> patience = parse_on_deny(options.on_deny);
  if (!patience) return tl::unexpected(patience.error());
  const Result<std::string> shim = library_folder("shim");
  if (!shim) return tl::unexpected(shim.error());
  std::string driver_folder;
  if (options.simulated) {
    const Result<std::string> sim = library_folder("sim");
    if (!sim) return tl::unexpected(sim.error());
    driver_folder = *sim;
    if (!options.simulate.empty()) ::setenv("RATION_SIM", options.simulate.c_str(), 1);
  }
  const auto devices = list_devices(driver_folder);
  if (!devices) return tl::unexpected(devices.error());
  const Result<Device> device = choose(*devices, options.gpu);
  if (!device) return tl::unexpected(device.error());
  const Result<Bytes> limit = checked_limit(options.limit.empty() ? "max" : options.limit, *device);
  if (!limit) return tl::unexpected(limit.error());

  const auto store = ledger::Store::open();
  if (!store) return tl::unexpected(store.error());
  const Result<std::uint64_t> number = store->next_run();
  if (!number) return tl::unexpected(number.error());
  ledger::NewBook contents;
  contents.name = options.name.empty() ? default_name(options.program, *number) : options.name;
  if (!valid_name(contents.name)) {
    return fail("E1409", fmt::format("'{}' cannot be the name of a workload.", contents.name),
                "Use up to 59 letters without spaces or slashes.", 2);
  }
  contents.tenant = options.tenant;
  contents.run_number = *number;
  contents.command = fmt::format("{}", fmt::join(options.program, " "));
  contents.on_deny = patience->on_deny;
  contents.wait_ns = patience->wait_ns;
  contents.account_mode = options.account == "heap" ? ledger::AccountMode::kHeap : ledger::AccountMode::kDevice;
  ledger::NewAccount account;
  account.device = device->bytes;
  account.device_name = device->name;
  account.device_total = device->total;
  account.limit = *limit;
  contents.accounts.push_back(account);

  const std::string path = store->path_of(contents.name);
  for (const auto& present : store->list()) {
    if (present.path != path) continue;
    if (present.live) {
      return fail("E1410", fmt::format("a workload named '{}' is running (pid {}).", contents.name, present.contents.creator.pid),
                  "Choose another --name, or leave it out.", 125);
    }
    ::unlink(path.c_str());
  }
  if (const BookStatus status = Book::create(path.c_str(), contents); status != BookStatus::kOk) {
    return fail("E1405", fmt::format("no book could be made at {}: {}.", path, ledger::describe(status)),
                "Free some space there, or export RATION_RUNTIME_DIR=<another folder>.", 125);
  }

  ::setenv("RATION_BOOK", path.c_str(), 1);
  ::setenv("CUDA_VISIBLE_DEVICES", device->uuid.c_str(), 1);
  ::setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
  set_if_unset("TF_FORCE_GPU_ALLOW_GROWTH", "true");
  set_if_unset("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
  prepend("LD_PRELOAD", *shim + "/libcuda.so.1:" + *shim + "/libnvidia-ml.so.1");
  if (!driver_folder.empty()) {
    ::setenv("RATION_DRIVER_PATH", driver_folder.c_str(), 1);
    prepend("LD_LIBRARY_PATH", driver_folder);
  }
  const int status = execute(options);
  const int exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  Book book;
  BookSnapshot final_state;
  if (Book::open(path.c_str(), book) == BookStatus::kOk) {
    book.reap();
    book.mark_ended(exit_code);
  }
  if (Book::read(path.c_str(), final_state) == BookStatus::kOk) summarise(final_state, options, *device);
  return exit_code;
}

}  // namespace ration::cli
