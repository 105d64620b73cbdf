// The checks of `ration doctor` for the folders of ration. These folders are everything that ration leaves on a
// machine.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/byte_lock.hpp"
#include "base/own_folder.hpp"
#include "cli/doctor/doctor_findings.hpp"
#include "cli/session/node_client.hpp"
#include "config/configuration.hpp"

namespace ration::cli {
namespace {

namespace fs = std::filesystem;

/// The space that files take on disk. Books are sparse, so this is less than their length.
struct Amount {
  Bytes size{};
  std::uint64_t files = 0;

  void add(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) return;
    constexpr std::uint64_t kBlock = 512;
    size += Bytes{static_cast<std::uint64_t>(status.st_blocks) * kBlock};
    if (!S_ISDIR(status.st_mode)) {
      ++files;
      return;
    }
    std::error_code error;
    for (fs::directory_iterator each(path, error), end; !error && each != end; each.increment(error)) add(each->path());
  }
};

nlohmann::json details(const std::string& path, const Amount& amount) {
  return {{"path", path}, {"size_bytes", amount.size.count()}, {"files", amount.files}};
}

Finding size_finding(const Session& session, const std::string& path, const Amount& amount,
                     const std::string& more = "") {
  Finding finding =
      ok(fmt::format("{}: {} in {}{}", path, session.size(amount.size), counted(amount.files, "file"), more));
  finding.details = details(path, amount);
  return finding;
}

/// Returns true if programs that use files in this folder count as ended when they close all descriptors.
bool forgets_programs(const std::string& folder) {
  std::string path = folder + "/lock.XXXXXX";
  const FileDescriptor file{::mkostemp(path.data(), O_CLOEXEC)};
  if (!file) return false;  // nobody here can write there
  const bool keeps = mapping_keeps_lock(file.get(), 0, FileDescriptor{::open(path.c_str(), O_RDWR | O_CLOEXEC)});
  ::unlink(path.c_str());
  return !keeps;
}

/// Turns the finding into a warning if the folder is on a filesystem such as overlayfs.
Finding with_doubt(Finding finding, const std::string& folder, const char* variable) {
  if (!forgets_programs(folder)) return finding;
  Finding doubt = warn(finding.text + "; on this filesystem, a program that closes all its descriptors counts as ended",
                       fmt::format("Use a folder on a tmpfs for every program of this machine or container, for "
                                   "example: export {}=/dev/shm/ration-{}",
                                   variable, ::getuid()));
  doubt.details = std::move(finding.details);
  return doubt;
}

Finding not_there(const std::string& path, const std::string& why) {
  Finding finding = ok(fmt::format("{}: n/a ({})", path, why));
  finding.details = {{"path", path}, {"size_bytes", nullptr}, {"size_bytes_na", why}, {"files", 0}};
  return finding;
}

bool is_of_the_package(const std::string& name) {
  return name.rfind("ration", 0) == 0 || name.rfind("libration", 0) == 0 || name == "_ration";
}

}  // namespace

// Finds the package's files by name, since it may be unpacked into a shared folder such as /usr.
Finding check_package(const Session& session) {
  const fs::path root = fs::path(companion("ration")).parent_path().parent_path();
  Amount amount;
  std::error_code error;
  for (const char* folder :
       {"bin", "lib", "include", "share", "share/doc", "share/man/man1", "share/man/man7",
        "share/bash-completion/completions", "share/zsh/site-functions", "share/fish/vendor_completions.d"}) {
    for (fs::directory_iterator each(root / folder, error), end; !error && each != end; each.increment(error))
      if (is_of_the_package(each->path().filename())) amount.add(each->path());
  }
  if (!fs::exists(root / "lib/ration", error))  // a build tree
    for (const char* folder : {"shim", "sim"}) amount.add(root / folder);
  return size_finding(session, root, amount);
}

Finding check_runtime(const Session& session) {
  const auto store = session.store();
  if (!store) return bad(store.error());
  Amount amount;
  amount.add(store->folder());
  const auto books = store->list();
  const auto running = std::count_if(books.begin(), books.end(), [](const auto& book) { return book.live; });
  Finding finding = size_finding(session, store->folder(), amount,
                                 fmt::format(", {} ({} running)", counted(books.size(), "book"), running));
  finding.details["books"] = books.size();
  return with_doubt(std::move(finding), store->folder(), "RATION_RUNTIME_DIR");
}

Finding check_state(const Session& session) {
  const auto configuration = config::read_configuration();
  if (!configuration) return bad(configuration.error());
  const auto& chosen = configuration->daemon.state;
  std::string path = chosen.origin.is_default() ? config::default_state_folder() : chosen.value;
  // A daemon may have got another folder by --state. It names the folder to operators only.
  if (auto daemon = NodeClient::find(session); daemon && *daemon)
    if (const auto health = (*daemon)->get("/api/v1/health")) path = health->value("state_folder", path);
  std::error_code error;
  if (!fs::exists(path, error)) return not_there(path, "no daemon has written there");
  Amount amount;
  amount.add(path);
  return size_finding(session, path, amount);
}

Finding check_simulated_nodes(const Session& session) {
  const std::string path = simulated_nodes_folder();
  std::error_code error;
  if (!fs::exists(path, error)) return not_there(path, "no GPU was simulated");
  Amount amount;
  amount.add(path);
  return with_doubt(size_finding(session, path, amount), path, "RATION_SIM_DIR");
}

}  // namespace ration::cli
