#include "node/http/recording_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/file.hpp"
#include "base/printable.hpp"
#include "base/whole_file.hpp"

namespace ration::node {
namespace {

constexpr const char* kEnding = ".rec";
constexpr std::size_t kMostRead = 20'000;  // entries of the folder

/// Returns true for the name of a visible recording directly in the folder.
bool is_name(const std::string& name) {
  return name.size() <= 255 && name.size() > std::char_traits<char>::length(kEnding) && name.ends_with(kEnding) &&
         name.front() != '.' && name.find('/') == std::string::npos && is_printable(name);
}

FileDescriptor open_folder(const std::string& path) {
  return FileDescriptor{path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
}

struct Closer {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

tl::unexpected<Error> no_recording(const std::string& name, const std::string& folder) {
  return fail("E1830", fmt::format("no recording is named '{}'.", name),
              fmt::format("ration record -o {}/NAME.rec -- PROGRAM", folder), 3);
}

}  // namespace

std::vector<RecordingFolder::Entry> RecordingFolder::list(const Viewer& viewer) const {
  std::vector<Entry> entries;
  const FileDescriptor opened = open_folder(path_);
  const std::unique_ptr<DIR, Closer> folder(opened ? ::opendir(path_of(opened).c_str()) : nullptr);
  for (std::size_t read = 0; folder && read < kMostRead; ++read) {
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    struct stat status {};
    if (!is_name(name) || ::fstatat(opened.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode) || !viewer.may_see(status.st_uid))
      continue;
    entries.push_back({name, static_cast<std::uint64_t>(status.st_size),
                       status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_uid});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.modified != b.modified ? a.modified > b.modified : a.name < b.name;
  });
  if (entries.size() > kMostListed) entries.resize(kMostListed);
  return entries;
}

Result<std::unique_ptr<trace::PackedRecording>> RecordingFolder::open(const std::string& name,
                                                                      const Viewer& viewer) const {
  if (!is_name(name)) return no_recording(printable(name), path_);
  const FileDescriptor folder = open_folder(path_);
  if (!folder) return no_recording(name, path_);
  const auto file = open_regular(path_of(folder) + "/" + name, Links::kRejected);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0 || !viewer.may_see(status.st_uid)) return no_recording(name, path_);
  // Opens the file by its descriptor, so that it is the file whose owner was checked. Errors use the name that the
  // viewer gave.
  const std::string opened = path_of(*file);
  const auto unreadable = [&] {
    return fail("E1811", fmt::format("{} cannot be read: it is not a complete recording.", name),
                fmt::format("ration inspect {}/{}", path_, name));
  };
  if (!trace::is_packed(opened)) return unreadable();
  auto recording = trace::open_packed(opened);
  if (!recording && recording.error().id == "E1816")
    return fail("E1816", fmt::format("{} was recorded by another version of ration.", name), recording.error().fix);
  // Rejects a recording without an overview, because each question would then read the whole file.
  if (!recording || (*recording)->overview() == nullptr) return unreadable();
  return recording;
}

}  // namespace ration::node
