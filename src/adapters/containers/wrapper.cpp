#include "adapters/containers/wrapper.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "book/workload_book.hpp"

namespace ration::adapters {
namespace {

struct Wrapper {
  const char* name;
  bool devices;  ///< takes --device if it has CDI
  /// The options for a mount from {0} to {1}, and for a variable {0} with the value {1}.
  std::vector<const char*> read_only, writable, variable;
  /// The options go after the first of these words. If the list is empty, the options go before `--`, which ends the
  /// program's own options.
  std::vector<const char*> behind;
  const char* example;
};

const std::vector<Wrapper>& wrappers() {
  static const std::vector<const char*> read_only{"-v", "{0}:{1}:ro"}, writable{"-v", "{0}:{1}"},
      variable{"-e", "{0}={1}"}, runs{"run", "create"};
  static const std::vector<Wrapper> all{
      {"docker", true, read_only, writable, variable, runs, "ration inject docker --limit 4GiB -- run --rm IMAGE"},
      {"podman", true, read_only, writable, variable, runs, "ration inject podman --limit 4GiB -- run --rm IMAGE"},
      {"bwrap",
       false,
       {"--ro-bind", "{0}", "{1}"},
       {"--bind", "{0}", "{1}"},
       {"--setenv", "{0}", "{1}"},
       {},
       "ration inject bwrap --limit 4GiB -- --bind / / -- python train.py"},
      {"apptainer",
       false,
       {"--bind", "{0}:{1}:ro"},
       {"--bind", "{0}:{1}"},
       {"--env", "{0}={1}"},
       {"exec", "run", "shell"},
       "ration inject apptainer --limit 4GiB -- exec --nv image.sif python train.py"},
  };
  return all;
}

const Wrapper* find(const std::string& name) {
  const auto found =
      std::find_if(wrappers().begin(), wrappers().end(), [&](const Wrapper& wrapper) { return name == wrapper.name; });
  return found == wrappers().end() ? nullptr : &*found;
}

void add(std::vector<std::string>& options, const std::vector<const char*>& form, const std::string& first,
         const std::string& second) {
  for (const char* word : form) options.push_back(fmt::format(fmt::runtime(word), first, second));
}

}  // namespace

std::vector<std::string> wrapper_names() {
  std::vector<std::string> names;
  for (const Wrapper& wrapper : wrappers()) names.emplace_back(wrapper.name);
  return names;
}

bool takes_devices(const std::string& engine) {
  const Wrapper* wrapper = find(engine);
  return wrapper != nullptr && wrapper->devices;
}

Result<std::vector<std::string>> with_options(const std::string& engine, const std::vector<std::string>& words,
                                              const std::vector<std::string>& options) {
  const Wrapper* wrapper = find(engine);
  if (wrapper == nullptr)
    return fail("E1707", fmt::format("ration inject has no engine '{}'.", engine), "ration inject --help", 2);
  std::vector<std::string> all{wrapper->name};
  all.insert(all.end(), words.begin(), words.end());
  const bool before_program = wrapper->behind.empty();
  auto place = before_program
                   ? std::find(all.begin(), all.end(), "--")
                   : std::find_first_of(all.begin(), all.end(), wrapper->behind.begin(), wrapper->behind.end());
  if (place == all.end())
    return fail("E1707",
                before_program ? fmt::format("{} needs -- between its own options and the program.", wrapper->name)
                               : fmt::format("the words after -- contain no '{} {}'.", wrapper->name,
                                             fmt::join(wrapper->behind, "' or '")),
                wrapper->example, 2);
  all.insert(before_program ? place : place + 1, options.begin(), options.end());
  return all;
}

std::vector<std::string> options_of(const std::string& engine, const cdi::Edits& edits, const std::string& book) {
  std::vector<std::string> options;
  const Wrapper* wrapper = find(engine);
  if (wrapper == nullptr) return options;
  const auto mount = [&](const std::string& from, const std::string& to, bool writable) {
    add(options, writable ? wrapper->writable : wrapper->read_only, from, to);
  };
  std::map<std::string, std::string> variables = edits.variables;
  // A sandbox often shares this machine's root file system, in which no mount point can be made. There, variables load
  // the guard, as in `ration run`.
  const bool by_variables = !wrapper->devices;
  for (const cdi::Mount& each : edits.mounts)
    if (!by_variables || each.from == each.to) mount(each.from, each.to, each.writable);
  mount(book, by_variables ? book : book::kContainerBook, true);
  if (by_variables) {
    mount(edits.guard, edits.guard, false);
    std::string& preload = variables["LD_PRELOAD"];
    preload =
        fmt::format("{0}/libcuda.so.1:{0}/libnvidia-ml.so.1{1}{2}", edits.guard, preload.empty() ? "" : ":", preload);
    variables["RATION_BOOK"] = book;
  }
  for (const auto& [name, value] : variables) add(options, wrapper->variable, name, value);
  return options;
}

Result<void> check_foreground(const std::string& engine, const std::vector<std::string>& words) {
  // Short options without a value may be joined: -dit.
  const auto detaches = [](const std::string& word) {
    return word == "--detach" || word == "--detach=true" || word == "create" ||
           (word.size() > 1 && word[0] == '-' && word.find_first_not_of("ditPq", 1) == std::string::npos &&
            word.find('d') != std::string::npos);
  };
  for (const std::string& word : words)
    if (takes_devices(engine) && detaches(word))
      return fail("E1707",
                  fmt::format("'{}' lets the container outlive this command, but without CDI its limit ends with this "
                              "command.",
                              word),
                  fmt::format("Leave that option out, or leave --without-cdi out: {}", find(engine)->example), 2);
  return {};
}

}  // namespace ration::adapters
