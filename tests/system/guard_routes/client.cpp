// The runtime-shaped client: finds driver functions in every way that programs use and prints, for each, which file the
// function it got lies in. Run by test_routes.cpp under the guard and, as the control, without it.
//   client route NAME FOLDER    one route; FOLDER is the fake driver's
//   client requests FILE        what the CUDA runtime asks cuGetProcAddress_v2 for at start: one line for each request
//   client call | missing | manners | atexit | nvml | two-devices | unlisted [call] | private | loader | init | patch
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "patcher.hpp"

#ifdef CLIENT_LINKED
extern "C" int cuMemAlloc_v2();
#endif

namespace {

using GetProcAddress2 = int(const char*, void**, int, std::uint64_t, int*);

std::string file_of(void* address) {
  Dl_info info;
  if (address == nullptr) return "null";
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "nowhere";
}

void* symbol_in(const char* file, int mode, const char* symbol = "cuMemAlloc_v2") {
  void* handle = ::dlopen(file, mode);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", ::dlerror());
  return handle != nullptr ? ::dlsym(handle, symbol) : nullptr;
}

void* from_plugin(void* handle, const char* function) {
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return nullptr;
  }
  auto* call = reinterpret_cast<void* (*)()>(::dlsym(handle, function));
  return call != nullptr ? call() : nullptr;
}

void* in_thread(const std::function<void*()>& work) {
  void* result = nullptr;
  std::thread([&] { result = work(); }).join();
  return result;
}

// How programs get past interposers that replace dlsym.
void* through_versioned_dlsym(const char* file) {
  void* handle = ::dlopen(file, RTLD_NOW);
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"}) {
    auto* versioned = reinterpret_cast<void* (*)(void*, const char*)>(::dlvsym(RTLD_DEFAULT, "dlsym", version));
    if (versioned != nullptr) return versioned(handle, "cuMemAlloc_v2");
  }
  return nullptr;
}

/// A function of libc as it gives it to whoever asks its own handle, past everything that stands in front of it.
template <typename Function>
Function* of_libc(const char* name, const char* library = "libc.so.6", const char* version = nullptr) {
  void* libc = ::dlopen(library, RTLD_NOW);
  return reinterpret_cast<Function*>(version != nullptr ? ::dlvsym(libc, name, version) : ::dlsym(libc, name));
}
using Open = void*(const char*, int);
using OpenIn = void*(Lmid_t, const char*, int);

const std::string plugin = PLUGIN_FILE, path_plugin = PATH_PLUGIN_FILE;

/// The path by which a copy of `file` without a name is opened.
std::string nameless_copy(const std::string& file) {
  std::ifstream from(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(from), {}};
  const int copy = ::memfd_create("copy", 0);
  if (::write(copy, content.data(), content.size()) != static_cast<ssize_t>(content.size())) return "";
  return "/proc/self/fd/" + std::to_string(copy);
}

