// `ration doctor`: checks that this machine can hold limits. Prints one line for each check, with a stable id, and a
// fix for each problem.
#include "cli/doctor/doctor.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "admission/slices.hpp"
#include "base/printable.hpp"
#include "cli/doctor/doctor_findings.hpp"
#include "cli/doctor/trial_folder.hpp"
#include "cli/doctor/try_suspend.hpp"
#include "cli/session/other_versions.hpp"
#include "cli/session/simulated.hpp"
#include "cli/start/launch.hpp"
#include "cli/start/measured_context.hpp"
#include "config/configuration.hpp"
#include "config/variables.hpp"
#include "machine/enforcement.hpp"

extern char** environ;

namespace ration::cli {
namespace {

struct Check {
  const char* id;
  std::function<Finding()> look;
  bool needs_gpu = false;
};

Output self(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), companion("ration"));
  return output_of(arguments);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Finding check_driver(const Session& session) {
  const auto machine = session.machine();
  if (!machine) return bad(machine.error());
  const std::string what = fmt::format(
      "driver {}, {}: {}", machine->driver_version.empty() ? "n/a (it reports no version)" : machine->driver_version,
      counted(machine->devices.size(), "GPU"), machine->devices.front().name);
  if (machine->management) return ok(what);
  return warn(what + ", but no NVML: the memory of each process is n/a, and the size of a context is an estimate",
              "In Docker: NVIDIA_DRIVER_CAPABILITIES=compute,utility");
}

/// Names the files of the driver that a program started here would load. With `is_cause_told`, the check of the driver
/// has already reported that there is none.
Finding check_files(const Session& session, bool is_cause_told) {
  const auto folder = session.driver_folder();
  if (!folder) return bad(folder.error());
  const auto files = machine::driver_files(*folder);
  const auto named = [](const char* library, const std::string& file, const std::string& problem) {
    return fmt::format("{}: {}", library, file.empty() ? fmt::format("n/a ({})", problem) : file);
  };
  const std::string what = named("libcuda.so.1", files.driver, files.driver_problem) + ", " +
                           named("libnvidia-ml.so.1", files.management, files.management_problem);
  if (files.driver.empty()) {
    const std::string fix = "ration help enforcement   lists the folders that are searched";
    return is_cause_told ? skipped(what, fix) : bad(what, fix);
  }
  if (files.stubs.empty()) return ok(what);
  return warn(fmt::format("{}; these files are ignored, because they are stubs for linking only: {}", what,
                          fmt::join(files.stubs, ", ")),
              "Programs without ration load these stubs and find no GPU: remove their folder from LD_LIBRARY_PATH or "
              "ld.so.conf");
}

Finding check_context(const Session& session) {
  const auto machine = session.machine();
  const auto store = session.store();
  if (!machine) return bad(machine.error());
  if (!store) return skipped("not measured: no runtime directory", "ration doctor --only books.folder");
  std::string text;
  for (const auto& device : machine->devices) {
    auto cost = machine::context_cost(device, machine->driver_version, store->folder());
    if (!cost) {
      cost = measured_context(session, device);
      if (cost) machine::remember_context_cost(device, machine->driver_version, store->folder(), *cost);
    }
    text += fmt::format("{}GPU {}: {}", text.empty() ? "" : ", ", device.index,
                        session.size(cost, "the driver does not attribute memory to this process"));
  }
  return ok("one context costs " + text);
}

Finding check_order() {
  const char* order = std::getenv("CUDA_DEVICE_ORDER");
  if (order == nullptr || std::strcmp(order, "PCI_BUS_ID") == 0)
    return ok("devices are numbered in PCI order ('ration run' sets CUDA_DEVICE_ORDER=PCI_BUS_ID)");
  return warn(fmt::format("CUDA_DEVICE_ORDER={}: CUDA's numbers may differ from nvidia-smi's", order),
              "export CUDA_DEVICE_ORDER=PCI_BUS_ID");
}

Finding check_guard() {
  const auto shim = library_folder("shim");
  if (!shim) return bad(shim.error());
  for (const char* library : {"libnvidia-ml.so.1", "libration-audit.so"}) {
    if (::access((*shim + "/" + library).c_str(), R_OK) != 0)
      return bad(fmt::format("the guard's {} is missing", library), "Install the whole package again.");
  }
  return ok("the guard is complete: " + *shim);
}

/// Returns the limit in the book of the workload `name`; absent if there is no such book.
std::optional<Bytes> limit_in_book(const Session& session, const std::string& name) {
  const auto store = session.store();
  if (!store) return std::nullopt;
  std::optional<Bytes> limit;
  for (const auto& book : store->list())
    if (book.contents.name == name && !book.contents.accounts.empty()) limit = book.contents.accounts.front().limit;
  return limit;
}

// Returns true if the program saw the limit that the trial asked for. If a daemon has changed the limit in the book,
// because others need the room, returns true also for a lower limit.
bool is_limit_seen(Bytes seen, Bytes asked, Bytes in_book) {
  return in_book == asked ? seen == asked : seen <= std::max(asked, in_book);
}

Finding check_preload(const Session& session) {
  const TrialFolder folder(session, TrialNode::kOfSession);
  const std::string name = fmt::format("doctor-{}", ::getpid());
  const auto done =
      self(with_sim(session, {"run", "--limit", "64%", "--name", name, "--", companion("ration-workload"), "total"}));
  // Reads the last line, since `ration run` may first print that a part of the limit is promised to others.
  const std::string total = last_line(done.text);
  if (done.exit_code != 0 || total.empty() || std::isdigit(static_cast<unsigned char>(total.front())) == 0)
    return bad("a program under a limit could not be started: " + first_line(done.text),
               "ration run --limit 1GiB -- ration-workload total");
  const auto machine = session.machine();
  if (!machine) return bad(machine.error());
  const auto asked = admission::size_on(machine->devices.front(), "64%");
  if (!asked) return bad(asked.error());
  const Bytes seen{std::strtoull(total.c_str(), nullptr, 10)}, holds = limit_in_book(session, name).value_or(*asked);
  if (!is_limit_seen(seen, *asked, holds))
    return bad(fmt::format("a program under a limit of {} saw a total of {}: the guard is not in front of the driver",
                           session.size(holds), session.size(seen)),
               "Only programs with glibc's dynamic linker load the guard: ration help enforcement");
  if (seen == *asked)
    return ok(fmt::format("a program under a limit of {} sees this limit as the device's total", session.size(seen)));
  return ok(fmt::format("a program under a limit sees this limit as the device's total; the daemon lowered {} to {}",
                        session.size(*asked), session.size(seen)));
}

Finding check_python() {
  const auto python = machine::examine_program({"python3"});
  if (!python) return ok("no python3 here to check");
  if (python->hold == machine::Hold::kProgram) return ok("python3 can be guarded (" + python->program + ")");
  return bad("a limit could not be enforced on python3: " + python->reason,
             "Use another python3: ration run does not start this one");
}

// The guard and this program are built for the same C library, so the guard can run wherever this program runs.
Finding check_library() { return ok(std::string("glibc ") + ::gnu_get_libc_version()); }

Finding check_books(const Session& session) {
  const auto store = session.store();
  if (!store) return bad(store.error());
  struct statvfs space {};
  const Bytes room =
      ::statvfs(store->folder().c_str(), &space) == 0 ? Bytes{space.f_bavail * space.f_frsize} : Bytes{0};
  const auto books = store->list();
  const auto running = std::count_if(books.begin(), books.end(), [](const auto& book) { return book.live; });
  const std::string text =
      fmt::format("{}: books of {} running and {} ended workloads, {} free for more books", store->folder(), running,
                  static_cast<long>(books.size()) - running, session.size(room));
  if (room < Bytes{std::uint64_t{4} << 20})
    return bad(text + ": too little for another book", "export RATION_RUNTIME_DIR=<another folder>");
  if (const auto others = of_other_versions(*store); !others.empty())
    return warn(others.front().what, others.front().fix);
  const auto broken = store->damaged();
  if (!broken.empty())
    return warn(fmt::format("the book {} is damaged: {}", broken.front().first, broken.front().second),
                fmt::format("rm {}", broken.front().first));
  return ok(text);
}

Finding check_slices(const Session& session) {
  const auto store = session.store();
  if (!store) return bad(store.error());
  const auto slices = admission::read_slices(*store);
  if (!slices) return bad(slices.error());
  return ok(slices->empty() ? "no slices" : counted(slices->size(), "slice"));
}

Finding check_config() {
  const auto layers = config::read_layers(config::configuration_files());
  if (!layers) return bad(layers.error());
  if (layers->empty()) return ok("no configuration file, all defaults");
  const auto configuration = config::read_configuration();
  if (!configuration) return bad(configuration.error());
  std::vector<std::string> names;
  for (const auto& layer : *layers) names.push_back(layer.name);
  const auto& rows = configuration->rows;
  const auto set = std::count_if(rows.begin(), rows.end(), [](const auto& row) { return !row.origin.is_default(); });
  return ok(fmt::format("{}: {} {} set   (ration config print)", fmt::join(names, ", "), set,
                        set == 1 ? "value is" : "values are"));
}

Finding check_environment() {
  if (const auto good = config::check_variables(environ); !good) return bad(good.error());
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload != nullptr && std::strstr(preload, "cuda") != nullptr && std::getenv("RATION_BOOK") == nullptr) {
    return warn(fmt::format("LD_PRELOAD={} already puts something in front of the driver", preload),
                "unset LD_PRELOAD");
  }
  return ok("RATION_* and LD_PRELOAD are set correctly");
}

