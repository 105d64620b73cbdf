#include "trace/run_note.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/file_lock.hpp"
#include "base/process.hpp"
#include "base/whole_file.hpp"

namespace ration::trace {
namespace {

using guard::Anchor;
using guard::PartHeader;

constexpr const char* kNoteFile = "run.json";

nlohmann::json to_json(const Anchor& anchor) {
  return {{"ticks", anchor.ticks}, {"monotonic_ns", anchor.monotonic_ns}, {"unix_ns", anchor.unix_ns}};
}

Anchor anchor_in(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_object()) return {};
  const auto number = [&](const char* key) { return found->value(key, std::uint64_t{0}); };
  return {number("ticks"), number("monotonic_ns"), number("unix_ns")};
}

std::string text_of(const RunNote& note) {
  nlohmann::json devices = nlohmann::json::array();
  for (const Device& device : note.devices) {
    nlohmann::json row{{"uuid", device.uuid}, {"name", device.name}, {"total_bytes", device.total.count()}};
    if (device.limit) row["limit_bytes"] = device.limit->count();
    devices.push_back(std::move(row));
  }
  nlohmann::json json{{"schema", "ration.recording.run/1"},
                      {"workload", note.workload},
                      {"command", note.command},
                      {"folder", note.folder},
                      {"deep", note.deep},
                      {"devices", std::move(devices)},
                      {"began", to_json(note.began)},
                      {"ended", to_json(note.ended)},
                      {"main_pid", note.main_pid}};
  if (note.exit_code) json["exit_code"] = *note.exit_code;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Error cannot_be_made(const std::string& path, int error) {
  return {"E1815", fmt::format("a recording cannot be written to {}: {}.", path, std::strerror(error)),
          "Give a path in a folder of yours: /a/folder/of/yours/train.rec", 125};
}

/// Returns true if `has` returns true for the header of any part beside `path`.
template <typename Has>
bool any_header(const std::string& path, Has&& has) {
  std::error_code error;
  for (std::filesystem::directory_iterator each(path + kPartsEnding, error), end; !error && each != end;
       each.increment(error)) {
    const auto file = open_regular(each->path().string());
    std::string bytes(guard::kPartHeaderSize, '\0');
    if (!file || ::pread(file->get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) continue;
    if (has(*reinterpret_cast<const PartHeader*>(bytes.data()))) return true;
  }
  return false;
}

}  // namespace

RunNote read_note(const std::string& folder) {
  RunNote note;
  const auto text = read_whole(folder + "/" + kNoteFile);
  const auto json = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
  if (!json.is_object()) return note;
  try {
    note.workload = json.value("workload", "");
    note.command = json.value("command", note.command);
    note.folder = json.value("folder", "");
    note.deep = json.value("deep", false);
    note.began = anchor_in(json, "began");
    note.ended = anchor_in(json, "ended");
    note.main_pid = json.value("main_pid", 0);
    if (json.contains("exit_code")) note.exit_code = json["exit_code"].get<int>();
    for (const auto& row : json.value("devices", nlohmann::json::array())) {
      Device device{
          row.value("uuid", ""), row.value("name", ""), Bytes{row.value("total_bytes", std::uint64_t{0})}, {}};
      if (row.contains("limit_bytes")) device.limit = Bytes{row.value("limit_bytes", std::uint64_t{0})};
      note.devices.push_back(std::move(device));
    }
  } catch (const nlohmann::json::exception&) {
    return {};  // not a file of ration
  }
  return note;
}

Result<PartsLock> make_parts(const std::string& path, const RunNote& note) {
  namespace fs = std::filesystem;
  const std::string folder = path + kPartsEnding;
  const auto bad = [&](int error) { return tl::unexpected(cannot_be_made(path, error)); };
  PartsLock lock;
  while (!lock) {  // tries again if another run removed the folder between the two calls
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return bad(errno);
    RATION_TRY(lock, take_parts(path));
  }
  struct stat status {};
  if (::fstat(lock.get(), &status) != 0) return bad(errno);
  std::error_code error;
  // A folder that ration did not make stays as it is. A folder of another user is not used, because that user could
  // replace the files in it.
  if (!fs::exists(folder + "/" + kNoteFile, error) && !fs::is_empty(folder, error)) return bad(EEXIST);
  if (status.st_uid != ::geteuid() || ::fchmod(lock.get(), 0700) != 0) return bad(EPERM);
  for (fs::directory_iterator each(folder, error), end; !error && each != end; each.increment(error))
    fs::remove_all(each->path(), error);
  const std::string lost = folder + "/" + guard::kLostFile;
  const FileDescriptor page{::open(lost.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  const std::string zeros(guard::kPartHeaderSize, '\0');
  if (page && ::write(page.get(), zeros.data(), zeros.size()) == static_cast<ssize_t>(zeros.size()) &&
      write_whole(folder + "/" + kNoteFile, text_of(note), 0600))
    return lock;
  const int problem = errno;
  fs::remove_all(folder, error);
  return bad(problem);
}

Result<PartsLock> take_parts(const std::string& path) {
  FileLock lock;
  lock.path = path + kPartsEnding;
  lock.file = FileDescriptor{::open(lock.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!lock.file) return errno == ENOENT ? Result<PartsLock>{} : tl::unexpected(cannot_be_made(path, errno));
  // Any other error means that the file system has no locks, so no other run can hold one.
  if (::flock(lock.file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail("E1815", fmt::format("another run is being recorded to {} now.", path),
                "Give each run a file of its own.", 125);
  return lock.in_place() ? std::move(lock.file) : PartsLock{};
}

Result<void> note_end(const std::string& path, const RunNote& note) {
  if (write_whole(path + kPartsEnding + "/" + kNoteFile, text_of(note), 0600)) return {};
  return tl::unexpected(cannot_be_made(path, errno));
}

void remove_parts(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = path + kPartsEnding;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(folder, ignored)) ||
      !std::filesystem::exists(folder / kNoteFile, ignored))
    return;  // not a folder that ration made
  std::filesystem::remove_all(folder, ignored);
}

bool is_recorded_now(const std::string& path) {
  return is_locked(path + kPartsEnding) || any_header(path, [](const PartHeader& header) {
           if (header.pid == 0 || header.ended.ticks != 0 || ::kill(header.pid, 0) != 0) return false;
           const auto process = identity_of(header.pid);
           return !process || liveness(*process) != Liveness::kDead;  // a zombie writes nothing
         });
}

std::string why_lost(const std::string& path) {
  std::uint32_t reason = 0;
  const auto has_reason = [&](const PartHeader& header) { return (reason = header.reason.load()) != 0; };
  return any_header(path, has_reason) ? std::strerror(static_cast<int>(reason)) : "no part could be made";
}

}  // namespace ration::trace