std::map<std::string, std::function<void*()>> routes(const std::string& folder) {
  const std::string driver = folder + "/libcuda.so.1";
  return {
      {"soname", [] { return symbol_in("libcuda.so.1", RTLD_NOW); }},
      {"plain-name", [] { return symbol_in("libcuda.so", RTLD_LAZY | RTLD_GLOBAL); }},
      {"absolute", [=] { return symbol_in(driver.c_str(), RTLD_NOW); }},
      {"absolute-noload", [=] { return symbol_in(driver.c_str(), RTLD_NOW | RTLD_NOLOAD); }},
      {"symlink", [=] { return symbol_in((folder + "/links/renamed.so").c_str(), RTLD_NOW); }},
      {"linked-folder", [=] { return symbol_in((folder + "/links/folder/libcuda.so.1").c_str(), RTLD_NOW); }},
      {"relative",
       [=]() -> void* {
         if (::chdir(folder.c_str()) != 0) return nullptr;
         return symbol_in("./libcuda.so.1", RTLD_NOW);
       }},
      {"deepbind", [=] { return symbol_in(driver.c_str(), RTLD_NOW | RTLD_DEEPBIND); }},
      {"default",
       [] { return ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), ::dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"); }},
      {"next", [] { return ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), ::dlsym(RTLD_NEXT, "cuMemAlloc_v2"); }},
      {"dlvsym", [] { return through_versioned_dlsym("libcuda.so.1"); }},
      {"thread", [] { return in_thread([] { return symbol_in("libcuda.so.1", RTLD_NOW); }); }},
      {"thread-absolute", [=] { return in_thread([=] { return symbol_in(driver.c_str(), RTLD_NOW); }); }},
      {"needed-library", [] { return from_plugin(::dlopen(plugin.c_str(), RTLD_NOW), "plugin_linked"); }},
      {"needed-deepbind",
       [] { return from_plugin(::dlopen(plugin.c_str(), RTLD_NOW | RTLD_DEEPBIND), "plugin_linked"); }},
      {"path-needed", [] { return from_plugin(::dlopen(path_plugin.c_str(), RTLD_NOW), "plugin_linked"); }},
      {"path-needed-deepbind",
       [] { return from_plugin(::dlopen(path_plugin.c_str(), RTLD_NOW | RTLD_DEEPBIND), "plugin_linked"); }},
      {"path-needed-lazily",
       [] { return from_plugin(::dlopen(path_plugin.c_str(), RTLD_LAZY | RTLD_DEEPBIND), "plugin_linked"); }},
      {"path-needed-dlmopen",
       [] {
         return from_plugin(of_libc<OpenIn>("dlmopen")(LM_ID_NEWLM, path_plugin.c_str(), RTLD_NOW), "plugin_linked");
       }},
      {"asked-deepbind",
       [] { return from_plugin(::dlopen(plugin.c_str(), RTLD_NOW | RTLD_DEEPBIND), "plugin_asked"); }},
      {"libc-dlopen", [=] { return ::dlsym(of_libc<Open>("dlopen")(driver.c_str(), RTLD_NOW), "cuMemAlloc_v2"); }},
      {"libc-dlopen-deepbind",
       [=] { return ::dlsym(of_libc<Open>("dlopen")(driver.c_str(), RTLD_NOW | RTLD_DEEPBIND), "cuMemAlloc_v2"); }},
      {"libc-dlvsym",
       [=] {
         auto* look_up = of_libc<void*(void*, const char*)>("dlsym");
         return look_up(of_libc<Open>("dlopen", "libdl.so.2", "GLIBC_2.2.5")(driver.c_str(), RTLD_NOW),
                        "cuMemAlloc_v2");
       }},
      {"libc-dlmopen",
       [=] { return ::dlsym(of_libc<OpenIn>("dlmopen")(LM_ID_NEWLM, driver.c_str(), RTLD_NOW), "cuMemAlloc_v2"); }},
      {"libc-dlmopen-soname",
       [] { return ::dlsym(of_libc<OpenIn>("dlmopen")(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"); }},
      {"libc-dlmopen-needed",
       [] { return from_plugin(of_libc<OpenIn>("dlmopen")(LM_ID_NEWLM, plugin.c_str(), RTLD_NOW), "plugin_linked"); }},
      {"libc-nvml",
       [=] {
         const std::string nvml = folder + "/libnvidia-ml.so.1";
         return ::dlsym(of_libc<Open>("dlopen")(nvml.c_str(), RTLD_NOW), "nvmlDeviceGetMemoryInfo");
       }},
      {"copy", [=] { return symbol_in((folder + "/links/copy.so").c_str(), RTLD_NOW); }},
      {"nameless", [=] { return symbol_in(nameless_copy(driver).c_str(), RTLD_NOW); }},
      {"nameless-deepbind",
       [=] { return symbol_in(nameless_copy(driver).c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND); }},
      {"libc-nameless",
       [=] { return ::dlsym(of_libc<Open>("dlopen")(nameless_copy(driver).c_str(), RTLD_NOW), "cuMemAlloc_v2"); }},
      {"dlmopen-driver", [=] { return ::dlsym(::dlmopen(LM_ID_NEWLM, driver.c_str(), RTLD_NOW), "cuMemAlloc_v2"); }},
      {"dlmopen-soname", [] { return ::dlsym(::dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2"); }},
      {"dlmopen-base", [=] { return ::dlsym(::dlmopen(LM_ID_BASE, driver.c_str(), RTLD_NOW), "cuMemAlloc_v2"); }},
      {"dlmopen-needed", [] { return from_plugin(::dlmopen(LM_ID_NEWLM, plugin.c_str(), RTLD_NOW), "plugin_linked"); }},
      {"dlmopen-asked", [] { return from_plugin(::dlmopen(LM_ID_NEWLM, plugin.c_str(), RTLD_NOW), "plugin_asked"); }},
      {"nvml-soname", [] { return symbol_in("libnvidia-ml.so.1", RTLD_NOW, "nvmlDeviceGetMemoryInfo"); }},
      {"nvml-plain", [] { return symbol_in("libnvidia-ml.so", RTLD_NOW, "nvmlDeviceGetMemoryInfo"); }},
      {"nvml-absolute",
       [=] { return symbol_in((folder + "/libnvidia-ml.so.1").c_str(), RTLD_NOW, "nvmlDeviceGetMemoryInfo"); }},
#ifdef CLIENT_LINKED
      {"linked", [] { return reinterpret_cast<void*>(&cuMemAlloc_v2); }},
#endif
  };
}

int route(const char* name, const char* folder) {
  const auto all = routes(folder);
  const auto found = all.find(name);
  if (found == all.end()) return 2;
  std::printf("%s\n", file_of(found->second()).c_str());
  return 0;
}

// Prints "request file-of-the-answer": exactly what the runtime does before cuInit.
int requests(const char* path) {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (handle == nullptr) return 3;
  auto* get = reinterpret_cast<GetProcAddress2*>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (get == nullptr) return 4;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find('@'), flag = line.find("/f"), arrow = line.find("->");
    if (at == std::string::npos || flag == std::string::npos || arrow == std::string::npos) continue;
    void* function = nullptr;
    int status = 0;
    const int result = get(line.substr(0, at).c_str(), &function, std::atoi(line.c_str() + at + 1),
                           static_cast<std::uint64_t>(std::atoi(line.c_str() + flag + 2)), &status);
    const std::string symbol = line.substr(arrow + 2);
    const bool ours = result == 0 && function == ::dlsym(handle, symbol.c_str());
    std::printf("%s %s %s\n", symbol.c_str(), ours ? "same" : "other",
                file_of(result == 0 ? function : nullptr).c_str());
  }
  return 0;
}

// Calls through trampolines: the first, which finds the function, and the second, which does not.
int call() {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  using Awkward = double(double, int, float, long, double, short, float, char, double, std::uint64_t, double, double,
                         double, double, std::uint64_t, float, std::uint64_t);
  auto* awkward = reinterpret_cast<Awkward*>(::dlsym(handle, "cuLaunchKernel"));
  auto* variadic = reinterpret_cast<double (*)(int, ...)>(::dlsym(handle, "cuFuncGetModule"));
  for (int i = 0; i < 2; ++i) {
    std::printf("%.1f\n", awkward(1.5, 2, 3.25f, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17));
    std::printf("%.1f\n", variadic(10, 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.5));
  }
  std::vector<std::thread> threads;
  int wrong = 0;
  auto* numbered = reinterpret_cast<int (*)()>(::dlsym(handle, "cuDeviceGetCount"));
  int answers[8] = {};
  for (int& answer : answers) threads.emplace_back([&] { answer = numbered(); });
  for (std::thread& thread : threads) thread.join();
  for (const int answer : answers) wrong += answer != answers[0] || answer < 1000;
  std::printf("%d\n", wrong);
  return 0;
}

// Functions as a program that is linked with the driver has them: whether the driver has them or not.
int missing() {
  auto* device_count = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "cuDeviceGetCount"));
  auto* launch = reinterpret_cast<int (*)(void*)>(::dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
  auto* error_string = reinterpret_cast<int (*)(int, const char**)>(::dlsym(RTLD_DEFAULT, "cuGetErrorString"));
  auto* get = reinterpret_cast<GetProcAddress2*>(::dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2"));
  const char* text = "-";
  error_string(100, &text);
  void* function = nullptr;
  int status = 0;
  std::printf("%d %d %d %s\n", device_count(), launch(nullptr), get("cuInit", &function, 12000, 1, &status), text);
  return 0;
}

std::string status_line(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return line;
  }
  return {};
}

// What a governed program could notice of its host.
int manners() {
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  reinterpret_cast<int (*)()>(::dlsym(handle, "cuDeviceGetCount"))();
  const mode_t mask = ::umask(0);
  std::printf("%s %s %s %s umask %o\n", status_line("Threads").c_str(), status_line("SigCgt").c_str(),
              status_line("SigIgn").c_str(), status_line("SigBlk").c_str(), mask);
  return 0;
}

void* late_handle;
void at_exit() {
  std::printf("%s\n", file_of(::dlsym(late_handle, "cuMemAlloc_v2")).c_str());
  std::printf("%d\n", reinterpret_cast<int (*)()>(::dlsym(late_handle, "cuDeviceGetCount"))() >= 1000);
  std::fflush(stdout);
}

int nvml() {
  void* handle = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  std::uint64_t memory[3] = {}, memory2[5] = {};
  reinterpret_cast<int (*)(void*, void*)>(::dlsym(handle, "nvmlDeviceGetMemoryInfo"))(nullptr, memory);
  reinterpret_cast<int (*)(void*, void*)>(::dlsym(handle, "nvmlDeviceGetMemoryInfo_v2"))(nullptr, memory2);
  std::printf("%lu %lu %lu\n", memory[0] >> 20, memory[1] >> 20, memory[2] >> 20);
  std::printf("%lu %lu %lu %lu\n", memory2[1] >> 20, memory2[2] >> 20, memory2[3] >> 20, memory2[4] >> 20);
  struct Process {
    std::uint32_t pid;
    std::uint64_t used;
    std::uint32_t a, b;
  } list[8] = {};
  using List = int(void*, unsigned*, Process*);
  auto* processes = reinterpret_cast<List*>(::dlsym(handle, "nvmlDeviceGetComputeRunningProcesses_v3"));
  unsigned count = 0;
  const int asked = processes(nullptr, &count, nullptr);
  std::printf("%d %u\n", asked, count);
  count = 8;
  const int answered = processes(nullptr, &count, list);
  std::printf("%d %u %d %lu\n", answered, count, list[0].pid == static_cast<std::uint32_t>(::getppid()),
              list[0].used >> 20);
  std::printf("%s\n", reinterpret_cast<const char* (*)(int)>(::dlsym(handle, "nvmlErrorString"))(12));
  return 0;
}

int two_devices() {
  ::alarm(20);  // where the one waits for the other, both do for ever
  int inside[2];
  if (::pipe(inside) != 0) return 1;
  ::setenv("FAKE_INSIDE", std::to_string(inside[1]).c_str(), 1);
  void* handle = ::dlopen("libcuda.so.1", RTLD_NOW);
  auto* retain = reinterpret_cast<int (*)(void**, int)>(::dlsym(handle, "cuDevicePrimaryCtxRetain"));
  void *first = nullptr, *second = nullptr;
  int first_result = -1;
  std::thread slow([&] { first_result = retain(&first, 0); });
  char byte = 0;
  if (::read(inside[0], &byte, 1) != 1) return 1;
  const int second_result = retain(&second, 1);
  slow.join();
  std::printf("%d %d\n", first_result, second_result);
  return first != nullptr && second != nullptr && first != second ? 0 : 1;
}

int foreign_runpath() {
  void* bare = ::dlopen(BARE_PLUGIN_FILE, RTLD_NOW);
  auto* open = reinterpret_cast<void* (*)(const char*)>(::dlsym(bare, "bare_open"));
  void* handle = open("libneighbour.so");
  if (handle == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  std::printf("%d\n", reinterpret_cast<int (*)()>(::dlsym(handle, "neighbour"))());
  ::dlopen("libnowhere.so", RTLD_NOW);
  std::printf("%s\n", ::dlerror());
  return 0;
}

int new_namespace_call() {
  void* handle = ::dlmopen(LM_ID_NEWLM, plugin.c_str(), RTLD_NOW);
  if (handle == nullptr) return 5;
  std::printf("%d\n", reinterpret_cast<int (*)()>(::dlsym(handle, "plugin_call"))() >= 1000);
  // A file that does not exist must not use up the process's namespaces (glibc has 16).
  for (int i = 0; i < 40; ++i) {
    if (::dlmopen(LM_ID_NEWLM, "/nowhere/lib.so", RTLD_NOW) != nullptr) return 6;
  }
  std::printf("%s\n", ::dlerror());
  return ::dlmopen(LM_ID_NEWLM, plugin.c_str(), RTLD_NOW) != nullptr ? 0 : 7;
}

/// Functions that no table lists, by every way to find one; with `calling`, what they answer to 100.
int unlisted(bool calling) {
  using Function = int(int);
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* management = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto* get = reinterpret_cast<GetProcAddress2*>(::dlsym(driver, "cuGetProcAddress_v2"));
  const auto asked = [&](const char* name, int version) {
    void* function = nullptr;
    int status = 0;
    return get(name, &function, version, 1, &status) == 0 ? function : nullptr;
  };
  std::vector<void*> found = {::dlsym(driver, "cuMemAllocOfTomorrow"), ::dlsym(driver, "cuClockOfTomorrow"),
                              asked("cuMemAlloc", 99000), asked("cuMemPoolOfTomorrow", 99000),
                              ::dlsym(management, "nvmlDeviceGetMemoryOfTomorrow")};
  for (void* function : found) {
    if (!calling || function == nullptr) {
      std::printf("%s ", function != nullptr ? "found" : "null");
      continue;
    }
    for (int i = 0; i < 2; ++i) std::printf("%d ", reinterpret_cast<Function*>(function)(100));
  }
  const auto* variable = static_cast<int*>(::dlsym(driver, "cuMemCountOfTomorrow"));
  std::printf("%d %s\n", variable != nullptr ? *variable : 0, ::dlsym(driver, "cuOfNobody") == nullptr ? "null" : "?");
  const char* problem = ::dlerror();
  std::printf("%s\n", problem != nullptr && std::strstr(problem, "cuOfNobody") != nullptr ? "said" : "not said");
  return 0;
}

/// As nvidia-smi begins.
int private_table() {
  void* management = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto* get = reinterpret_cast<int (*)(const void**, const void*)>(::dlsym(management, "nvmlInternalGetExportTable"));
  const void* table = nullptr;
  const unsigned char id[16] = {};
  if (get == nullptr || get(&table, id) != 0) return 1;
  const auto* entries = static_cast<void* const*>(table);
  std::printf("%lu %d\n", reinterpret_cast<std::uintptr_t>(entries[0]), reinterpret_cast<int (*)()>(entries[1])());
  return 0;
}

int through_loader() {
  ::alarm(20);
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* management = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  std::printf("%d %s\n", reinterpret_cast<int (*)()>(::dlsym(driver, "cuDeviceGetCount"))() >= 1000,
              reinterpret_cast<const char* (*)(int)>(::dlsym(management, "nvmlErrorString"))(12));
  return 0;
}

int init() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  return reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"))(0);
}

#if defined(__x86_64__)
// The functions that UCX replaces (ucm/cuda/cudamem.c).
constexpr const char* kReplaced[] = {
    "cuMemAlloc",      "cuMemAlloc_v2",           "cuMemAllocManaged", "cuMemAllocPitch", "cuMemAllocPitch_v2",
    "cuMemAllocAsync", "cuMemAllocFromPoolAsync", "cuMemMap",          "cuMemFree",       "cuMemFree_v2",
    "cuMemFreeHost",   "cuMemFreeAsync",          "cuMemUnmap"};
constexpr std::size_t kReplacedCount = std::size(kReplaced);
using AnyFunction = int(void*, std::size_t, std::size_t, std::size_t, std::size_t);
AnyFunction* originals[kReplacedCount];
int calls[kReplacedCount];

template <std::size_t Number>
int replacement(void* first, std::size_t second, std::size_t third, std::size_t fourth, std::size_t fifth) {
  ++calls[Number];
  return originals[Number](first, second, third, fourth, fifth);
}

template <std::size_t... Numbers>
int replace_all(std::index_sequence<Numbers...>) {
  AnyFunction* const replacements[] = {&replacement<Numbers>...};
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  for (std::size_t i = 0; i < kReplacedCount; ++i) {
    void* function = ::dlsym(driver, kReplaced[i]);
    originals[i] =
        reinterpret_cast<AnyFunction*>(guard_routes::replace(function, reinterpret_cast<void*>(replacements[i])));
    if (originals[i] == nullptr) {
      std::printf("%s cannot be replaced\n", kReplaced[i]);
      continue;
    }
    static char out[64];
    const int answer = reinterpret_cast<AnyFunction*>(function)(out, 1 << 20, 1 << 20, 1, 4);
    std::printf("%s %d %s\n", kReplaced[i], calls[i], answer >= 1000 ? "driver" : answer == 2 ? "denied" : "?");
  }
  return 0;
}

int patch() { return replace_all(std::make_index_sequence<kReplacedCount>()); }
#else
int patch() { return 77; }
#endif

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "route" && count == 4) return route(arguments[2], arguments[3]);
  if (mode == "requests" && count == 3) return requests(arguments[2]);
  if (mode == "call") return call();
  if (mode == "missing") return missing();
  if (mode == "manners") return manners();
  if (mode == "nvml") return nvml();
  if (mode == "two-devices") return two_devices();
  if (mode == "runpath") return foreign_runpath();
  if (mode == "namespace") return new_namespace_call();
  if (mode == "unlisted") return unlisted(count > 2);
  if (mode == "private") return private_table();
  if (mode == "loader") return through_loader();
  if (mode == "init") return init();
  if (mode == "patch") return patch();
  if (mode == "atexit") {
    std::atexit(at_exit);
    late_handle = ::dlopen("libcuda.so.1", RTLD_NOW);
    return late_handle != nullptr ? 0 : 1;
  }
  return 2;
}