Finding check_frameworks() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  const char* growth = std::getenv("TF_FORCE_GPU_ALLOW_GROWTH");
  if (growth != nullptr && value("TF_FORCE_GPU_ALLOW_GROWTH") != "true" &&
      value("TF_FORCE_GPU_ALLOW_GROWTH") != "false") {
    return warn(
        fmt::format("TF_FORCE_GPU_ALLOW_GROWTH={} is exported, and TensorFlow reads only true and false: without "
                    "ration run, it will allocate all it can when it starts",
                    printable(growth)),
        "export TF_FORCE_GPU_ALLOW_GROWTH=true");
  }
  if (value("TF_FORCE_GPU_ALLOW_GROWTH") == "false") {
    return warn(
        "TF_FORCE_GPU_ALLOW_GROWTH=false is exported: TensorFlow will allocate its whole limit when it "
        "starts",
        "unset it, or: ration run --growth -- …");
  }
  // JAX takes any value but these for true.
  if (const std::string own = value("XLA_PYTHON_CLIENT_PREALLOCATE");
      !own.empty() && own != "false" && own != "False" && own != "0") {
    return warn(fmt::format("XLA_PYTHON_CLIENT_PREALLOCATE={} is exported: JAX will allocate most of its limit when it "
                            "starts",
                            printable(own)),
                "unset it, or: ration run --growth -- …");
  }
  return ok("no variable makes a framework allocate its whole limit when it starts");
}

