// The table of the environment variables that ration reads; checks, `ration help env` and the manual are made from it.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace ration::config {

struct Variable {
  const char* name;
  const char* meaning;
  enum class Value { kText, kPath, kTextOrTomlFile } value = Value::kText;
};
[[nodiscard]] const std::vector<Variable>& variables();

/// Fails with E1603 for a misspelt RATION_* variable, which would otherwise be ignored. Accepts a variable that
/// resembles no known variable, because it may belong to another program.
[[nodiscard]] Result<void> check_variables(char** environment);

/// Makes relative paths in this process's variables absolute, so that they keep their meaning in a program that this
/// process starts in another folder. Requires that no second thread has started.
void make_paths_absolute();

}  // namespace ration::config
