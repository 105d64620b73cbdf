// ration-workload, a real client of the driver API for demos, tests and trials. It takes device memory as programs do
// and reports each denial. Exit codes: 0 done, 1 denied or no usable GPU, 2 wrong usage.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "base/units.hpp"
#include "ration/ration.h"
#include "sim/workload/allocators.hpp"
#include "sim/workload/driver_calls.hpp"
#include "sim/workload/probe.hpp"
#include "sim/workload/steps.hpp"
#include "sim/workload/trace.hpp"
#include "sim/workload/way.hpp"

using namespace ration;
using namespace ration::cuda;
using workload::Allocator;
using workload::library;
using workload::RegionAllocator;

namespace {

struct Options {
  std::string steady = "0.6GiB", peak = "1.2GiB", reserve, via = "malloc", file, duration, size, inside;
  std::size_t request_mib = 256;
  int steps = 3, loops = 1;
  unsigned seed = 1;
  bool hold = false, quiet = false, rendezvous = false, repeat = false, other_device = false;
  std::vector<std::string> words;
  std::string block = "64MiB", refused = "end";
  double speed = 1;
};

struct Memory {
  std::size_t free = 0, total = 0;
};
Memory memory_now() {
  Memory now;
  DRIVER(cuMemGetInfo_v2)(&now.free, &now.total);
  return now;
}

bool step(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    fmt::print(stderr, "ration-workload: {} answers error {}\n", what, static_cast<int>(result));
  return result == CUDA_SUCCESS;
}

bool open_driver() {
  library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    fmt::print(stderr, "ration-workload: {}\n", ::dlerror());
    return false;
  }
  return step(DRIVER(cuInit)(0), "cuInit");
}

/// Limits this process through libration, as a program can that was not started by `ration run`.
bool limit_itself(const std::string& size) {
  if (size.empty()) return true;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  void* ration = ::dlopen((folder / "../lib/libration.so.1").c_str(), RTLD_NOW);
  if (ration == nullptr) {
    fmt::print(stderr, "ration-workload: {}\n", ::dlerror());
    return false;
  }
  const auto activate = reinterpret_cast<decltype(&ration_activate)>(::dlsym(ration, "ration_activate"));
  const auto limit = reinterpret_cast<decltype(&ration_limit)>(::dlsym(ration, "ration_limit"));
  const auto last_error = reinterpret_cast<decltype(&ration_last_error)>(::dlsym(ration, "ration_last_error"));
  if (activate() == RATION_OK && limit(nullptr, -1, size.c_str()) == RATION_OK) return true;
  fmt::print(stderr, "ration-workload: {}\n", last_error());
  return false;
}