Finding check_simulator(const Session& session) {
  const TrialFolder folder(session, TrialNode::kOwn);
  const auto done = self({"run", "--sim=T4:4GiB", "--limit", "1GiB", "--", companion("ration-workload"), "grab",
                          "--steady", "0.2GiB", "--peak", "0.4GiB", "--quiet"});
  if (done.exit_code == 0) return ok("a simulated T4 works");
  return bad("the simulated GPU does not work: " + first_line(done.text),
             "ration run --sim=T4 --limit 1GiB -- ration-workload grab");
}

/// Reports whether programs can be suspended here. With `now`, makes a trial; otherwise reports the result of the last
/// trial.
Finding check_suspension(const Session& session, bool now) {
  const auto machine = session.machine();
  const auto store = session.store();
  if (!machine) return bad(machine.error());
  if (!store) return skipped("not checked: no runtime directory", "ration doctor --only books.folder");
  std::string moved, problem;
  for (const auto& device : machine->devices) {
    const std::string gpu = fmt::format("GPU {}: ", device.index);
    if (now && device.persistence == false) {
      problem += gpu + "not tried without persistence mode (as root, nvidia-smi -pm 1); ";
      continue;
    }
    auto tried = machine::tried_suspension(device, machine->driver_version, store->folder());
    if (now) {
      Trial trial = try_suspension(session, device);
      tried = trial.moved;
      machine::remember_suspension(device, machine->driver_version, store->folder(), tried);
      if (!tried.plain) problem += gpu + trial.problem + "; ";
      if (tried.plain && !tried.shared) moved += gpu + trial.problem + "; ";
    }
    if (tried.plain || tried.shared)
      moved += fmt::format("{}{} moved to the host and back; ", gpu,
                           tried.shared ? "plain and shared memory" : "plain memory");
  }
  for (std::string* text : {&moved, &problem})
    if (!text->empty()) text->resize(text->size() - 2);
  if (!problem.empty())
    return warn(fmt::format("driver {} did not move ration's test program: {}", machine->driver_version, problem),
                "Use idle = { action = \"trim\" }, which works with every driver: ration suspends no program here.");
  if (!moved.empty()) return ok(fmt::format("driver {}: {}", machine->driver_version, moved));
  return ok(session.simulated
                ? "a simulated driver moves plain memory; ration doctor --try-suspend tries shared memory as well"
                : "n/a (not tried; ration suspends programs here only after a successful test: ration doctor "
                  "--try-suspend)");
}

