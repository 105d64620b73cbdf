#include "faults.hpp"

#include <time.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string_view>

#include "base/strings.hpp"
#include "base/units.hpp"

extern "C" int ration_sim_knows(const char* base);

namespace ration::sim {

bool calls_are_gated = false;

namespace {

struct Fault {
  std::uint64_t call = 0;  // the number of the call that fails; 0: every call
  std::uint64_t above = 0;
  int error = cuda::CUDA_ERROR_OUT_OF_MEMORY;
  std::atomic<std::uint64_t> seen{0};
};

/// The times for which a call is held, in nanoseconds; 0 means not at all.
struct Hold {
  std::uint64_t before = 0, after = 0;
};
thread_local std::uint64_t after_this_call = 0;
std::atomic<bool> somebody_is_held{false};

// Returns the latencies by name. This map and those below are never destroyed, since atexit handlers call the driver.
auto& latencies() {
  static auto* map = new std::map<std::string, std::uint64_t, std::less<>>;
  return *map;
}
auto& faults() {
  static auto* map = new std::map<std::string, Fault, std::less<>>;
  return *map;
}

auto& holds() {
  static auto* map = new std::map<std::string, Hold, std::less<>>;
  return *map;
}

std::string_view base_of(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
      if (!name.ends_with(suffix)) continue;
      name.remove_suffix(suffix.size());
      again = true;
    }
  }
  return name;
}

template <typename Each>
bool each_part(std::string_view text, char separator, Each&& each) {
  const auto parts = split(text, separator);
  return std::all_of(parts.begin(), parts.end(), each);
}

bool known(std::string_view name) {
  return name == "*" || name == "context" || name == "kernel" || ration_sim_knows(std::string(name).c_str()) != 0;
}

bool read_latency(std::string_view part) {
  const auto setting = split_once(part, '=');
  if (!setting || !known(setting->first)) return false;
  const std::string_view time = setting->second;
  std::uint64_t nanoseconds = 0;
  if (time == "0") {
  } else if (time.ends_with("us") || time.ends_with("ns")) {
    const auto parsed = std::from_chars(time.data(), time.data() + time.size() - 2, nanoseconds);
    if (parsed.ec != std::errc{} || parsed.ptr != time.data() + time.size() - 2) return false;
    if (time.ends_with("us")) nanoseconds *= 1000;
  } else if (const auto duration = parse_duration(time)) {
    nanoseconds = *duration;
  } else {
    return false;
  }
  latencies()[std::string(setting->first)] = nanoseconds;
  return true;
}

bool read_fault(std::string_view part) {
  Fault* fault = nullptr;
  return each_part(part, ':', [&](std::string_view word) {
    if (fault == nullptr) {
      if (!known(word)) return false;
      fault = &faults()[std::string(word)];
      return true;
    }
    const auto setting = split_once(word, '=');
    if (!setting) return false;
    const std::string_view key = setting->first, value = setting->second;
    const auto number = [&](auto& out) {
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), out);
      return parsed.ec == std::errc{} && parsed.ptr == value.data() + value.size();
    };
    if (key == "call") return number(fault->call) && fault->call > 0;
    if (key == "error") return number(fault->error) && fault->error > 0;
    if (key != "above") return false;
    const auto size = parse_size(value, kUnlimited, kUnlimited);
    if (size) fault->above = size->count();
    return size.has_value();
  });
}

bool read_hold(std::string_view part) {
  Hold* hold = nullptr;
  return each_part(part, ':', [&](std::string_view word) {
    if (hold == nullptr) {
      if (!known(word)) return false;
      hold = &holds()[std::string(word)];
      return true;
    }
    const auto setting = split_once(word, '=');
    if (!setting || (setting->first != "before" && setting->first != "after")) return false;
    const auto time = parse_duration(setting->second);
    if (time) (setting->first == "before" ? hold->before : hold->after) = *time;
    return time.has_value();
  });
}

void spend(std::uint64_t nanoseconds) {
  using Clock = std::chrono::steady_clock;
  if (nanoseconds >= 50'000) {
    timespec left{static_cast<time_t>(nanoseconds / 1'000'000'000U), static_cast<long>(nanoseconds % 1'000'000'000U)};
    while (::nanosleep(&left, &left) != 0) {
    }
    return;
  }
  for (const auto end = Clock::now() + std::chrono::nanoseconds(nanoseconds); Clock::now() < end;) {
  }
}

void hold(std::uint64_t nanoseconds) {
  if (nanoseconds == 0 || somebody_is_held.exchange(true)) return;
  spend(nanoseconds);
  somebody_is_held = false;
}

}  // namespace

bool read_gates(std::string& problem) {
  const auto read = [&](const char* variable, char separator, bool (*part)(std::string_view)) {
    const char* text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return true;
    calls_are_gated = true;
    if (each_part(text, separator, part)) return true;
    problem = std::string(variable) + "='" + text + "' cannot be understood";
    return false;
  };
  return read("RATION_SIM_LATENCY", ',', read_latency) && read("RATION_SIM_FAULT", ';', read_fault) &&
         read("RATION_SIM_HOLD", ';', read_hold);
}

std::uint64_t kernel_latency() {
  if (!calls_are_gated) return 0;
  const auto found = latencies().find("kernel");
  return found == latencies().end() ? 0 : found->second;
}

void hold_before(const char* function) {
  const auto found = holds().find(base_of(function));
  after_this_call = found == holds().end() ? 0 : found->second.after;
  if (found != holds().end()) hold(found->second.before);
}

void hold_after() { hold(after_this_call); }

cuda::CUresult gate(const char* function, std::uint64_t bytes) {
  const std::string_view name = base_of(function);
  auto latency = latencies().find(name);
  if (latency == latencies().end() && name != "context") latency = latencies().find("*");
  if (latency != latencies().end() && latency->second > 0) spend(latency->second);
  auto fault = faults().find(name);
  if (fault == faults().end()) fault = faults().find("*");
  if (fault == faults().end()) return cuda::CUDA_SUCCESS;
  Fault& rule = fault->second;
  if (bytes < rule.above || (rule.above > 0 && bytes == rule.above)) return cuda::CUDA_SUCCESS;
  if (rule.call > 0 && rule.seen.fetch_add(1) + 1 != rule.call) return cuda::CUDA_SUCCESS;
  return static_cast<cuda::CUresult>(rule.error);
}

}  // namespace ration::sim