bool start_driver() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  return open_driver() && step(DRIVER(cuDeviceGet)(&device, 0), "cuDeviceGet") &&
         step(DRIVER(cuDevicePrimaryCtxRetain)(&context, device), "making a context") &&
         step(DRIVER(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
}

/// A progress bar on the terminal, shown after two seconds and updated ten times a second.
class Progress {
 public:
  explicit Progress(std::size_t whole) : whole_(whole), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) fmt::print(stderr, "\r\033[K");
  }
  void at(std::size_t done, const Allocator& allocator) {
    if (!shown_ || done % 64 != 0) return;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    if (seconds < 2 || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    drawn_ = true;
    const std::size_t filled = done * 30 / whole_;
    std::string bar;
    for (std::size_t i = 0; i < 30; ++i) bar += i < filled ? "█" : "·";
    fmt::print(stderr, "\r{} {:3}%  {} held  {:.0f}/s  {:.0f} s left\033[K", bar, done * 100 / whole_,
               format_size(Bytes{allocator.held()}), static_cast<double>(done) / seconds,
               seconds / static_cast<double>(done) * static_cast<double>(whole_ - done));
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::size_t whole_;
  bool shown_, drawn_ = false;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

int refused(const Allocator& allocator, std::uint64_t size, const std::string& when) {
  const Memory now = memory_now();
  fmt::print(stderr, "ration-workload: denied {} {}: {} held, {} free of {} (error {})\n", format_size(Bytes{size}),
             when, format_size(Bytes{allocator.held()}), format_size(Bytes{now.free}), format_size(Bytes{now.total}),
             static_cast<int>(allocator.last_refusal()));
  return 1;
}

/// Prints `where` this process is, and waits for a line, so that several processes can be brought to the same point.
void meet(const char* where) {
  fmt::print("{}\n", where);
  std::fflush(stdout);
  for (int letter = std::getchar(); letter != EOF && letter != '\n';) letter = std::getchar();
}

void hold_until_told() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  int signal = 0;
  ::sigwait(&signals, &signal);
}

int play(Allocator& allocator, const workload::Trace& trace, const Options& options) {
  std::vector<CUdeviceptr> addresses(trace.blocks);
  const std::uint64_t whole_ns = options.duration.empty() ? 0 : parse_duration(options.duration).value_or(0);
  const std::chrono::nanoseconds pace{whole_ns / std::max<std::size_t>(1, trace.events.size())};
  Progress progress(trace.events.size() * static_cast<std::size_t>(options.loops));
  auto due = std::chrono::steady_clock::now();
  std::size_t done = 0;
  bool met = false;
  for (int loop = 0; loop < options.loops; ++loop) {
    std::vector<bool> live(trace.blocks);
    for (const workload::Event& event : trace.events) {
      if (options.rendezvous && !met && !event.allocate) {  // the first peak is reached
        met = true;
        meet("peak");
      }
      if (event.allocate) {
        const auto address = allocator.allocate(event.size);
        if (!address)
          return refused(
              allocator, event.size,
              fmt::format("at event {} of {}", done, trace.events.size() * static_cast<std::size_t>(options.loops)));
        addresses[event.id] = *address;
        live[event.id] = true;
      } else {
        allocator.free(addresses[event.id]);
        live[event.id] = false;
      }
      progress.at(++done, allocator);
      if (pace.count() > 0) std::this_thread::sleep_until(due += pace);
    }
    if (options.hold && loop + 1 == options.loops) break;
    for (std::uint32_t block = 0; block < trace.blocks; ++block) {
      if (live[block]) allocator.free(addresses[block]);
    }
  }
  if (!options.quiet) {
    fmt::print("{}: {} events, {} live at most, {} held at most\n", trace.name, done,
               format_size(Bytes{trace.peak_live}), format_size(Bytes{allocator.peak_held()}));
    std::fflush(stdout);
  }
  if (options.rendezvous) meet("done");
  if (options.hold) hold_until_told();
  return 0;
}

int complain(const Error& error) {
  fmt::print(stderr, "ration-workload: {}\n      {}\n", error.what, error.fix);
  return 2;
}

Result<workload::Trace> input(const Options& options) {
  if (!options.file.empty()) return workload::read_trace(options.file);
  const Memory now = memory_now();
  const auto steady = parse_size(options.steady, Bytes{now.total}, Bytes{now.free});
  const auto peak = parse_size(options.peak, Bytes{now.total}, Bytes{now.free});
  if (!steady) return tl::unexpected(steady.error());
  if (!peak) return tl::unexpected(peak.error());
  return workload::training_job(steady->count(), peak->count(), options.steps, options.seed);
}

int job(RegionAllocator::Kind kind, const Options& options) {
  if (!start_driver()) return 1;
  const Memory now = memory_now();
  int capability = 0;
  DRIVER(cuDeviceGetAttribute)(&capability, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  std::size_t reserve = workload::tensorflow_reserve(now.free, capability);
  if (!options.reserve.empty()) {
    const auto given = parse_size(options.reserve, Bytes{now.total}, Bytes{now.free});
    if (!given) return complain(given.error());
    reserve = given->count();
  }
  RegionAllocator allocator(kind, reserve);
  const auto trace = input(options);
  if (!trace) return complain(trace.error());
  if (kind == RegionAllocator::Kind::kGrab && allocator.held() == 0)
    return refused(allocator, now.free > reserve ? now.free - reserve : 0, "at the start");
  return play(allocator, *trace, options);
}

int replay(const Options& options) {
  const auto trace = workload::read_trace(options.file);
  if (!trace) return complain(trace.error());
  if (!options.duration.empty() && !parse_duration(options.duration))
    return complain(parse_duration(options.duration).error());
  if (!start_driver()) return 1;
  const auto allocator = workload::make_direct(options.via);
  return play(*allocator, *trace, options);
}

int hold(const Options& options) {
  if (!start_driver()) return 1;
  const Memory now = memory_now();
  const auto size = parse_size(options.size, Bytes{now.total}, Bytes{now.free});
  if (!size) return complain(size.error());
  const auto allocator = workload::make_direct(options.via);
  if (!allocator->allocate(size->count())) return refused(*allocator, size->count(), "at the start");
  fmt::print("holding {}\n", format_size(*size));
  std::fflush(stdout);
  hold_until_told();
  return 0;
}

std::unique_ptr<Allocator> allocator_named(const std::string& via) {
  if (via == "grow") return std::make_unique<RegionAllocator>(RegionAllocator::Kind::kGrow, 0);
  if (via == "cache") return std::make_unique<RegionAllocator>(RegionAllocator::Kind::kCache, 0);
  return workload::make_direct(via);
}

int steps(const Options& options) {
  const auto steps = workload::read_steps(options.words);
  if (!steps) return complain(steps.error());
  const auto block = parse_size(options.block, Bytes{0}, Bytes{0});
  if (!block) return complain(block.error());
  if (!start_driver()) return 1;
  const auto allocator = allocator_named(options.via);
  return workload::play_steps(
             *allocator, *steps,
             {std::max(*block, Bytes{1}), options.speed, options.repeat, options.refused == "go-on", options.seed})
             ? 0
             : 1;
}

/// Prints the total memory of the device. Makes no context, for which a full device has no room.
int total() {
  CUdevice device = 0;
  std::size_t bytes = 0;
  if (!open_driver() || !step(DRIVER(cuDeviceGet)(&device, 0), "cuDeviceGet") ||
      !step(DRIVER(cuDeviceTotalMem_v2)(&bytes, device), "cuDeviceTotalMem"))
    return 1;
  fmt::print("{}\n", bytes);
  return 0;
}

void add_job_options(CLI::App* mode, Options& options) {
  mode->add_option("--steady", options.steady, "what the job holds all the time")->capture_default_str();
  mode->add_option("--peak", options.peak, "what it holds at most")->capture_default_str();
  mode->add_option("--steps", options.steps, "how many peaks")->capture_default_str()->check(CLI::Range(0, 1000000));
  mode->add_option("--seed", options.seed, "of the sizes")->capture_default_str();
  mode->add_option("--trace", options.file, "a recorded history instead of a made-up job");
  mode->add_flag("--rendezvous", options.rendezvous, "print 'peak' and 'done', and each time wait for a line");
}

void add_play_options(CLI::App* mode, Options& options) {
  mode->add_option("--loops", options.loops, "how often")->check(CLI::Range(1, 1000000));
  mode->add_option("--duration", options.duration, "spread one loop over so long: 20s");
  mode->add_flag("--hold", options.hold, "keep what is live at the end until SIGTERM");
  mode->add_flag("--quiet", options.quiet, "no closing line");
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Takes GPU memory as real programs do."};
  app.require_subcommand(1);
  int outcome = 0;
  using Kind = RegionAllocator::Kind;
  auto* grab = app.add_subcommand(
      "grab", "takes all that is free less a reserve, as TensorFlow does by default; then works inside it");
  grab->add_option("--reserve", options.reserve, "left free (TensorFlow's own rule if not given)");
  auto* grow =
      app.add_subcommand("grow", "takes regions that double and never returns them, as TensorFlow with growth");
  auto* cache = app.add_subcommand("cache", "caches segments of 2 and 20 MiB, as PyTorch");
  for (auto& [mode, kind] : {std::pair{grab, Kind::kGrab}, {grow, Kind::kGrow}, {cache, Kind::kCache}}) {
    add_job_options(mode, options);
    add_play_options(mode, options);
    mode->callback([&outcome, &options, kind = kind] { outcome = job(kind, options); });
  }
  const auto via = CLI::IsMember({"malloc", "async", "vmm"});
  auto* again = app.add_subcommand("replay", "replays a recorded allocation history, one driver call a block");
  again->add_option("file", options.file, "a CSV, or the name of a trace that comes with ration")->required();
  again->add_option("--via", options.via, "malloc, async or vmm")->check(via)->capture_default_str();
  add_play_options(again, options);
  again->callback([&] { outcome = replay(options); });
  auto* holding = app.add_subcommand("hold", "takes so much, says so, and keeps it until SIGTERM");
  holding->add_option("size", options.size, "4GiB")->required();
  holding->add_option("--via", options.via, "malloc, async or vmm")->check(via);
  holding->callback([&] { outcome = hold(options); });
  auto* stepping = app.add_subcommand(
      "steps", "holds so much for so long: 2GiB:10s 6GiB:3s 2GiB:30s:idle, or one block more: +1GiB:5s");
  stepping->add_option("step", options.words, "SIZE:TIME[:idle]; one that is not idle takes and returns a little")
      ->required();
  stepping->add_option("--via", options.via, "malloc, async, vmm, grow or cache")
      ->check(CLI::IsMember({"malloc", "async", "vmm", "grow", "cache"}))
      ->capture_default_str();
  stepping->add_option("--block", options.block, "in what pieces")->capture_default_str();
  stepping->add_option("--refused", options.refused, "what it does then: end, or go-on with what it has and ask again")
      ->check(CLI::IsMember({"end", "go-on"}))
      ->capture_default_str();
  stepping->add_option("--speed", options.speed, "how many times as fast")->check(CLI::Range(0.01, 1000.0));
  stepping->add_option("--seed", options.seed, "of the little")->capture_default_str();
  stepping->add_flag("--repeat", options.repeat, "again and again, until it is ended");
  stepping->callback([&] { outcome = steps(options); });
  app.add_subcommand("total", "prints the device's total in bytes, as this program sees it")->callback([&] {
    outcome = total();
  });
  auto* tried = app.add_subcommand("probe",
                                   "takes memory in every way there is until denied; one line a way: name, bytes "
                                   "obtained, bytes left, error, returned");
  tried->add_option("request", options.request_mib, "MiB a request")->check(CLI::Range(1, 65536));
  tried->add_option("--inside", options.inside, "under a limit that it sets itself, by libration")->type_name("SIZE");
  tried->add_flag("--other-device", options.other_device,
                  "only of the second device, whatever CUDA_VISIBLE_DEVICES leaves visible");
  tried->callback([&] {
    using workload::Ways;
    if (options.other_device) ::unsetenv("CUDA_VISIBLE_DEVICES");
    const Ways ways = options.other_device ? Ways::kOtherDevice : options.inside.empty() ? Ways::kAll : Ways::kInside;
    outcome = limit_itself(options.inside) && start_driver() ? workload::probe(options.request_mib << 20, ways) : 1;
  });
  // The subcommands that serve the probe and the tests.
  app.add_subcommand("open", "opens the IPC handles that come on standard input")->group("")->callback([&] {
    outcome = start_driver() ? workload::keep_open() : 1;
  });
  static bool shared = false;
  auto* keeping =
      app.add_subcommand("keep", "fills memory, and says whether it is as it was when it is asked")->group("");
  keeping->add_option("size", options.request_mib, "MiB");
  keeping->add_flag("--shared", shared);
  keeping->callback([&] { outcome = start_driver() ? workload::keep(options.request_mib << 20, shared) : 1; });
  auto* giving =
      app.add_subcommand("give", "takes memory, sends it over standard output, a socket, and waits to be killed")
          ->group("");
  static std::string form = "ipc";
  giving->add_option("size", options.request_mib, "MiB");
  giving->add_option("--as", form)->check(CLI::IsMember({"ipc", "descriptor", "pool"}));
  giving->callback([&] { outcome = start_driver() ? workload::give(options.request_mib << 20, form) : 1; });
  static int socket = -1;
  auto* obeying =
      app.add_subcommand("obey", "does what standard input says: take MIB, free, checkpoint, restore, outlive")
          ->group("");
  obeying->add_option("--socket", socket, "over which memory is exported and imported");
  obeying->callback([&] { outcome = start_driver() ? workload::obey(socket) : 1; });
  static std::uint64_t seed = 1;
  static int threads = 3, calls = 10000;
  static std::string gate;
  auto* random = app.add_subcommand("random", "random driver calls of every kind")->group("");
  random->add_option("gate", gate)->required();
  random->add_option("--seed", seed);
  random->add_option("--threads", threads)->check(CLI::Range(1, 64));
  random->add_option("--calls", calls)->check(CLI::Range(1, 100000000));
  random->callback([&] { outcome = start_driver() ? workload::call_at_random(seed, threads, calls, gate) : 1; });
  auto* contexts = app.add_subcommand("contexts", "contexts made and ended by many threads at once")->group("");
  contexts->add_option("--seed", seed);
  contexts->add_option("--threads", threads)->check(CLI::Range(1, 64));
  contexts->add_option("--calls", calls)->check(CLI::Range(1, 100000000));
  contexts->callback([&] { outcome = open_driver() ? workload::make_contexts(seed, threads, calls) : 1; });
  static std::string pair;
  static int rounds = 200;
  auto* racing = app.add_subcommand("race", "pairs of calls at the same memory from two threads at once")->group("");
  racing->add_option("pair", pair)->required();
  racing->add_option("--rounds", rounds)->check(CLI::Range(1, 100000000));
  racing->add_option("--seed", seed);
  racing->callback([&] { outcome = start_driver() ? workload::race(pair, rounds, seed) : 1; });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return outcome;
}