/// Names the CUDA runtime that a program of this environment would get with --sim.
Finding check_simulated_cuda() {
  const auto folder = library_folder("sim");
  if (!folder) return bad(folder.error());
  const auto libraries = simulated_libraries(*folder, "", "auto");
  if (!libraries) return warn(libraries.error().what, libraries.error().fix);
  return ok("with --sim: " + libraries->found + "; kernels compute nothing (ration help simulated)");
}

/// One start of the probe under a limit.
struct ProbeRun {
  std::vector<std::string> gpus, ways;  ///< options of `ration run` and of the probe
  Bytes most;                           ///< most bytes that a way may obtain within the limit
};

/// The results of all runs of the probe.
struct Probed {
  std::set<std::string> tried;
  std::vector<std::string> past;               ///< what is wrong, in words
  std::map<std::string, std::string> skipped;  ///< reasons by way
};

constexpr Bytes kProbeLimit{std::uint64_t{64} << 20};

/// Returns the runs of the probe. The first tries every way. With two GPUs, two more runs take memory of the second
/// GPU: one under a limit there, one without a grant for it. With MIG the first run is the only one, since a process
/// sees only one MIG instance.
std::vector<ProbeRun> probe_runs(const std::vector<machine::Device>& devices) {
  std::vector<ProbeRun> runs{{{}, {}, kProbeLimit}};
  if (devices.size() < 2 || devices[0].mig || devices[1].mig) return runs;
  const std::string first = fmt::format("{}", devices[0].index), both = fmt::format("{},{}", first, devices[1].index);
  runs.push_back({{"--gpu", both}, {"--other-device"}, kProbeLimit});
  runs.push_back({{"--gpu", first}, {"--other-device"}, Bytes{0}});
  return runs;
}

