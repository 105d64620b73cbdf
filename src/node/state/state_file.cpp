#include "node/state/state_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/file.hpp"
#include "base/whole_file.hpp"
#include "history/set_aside.hpp"

namespace ration::node {
namespace {

using nlohmann::json;

constexpr off_t kMaxSize = off_t{256} << 20;  // far above what the most workloads of the most users need
constexpr int kDeepest = 16;                  // a file of brackets takes 75 times its size to be read

tl::unexpected<std::string> no(const std::string& why) { return tl::unexpected(why); }

/// All of it, or why it cannot be had.
tl::expected<std::string, std::string> content_of(const FileDescriptor& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return no(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return no("it is not a file");
  if (status.st_size > kMaxSize) return no("it is too large");
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t had = 0;
  while (had < content.size()) {
    const ssize_t more = ::read(file.get(), content.data() + had, content.size() - had);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return no(std::strerror(errno));
    if (more == 0) break;
    had += static_cast<std::size_t>(more);
  }
  content.resize(had);
  return content;
}

/// Why it is damaged; empty: it is not.
std::string damage_of(const FileDescriptor& file, const std::function<void(const json& document)>& take) {
  const auto content = content_of(file);
  if (!content) return content.error();
  const auto admit = [](int depth, json::parse_event_t, const json&) {
    return depth <= kDeepest ? true : throw std::length_error("it is nested too deeply");
  };
  try {
    const json document = json::parse(*content, admit, false);
    if (document.is_discarded()) return "it is not JSON";
    take(document);
  } catch (const std::exception& wrong) {
    return fmt::format("what it says is not what the daemon writes there: {}", wrong.what());
  }
  return {};
}

}  // namespace

void StateFile::read(const std::string& lost, const std::function<void(const json& document)>& take) {
  if (path_.empty()) return;
  // Neither a link that somebody laid there is followed, nor a pipe waited for.
  const FileDescriptor file{::open(path_.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (!file && errno == ENOENT) return;
  const std::string damage = !file && errno == ELOOP ? "it is a link"
                             : !file                 ? std::strerror(errno)
                                                     : damage_of(file, take);
  if (damage.empty()) return;
  const std::string aside = history::set_aside(path_);
  const std::string kept =
      aside.empty() ? fmt::format("It cannot be renamed ({}).", std::strerror(errno)) : "It was kept as " + aside + ".";
  damage_ = fmt::format("{} is damaged ({}): {} {}", path_, damage, lost, kept);
}

Result<void> StateFile::write(const json& document) {
  if (path_.empty()) return {};
  std::string text = document.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  if (text == written_) return {};
  if (!write_whole(path_, text, 0600))
    return fail("E1531", fmt::format("{} cannot be written: {}.", path_, std::strerror(errno)),
                "Free some space there: what was changed would be lost at the daemon's next start.", 1);
  written_ = std::move(text);
  return {};
}

}  // namespace ration::node
