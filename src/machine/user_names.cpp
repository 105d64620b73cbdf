#include "machine/user_names.hpp"

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <string_view>

namespace ration::machine {

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

namespace {
std::mutex alone;  // protects getpwuid(), which has one static buffer for all threads
}  // namespace

std::string user_name(std::uint32_t user) {
  const std::lock_guard guard(alone);
  static std::map<std::uint32_t, std::string> known;
  const auto found = known.find(user);
  if (found != known.end()) return found->second;
  const passwd* entry = ::getpwuid(user);
  return known[user] = entry != nullptr ? entry->pw_name : fmt::format("uid {}", user);
}

std::vector<std::string> groups_of(std::uint32_t user) {
  const std::lock_guard guard(alone);
  const passwd* entry = ::getpwuid(user);
  if (entry == nullptr) return {};
  std::vector<gid_t> groups(64);
  int count = static_cast<int>(groups.size());
  while (::getgrouplist(entry->pw_name, entry->pw_gid, groups.data(), &count) < 0)
    groups.resize(static_cast<std::size_t>(count));
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i)
    if (const group* each = ::getgrgid(groups[static_cast<std::size_t>(i)]); each != nullptr)
      names.emplace_back(each->gr_name);
  return names;
}

bool is_user(const std::string& name) {
  const std::lock_guard guard(alone);
  return ::getpwnam(name.c_str()) != nullptr;
}

bool is_group(const std::string& name) {
  const std::lock_guard guard(alone);
  return ::getgrnam(name.c_str()) != nullptr;
}

bool is_operator(std::uint32_t user) {
  if (user == 0 || user == ::getuid()) return true;
  const auto groups = groups_of(user);
  return std::find(groups.begin(), groups.end(), "ration") != groups.end();
}

bool names_another_user(const std::string& name, std::uint32_t user) {
  constexpr std::string_view kNumbered = "uid-";
  if (name.rfind(kNumbered, 0) == 0) {
    std::uint32_t number = 0;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + kNumbered.size(), end, number);
    if (read.ec == std::errc{} && read.ptr == end) return number != user;
  }
  const std::lock_guard guard(alone);
  const passwd* entry = ::getpwnam(name.c_str());
  return entry != nullptr && entry->pw_uid != user;
}

}  // namespace ration::machine