/// Performs a run and adds its results. Returns a finding only if the run failed.
std::optional<Finding> run_probe(const Session& session, const ProbeRun& run, Probed& probed) {
  // With `--account heap`, contexts do not count towards the 64 MiB. The probe takes 16 MiB at a time, so it lasts only
  // some seconds and harms no neighbour.
  std::vector<std::string> words{"run", "--limit", "64MiB", "--account", "heap"};
  words.insert(words.end(), run.gpus.begin(), run.gpus.end());
  words.insert(words.end(), {"--", companion("ration-workload"), "probe", "16"});
  words.insert(words.end(), run.ways.begin(), run.ways.end());
  const auto done = self(with_sim(session, words));
  constexpr std::string_view kSkipped = "ration-workload: skipped ";
  // Each line is a way: its name, bytes obtained, bytes left, the error of the denial, and whether all was given back.
  std::istringstream lines(done.text);
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ration: ")) continue;  // a note about the limit, printed before the start
    if (line.starts_with(kSkipped)) {
      const std::size_t end = line.find(": ", kSkipped.size());
      probed.skipped[line.substr(kSkipped.size(), end - kSkipped.size())] = line.substr(end + 2);
      continue;
    }
    std::istringstream words_of(line);
    std::string name, left, refusal, after;
    std::uint64_t obtained = 0;
    if (!(words_of >> name >> obtained >> left >> refusal >> after) || (after != "returned" && after != "leaked"))
      return bad("the probe printed: " + line, "ration doctor --only enforce");
    any = true;
    if (obtained > 0 || refusal == "2" || run.most == Bytes{0})  // out of memory, or any error where nothing is granted
      probed.tried.insert(name);
    else
      probed.skipped[name] = "error " + refusal;
    if (Bytes{obtained} > run.most)
      probed.past.push_back(fmt::format("{} allocated {} under a limit of {}", name, format_size(Bytes{obtained}),
                                        format_size(run.most)));
    if (after != "returned") probed.past.push_back(fmt::format("{} did not give all memory back", name));
  }
  if (done.exit_code == 0 && any) return std::nullopt;
  return bad(fmt::format("the probe ended with exit code {}", done.exit_code),
             "ration run --limit 1GiB -- ration-workload probe");
}

Finding probe(const Session& session) {
  const auto machine = session.machine();
  if (!machine) return bad(machine.error());
  if (const auto store = session.store(); !store) return bad(store.error());
  const TrialFolder folder(session, TrialNode::kOfSession);
  Probed probed;
  for (const ProbeRun& run : probe_runs(machine->devices))
    if (const auto trouble = run_probe(session, run, probed)) return *trouble;
  if (!probed.past.empty())
    return bad(fmt::format("{}", fmt::join(probed.past, ", ")),
               "Limits cannot be enforced here; please report this with the driver's version.");
  std::map<std::string, int> untried;  // by reason
  for (const auto& [name, why] : probed.skipped)
    if (!probed.tried.contains(name)) ++untried[why];
  std::string text = fmt::format(
      "{} ways of allocating memory were tried under a limit of 64 MiB, and none "
      "exceeded it",
      probed.tried.size());
  for (const auto& [why, count] : untried) text += fmt::format("; {} not tried: {}", count, why);
  return ok(text);
}

const char* word(Verdict verdict) {
  constexpr const char* kWords[] = {"OK", "WARN", "FAIL", "SKIP"};
  return kWords[static_cast<int>(verdict)];
}

bool covers(const std::string& name, const std::string& id) { return id == name || id.rfind(name + ".", 0) == 0; }

bool selected(const DoctorOptions& options, const std::string& id) {
  const auto named = [&](const std::vector<std::string>& list) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& name) { return covers(name, id); });
  };
  return (options.only.empty() || named(options.only)) && !named(options.skip);
}

}  // namespace

