#include "config/doubts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ration::config {
namespace {

bool is_pattern(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

/// Returns true if the match fits a workload of any user.
bool fits_all(const Match& match) {
  const auto& users = match.users.value;
  const bool everybody = std::find(users.begin(), users.end(), "*") != users.end();
  const auto is_default = [](const auto& patterns) { return patterns.origin.is_default(); };
  const bool only_users = is_default(match.groups) && is_default(match.cgroup) && is_default(match.service) &&
                          is_default(match.image) && match.labels.empty();
  return everybody && (only_users || match.any.value);
}

class Doubts {
 public:
  Doubts(const Configuration& configuration, const KnownNames& known) : all_(configuration), known_(known) {}

  std::vector<FileProblem> find() {
    check_matches(all_.tenants, [](const Tenant& tenant) { return "tenant " + tenant.name.value; });
    check_matches(all_.policies, [](const Policy&) { return std::string("the policy"); });
    const auto& token = all_.daemon.token_file;
    if (!token.value.empty() && !known_.is_file(token.value))
      add(token.origin, fmt::format("there is no file {}, and rationd does not start without it", token.value),
          fmt::format("umask 077; head -c 32 /dev/urandom | base64 > {}", token.value));
    return std::move(found_);
  }

 private:
  void add(const Origin& origin, std::string what, std::string fix) {
    found_.push_back({origin.file, origin.place, std::move(what), std::move(fix)});
  }

  template <class Items, class Name>
  void check_matches(const Items& items, const Name& name_of) {
    const Match* catches_all = nullptr;
    for (const auto& item : items) {
      check_names(item.match.users, "user", "getent passwd", known_.is_user);
      check_names(item.match.groups, "group", "getent group", known_.is_group);
      if (catches_all != nullptr && !is_open(item.match))
        add(place_of(item.match),
            fmt::format("{} gets no workload by its match: the match at {} comes first and fits every user",
                        name_of(item), place_of(*catches_all).text()),
            "Write it before the match that fits every user.");
      if (catches_all == nullptr && fits_all(item.match)) catches_all = &item.match;
    }
  }

  void check_names(const Sourced<std::vector<std::string>>& names, const char* kind, const char* command,
                   const std::function<bool(const std::string&)>& is_known) {
    for (const std::string& name : names.value)
      if (!is_pattern(name) && !is_known(name))
        add(names.origin, fmt::format("this machine has no {} '{}'", kind, name),
            fmt::format("{}   lists the {}s of this machine", command, kind));
  }

  /// Returns where the first key of a match is written.
  static const Origin& place_of(const Match& match) {
    for (const auto* patterns : {&match.users, &match.groups, &match.cgroup, &match.service, &match.image})
      if (!patterns->origin.is_default()) return patterns->origin;
    return match.labels.begin()->second.origin;
  }
  static bool is_open(const Match& match) {
    return match.labels.empty() && match.users.origin.is_default() && match.groups.origin.is_default() &&
           match.cgroup.origin.is_default() && match.service.origin.is_default() && match.image.origin.is_default();
  }

  const Configuration& all_;
  const KnownNames& known_;
  std::vector<FileProblem> found_;
};

}  // namespace

std::vector<FileProblem> doubts(const Configuration& configuration, const KnownNames& known) {
  return Doubts(configuration, known).find();
}

}  // namespace ration::config
