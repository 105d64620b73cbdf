// The environment variables that ration reads: one table, from which checks, `ration help env` and the manual are made.
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

/// E1603 for a RATION_* variable that is one of ours misspelt: it would be ignored, and something else would happen
/// than was meant. Variables that are near to none are somebody else's.
[[nodiscard]] Result<void> check_variables(char** environment);

/// Makes the relative paths among the variables of this process absolute: what it starts may work in another folder,
/// and means the same. Called before there is a second thread.
void make_paths_absolute();

}  // namespace ration::config