Result<int> doctor(const Session& session, const DoctorOptions& options) {
  std::vector<Check> checks{{"gpu.driver", [&] { return check_driver(session); }},
                            {"gpu.files", [&] { return check_files(session, selected(options, "gpu.driver")); }},
                            {"cuda.context", [&] { return check_context(session); }, true},
                            {"order.index", check_order},
                            {"enforce.guard", check_guard},
                            {"enforce.preload", [&] { return check_preload(session); }, true},
                            {"enforce.python", check_python},
                            {"enforce.glibc", check_library},
                            {"enforce.by", [&] { return check_enforcer(session); }},
                            {"enforce.functions", [&] { return check_functions(session); }, true},
                            {"daemon.reach", [&] { return check_daemon(session); }},
                            {"books.folder", [&] { return check_books(session); }},
                            {"books.slices", [&] { return check_slices(session); }},
                            {"config.file", check_config},
                            {"env.variables", check_environment},
                            {"fw.conflict", check_frameworks},
                            {"mem.ungoverned", [&] { return check_ungoverned(session); }, true},
                            {"mem.orphaned", [&] { return check_orphaned(session); }, true},
                            {"suspend.tried", [&] { return check_suspension(session, options.try_suspend); }, true},
                            {"sim.selftest", [&] { return check_simulator(session); }},
                            {"sim.cuda", check_simulated_cuda},
                            {"folders.package", [&] { return check_package(session); }},
                            {"folders.runtime", [&] { return check_runtime(session); }},
                            {"folders.state", [&] { return check_state(session); }},
                            {"folders.sim", [&] { return check_simulated_nodes(session); }}};
  checks.push_back({"enforce.probe", [&] { return probe(session); }, true});
  for (const auto* list : {&options.only, &options.skip})
    for (const std::string& name : *list)
      if (std::none_of(checks.begin(), checks.end(), [&](const Check& check) { return covers(name, check.id); }))
        return fail("E1421", fmt::format("no check is named '{}'.", name), "ration doctor   lists them", 2);
  if (!options.probe) checks.pop_back();
  std::optional<bool> has_gpu;  // absent until a check needs a GPU
  int counts[4] = {};
  auto rows = nlohmann::json::array();
  Table table({{"CHECK", "check"}, {"RESULT", "result"}, {"TEXT", "message"}, {"FIX", "fix"}});
  for (const Check& check : checks) {
    if (!selected(options, check.id)) continue;
    if (check.needs_gpu && !has_gpu) has_gpu = session.machine().has_value();
    const char* fix = selected(options, "gpu.driver") ? "" : "ration doctor --only gpu.driver";
    Finding finding = check.needs_gpu && !*has_gpu ? skipped("not checked: no GPU", fix) : check.look();
    finding.text = session.hint(finding.text), finding.fix = session.hint(finding.fix);
    ++counts[static_cast<int>(finding.verdict)];
    rows.push_back(
        {{"check", check.id}, {"result", word(finding.verdict)}, {"message", finding.text}, {"fix", finding.fix}});
    rows.back().update(finding.details);
    table.add({check.id, word(finding.verdict), finding.text, finding.fix});
    if (session.format() != Format::kText) continue;
    constexpr int kColours[] = {32, 33, 31, 2};
    fmt::print(
        " {}  {:<16} {}\n",
        session.painted(fmt::format("{:<4}", word(finding.verdict)), kColours[static_cast<int>(finding.verdict)]),
        check.id, finding.text);
    if (!finding.fix.empty()) fmt::print("{:24}→ {}\n", "", finding.fix);
    std::fflush(stdout);
  }
  if (rows.empty())
    return fail("E1421", "nothing is left to check.", "ration doctor   lists the checks; enforce.probe needs --probe",
                2);
  if (session.format() == Format::kJson)
    session.print_json("doctor", rows);
  else if (session.format() == Format::kCsv)
    table.print(Format::kCsv);
  else {
    fmt::print(
        " {} ok · {} warn · {} fail{}{}\n", counts[0], counts[1], counts[2],
        counts[3] > 0 ? fmt::format(" · {} not checked", counts[3]) : std::string(),
        options.probe
            ? std::string()
            : session.hint("     ration doctor --probe  tries to exceed a limit (uses ≤ 64 MiB for some seconds)"));
  }
  return counts[2] > 0 || (options.strict && counts[1] > 0) ? 1 : 0;
}

}  // namespace ration::cli
