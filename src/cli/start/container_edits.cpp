#include "cli/start/container_edits.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "adapters/containers/container_files.hpp"
#include "base/command.hpp"
#include "base/own_folder.hpp"
#include "base/printable.hpp"
#include "base/whole_file.hpp"
#include "book/workload_book.hpp"
#include "cli/session/context.hpp"
#include "cli/start/guarded.hpp"
#include "cli/start/workload_start.hpp"
#include "cli/text/reference.hpp"
#include "config/settings.hpp"
#include "machine/process_origin.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;
using adapters::cdi::Edits;

/// Variables of this process that a container's hooks need to find the same node.
constexpr const char* kHandedOn[] = {
    "RATION_CONFIG", "RATION_RUNTIME_DIR", "RATION_SIM_DIR", "RATION_SIM_DRIVER", "XDG_CONFIG_HOME", "HOME", "PATH"};

constexpr const char* kGuardLibraries[] = {"libcuda.so.1", "libnvidia-ml.so.1"};
constexpr const char* kPreloadName = "ld.so.preload";  // lies in the folder that containers mount

std::string shared_folder(const book::Store& store) { return store.folder() + "/for-containers"; }

/// Writes a file of that folder and returns its path. Fails with E1405.
Result<std::string> shared_file(const Session& session, const book::Store& store, const char* name,
                                const std::string& content) {
  const std::string path = shared_folder(store) + "/" + name;
  if (session.dry_run) return path;
  std::error_code error;
  // Keeps a file with the same content, since replacing it would take the mounted file away from running containers.
  if (fs::is_regular_file(path, error) && machine::content_of(path) == content) return path;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (write_whole(path, content, 0644)) return path;
  return fail("E1405", fmt::format("{} cannot be written.", path),
              "Free some space there, or export RATION_RUNTIME_DIR=<another folder>", 125);
}

/// Adds the simulated driver, its CUDA runtimes and the state that programs of the node share.
Result<void> add_simulated_node(const Session& session, const book::Store& store, Edits& edits) {
  admission::Plan plan;
  RATION_TRY(add_simulation(session, store, "", "auto", plan));
  RATION_TRY(const auto folder, preloadable_folder(store, "sim"));
  const auto node = simulated_node_folder(plan.sets["RATION_SIM"]);
  const std::string nodes = fs::path(node.path).parent_path().string();
  edits.mounts.push_back({folder, folder});
  edits.mounts.push_back({nodes, nodes, true});
  edits.variables = plan.sets;
  edits.variables["RATION_SIM_DIR"] = nodes;
  edits.variables["RATION_DRIVER_PATH"] = *session.driver_folder();
  edits.hook_words.push_back("--sim=" + plan.sets["RATION_SIM"]);
  return {};
}

}  // namespace

Result<std::string> containers_folder(const book::Store& store) {
  const std::string folder = shared_folder(store);
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return folder;
  return fail("E1405", fmt::format("{} cannot be made: {}.", folder, error.message()), "ls -ld " + store.folder(), 125);
}

Result<Edits> container_edits(const Session& session, const book::Store& store) {
  RATION_TRY(const auto guard, preloadable_folder(store, "shim"));
  RATION_TRY(check_guard_files(guard, false));
  std::string preloaded;
  for (const char* library : kGuardLibraries) preloaded += fmt::format("{}/{}\n", book::kContainerGuard, library);
  RATION_TRY(const auto preload, shared_file(session, store, kPreloadName, preloaded));
  // This empty book is in place until the hook mounts the container's own; with it, the guard denies everything.
  const auto book = shared_file(session, store, "book", "");
  if (!book) return tl::unexpected(book.error());
  const auto program = shared_file(session, store, "bin/ration", "");  // the place at which ration is mounted
  if (!program) return tl::unexpected(program.error());
  const std::string folder = shared_folder(store);
  std::error_code error;
  if (!session.dry_run) fs::create_directories(folder + "/guard", error);  // the place at which the guard is mounted
  Edits edits;
  edits.guard = guard;
  edits.hook = companion("ration");
  edits.mounts = {{folder, book::kContainerFolder},
                  {guard, book::kContainerGuard},
                  {edits.hook, adapters::kContainerProgram},
                  {preload, adapters::kPreloadFile}};
  if (session.simulated) RATION_TRY(add_simulated_node(session, store, edits));
  if (!session.socket.empty()) edits.hook_words.insert(edits.hook_words.end(), {"--socket", session.socket});
  for (const char* name : kHandedOn)
    if (const char* value = std::getenv(name); value != nullptr) edits.hook_variables[name] = value;
  return edits;
}

Result<std::map<std::string, std::string>> container_guards(const book::Store& store) {
  RATION_TRY(const auto guard, preloadable_folder(store, "shim"));
  std::map<std::string, std::string> guards{
      {adapters::kPreloadFile, fmt::format("{}/{}", shared_folder(store), kPreloadName)}};
  for (const char* library : kGuardLibraries)
    guards[fmt::format("{}/{}", book::kContainerGuard, library)] = fmt::format("{}/{}", guard, library);
  return guards;
}

Result<std::string> specification_folder() {
  RATION_TRY(const auto accepted, config::read_accepted());
  const std::string configured = accepted.configuration.containers.cdi.value;
  return configured == "auto" || configured == "none" ? adapters::cdi::kFolder : configured;
}

std::string specification_file(const adapters::cdi::Device& device) {
  return device.kind == kLimitDevice ? device.kind + "-" + device.name : device.kind;
}

Result<adapters::cdi::Device> container_device(const Session& session, const RunOptions& typed,
                                               const book::Store& store) {
  const admission::PlanRequest& request = typed.request;
  const int named = !request.tenant.empty() + !request.slice.empty() + !request.limit.empty();
  if (named != 1 || (request.limit.empty() && !request.gpu.empty()))
    return fail("E1707", "no limit is given: one of --limit (with or without --gpu), --slice and --tenant is needed.",
                "--limit 4GiB --gpu 0, or --slice 0.2, or --tenant nlp", 2);
  if (!request.tenant.empty()) {
    if (adapters::cdi::is_device_name(request.tenant)) return adapters::cdi::Device{kTenantDevice, request.tenant};
    return fail("E1409", fmt::format("the tenant name '{}' cannot be used for containers.", printable(request.tenant)),
                "Name the tenant with letters, digits and _-.: and a letter or digit at both ends.", 2);
  }
  RunOptions options = typed;
  RATION_TRY(const auto plan, resolve(session, options, store));
  if (!request.slice.empty()) return adapters::cdi::Device{kSliceDevice, request.slice};
  const admission::PlannedAccount& account = plan.accounts.front();
  if (plan.accounts.size() > 1)
    return fail("E1707", "--limit of a container is for one GPU, but several GPUs were chosen.",
                "Name one GPU, such as --gpu 0: ration help containers", 2);
  return adapters::cdi::Device{kLimitDevice,
                               fmt::format("{}{}{}", exact_size(account.limit), kOnGpu, account.device.index)};
}

}  // namespace ration::cli
