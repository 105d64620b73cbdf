#include "machine/process_activity.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace ration::machine {
namespace {

/// Reads `schedstat`: nanoseconds run, nanoseconds waited, number of runs. Returns false if the kernel does not keep
/// it.
bool read_schedstat(const std::string& thread, ThreadActivity& activity) {
  std::ifstream file(thread + "/schedstat");
  std::uint64_t waited = 0;
  return static_cast<bool>(file >> activity.processor_ns >> waited >> activity.turns);
}

void read_stat_and_status(const std::string& thread, ThreadActivity& activity) {
  static const auto tick_ns = std::uint64_t{1'000'000'000} / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  std::string line;
  std::ifstream stat(thread + "/stat");
  if (std::getline(stat, line)) {
    // Parentheses enclose the second field, a name that may hold any character. The fields 14 and 15 are utime and
    // stime.
    std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
    std::string skipped;
    for (int field = 3; field < 14; ++field) fields >> skipped;
    std::uint64_t user = 0, system = 0;
    if (fields >> user >> system) activity.processor_ns = (user + system) * tick_ns;
  }
  std::ifstream status(thread + "/status");
  while (std::getline(status, line)) {
    for (const std::string_view kind : {"voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"}) {
      if (line.compare(0, kind.size(), kind) != 0) continue;
      std::istringstream number(line.substr(kind.size()));
      if (std::uint64_t turns = 0; number >> turns) activity.turns += turns;
    }
  }
}

}  // namespace

ProcessActivity activity_of(const std::vector<ProcessIdentity>& processes, const std::string& proc) {
  ProcessActivity activity;
  for (const ProcessIdentity& process : processes) {
    const std::string folder = fmt::format("{}/{}/task", proc, process.pid);
    const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir(folder.c_str()), ::closedir);
    if (threads == nullptr) continue;
    while (const dirent* entry = ::readdir(threads.get())) {
      const std::string name = entry->d_name;
      std::int32_t number = 0;
      if (std::from_chars(name.data(), name.data() + name.size(), number).ec != std::errc{}) continue;
      ThreadActivity& thread = activity[number];
      if (!read_schedstat(folder + "/" + name, thread)) read_stat_and_status(folder + "/" + name, thread);
    }
  }
  return activity;
}

ThreadActivity activity_between(const ProcessActivity& before, const ProcessActivity& after,
                                const std::set<std::int32_t>& left_out) {
  ThreadActivity sum;
  for (const auto& [thread, now] : after) {
    if (left_out.count(thread) != 0) continue;
    const auto found = before.find(thread);
    const ThreadActivity then = found == before.end() ? ThreadActivity{} : found->second;
    sum.processor_ns += now.processor_ns - std::min(now.processor_ns, then.processor_ns);
    sum.turns += now.turns - std::min(now.turns, then.turns);
  }
  return sum;
}

}  // namespace ration::machine
