#include "cli/start/guarded.hpp"

#include <fmt/format.h>

#include "base/printable.hpp"
#include "machine/elf_file.hpp"

namespace ration::cli {

Result<void> check_guard_files(const std::string& folder, bool with_audit) {
  struct GuardFile {
    const char *name, *mark;  ///< file, and a text that is in every build of it and in no other library
  };
  constexpr GuardFile kFiles[] = {
      {"libcuda.so.1", "ration_shim"}, {"libnvidia-ml.so.1", "RATION_BOOK"}, {"libration-audit.so", "la_symbind64"}};
  for (const GuardFile& file : kFiles) {
    if (!with_audit && &file == &kFiles[2]) continue;
    const std::string path = folder + "/" + file.name;
    std::string problem = machine::why_not_preloadable(path);
    if (problem.empty() && !machine::has_text(path, file.mark)) problem = "it is another library";
    if (!problem.empty())
      return fail("E1406", fmt::format("the guard {} cannot be loaded: {}. Nothing was started.", path, problem),
                  "Install the whole package again.", 125);
  }
  return {};
}

machine::Enforcement examine(const RunOptions& options, const admission::Plan& plan) {
  auto sets = plan.sets;
  if (options.allow_ungoverned) sets["RATION_ALLOW_UNGOVERNED"] = "1";
  return machine::examine_program(options.program, sets).value_or(machine::Enforcement{});
}

Result<void> refuse_ungoverned(const RunOptions& options, const machine::Enforcement& examined) {
  const std::string& typed = options.program.front();
  const bool is_another = !examined.program.empty() && !examined.program.ends_with(typed);
  const std::string program = printable(is_another ? examined.program : typed);
  if (options.require_enforced && options.allow_ungoverned)
    return fail(
        "E1404",
        "--allow-ungoverned contradicts --require-enforced, which requires the limit to be "
        "enforced on every program.",
        "Leave one of the two options out; require_enforced can also be set in a configuration file: ration config "
        "print",
        6);
  const bool refused = examined.hold == machine::Hold::kNothing ||
                       (options.require_enforced && examined.hold == machine::Hold::kChildren);
  if (!refused) return {};
  if (options.allow_ungoverned) {
    fmt::print(stderr, "ration: the limit is not enforced on {}{}: {}.\n", program,
               options.record.empty() ? "" : ", which is not recorded either", examined.reason);
    return {};
  }
  std::string fix = examined.instead.empty() ? "" : examined.instead + ". ";
  if (!options.require_enforced) fix += "--allow-ungoverned starts the program without an enforced limit. ";
  if (options.require_enforced && examined.hold == machine::Hold::kChildren)
    fix += "Without --require-enforced the program starts, and the limit is enforced on its child processes. ";
  return fail("E1404",
              fmt::format("the limit could not be enforced on {}{}: {}.", program,
                          options.record.empty() ? "" : ", which would not be recorded either", examined.reason),
              fix + "More: ration help enforcement", 6);
}

}  // namespace ration::cli
