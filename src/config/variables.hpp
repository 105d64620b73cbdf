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

/// Returns E1603 for a misspelt RATION_* variable, which would be ignored and so have an unintended effect. A variable
/// that resembles none of them is not ration's.
[[nodiscard]] Result<void> check_variables(char** environment);

/// Makes the relative paths among the variables of this process absolute, so that they keep their meaning in a program
/// that it starts in another folder. Call it before there is a second thread.
void make_paths_absolute();

}  // namespace ration::config
