// Runs a client of the guard and gives back what it printed. Used by the tests of this folder.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace guard_routes {

inline const std::string kShimFolder = SHIM_FOLDER;
inline const std::string kHere = HERE;
inline const std::string kFake = kHere + "/fake";
inline const std::string kClient = kHere + "/shim_client";

struct Ran {
  int exit_code = -1;
  std::string output, errors;
};

inline std::string drain(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char part[4096];
  for (std::size_t got; (got = std::fread(part, 1, sizeof part, file)) != 0;) text.append(part, got);
  std::fclose(file);
  return text;
}

/// Runs `command` with exactly the variables of `environment` ("NAME=value").
inline Ran run(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments, variables;
    for (const std::string& one : command) arguments.push_back(const_cast<char*>(one.c_str()));
    for (const std::string& one : environment) variables.push_back(const_cast<char*>(one.c_str()));
    arguments.push_back(nullptr);
    variables.push_back(nullptr);
    ::dup2(::fileno(out), 1);
    ::dup2(::fileno(err), 2);
    ::execve(arguments[0], arguments.data(), variables.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Ran result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.output = drain(out);
  result.errors = drain(err);
  return result;
}

inline const std::string kPreload = "LD_PRELOAD=" + kShimFolder + "/libcuda.so.1 " + kShimFolder + "/libnvidia-ml.so.1";

/// As `ration run` starts a program. The loader would find the fake driver if the guard did not stand in front of it.
inline std::vector<std::string> governed(const std::string& book = "/nonexistent/book",
                                         const std::string& driver = kFake) {
  return {kPreload, "RATION_BOOK=" + book, "RATION_DRIVER_PATH=" + driver, "LD_LIBRARY_PATH=" + kFake,
          "PATH=/usr/bin:/bin"};
}

/// As `ration run --require-enforced` starts it.
inline std::vector<std::string> enforced() {
  std::vector<std::string> variables = governed();
  variables.push_back("LD_AUDIT=" + kShimFolder + "/libration-audit.so");
  return variables;
}

inline std::vector<std::string> bare() { return {"LD_LIBRARY_PATH=" + kFake, "PATH=/usr/bin:/bin"}; }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline const std::vector<std::string> kTools = {"PATH=/usr/bin:/bin", "LC_ALL=C"};

/// Exported name -> nm's letter.
inline std::map<std::string, char> exported(const std::string& library) {
  const Ran ran = run({"/usr/bin/nm", "-D", "--defined-only", kShimFolder + "/" + library}, kTools);
  std::map<std::string, char> names;
  for (const std::string& line : lines_of(ran.output)) {
    const std::size_t last = line.rfind(' ');
    names[line.substr(last + 1)] = line[last - 1];
  }
  return names;
}

}  // namespace guard_routes
