// Ends a test program when one of its cases takes longer than 60 s (longer where many programs share a processor), and
// says which: a wait for what never comes would take until ctest's own limit. Linked into every program of
// ration_test().
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace ration {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kSeconds = 300;
#else
constexpr unsigned kSeconds = 60;
#endif

char running[256];

unsigned programs_a_processor() {
  double load = 0;
  if (::getloadavg(&load, 1) != 1) return 1;
  return 1 + static_cast<unsigned>(load / static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN)));
}

void end_program(int) {
  (void)!::write(STDERR_FILENO, running, ::strnlen(running, sizeof running));
  ::_exit(124);
}

class CaseLimit : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& info) override {
    (void)::snprintf(running, sizeof running, "never ended: %s.%s\n", info.test_suite_name(), info.name());
    ::signal(SIGALRM, end_program);
    const char* other = ::getenv("RATION_TEST_CASE_SECONDS");
    ::alarm(other != nullptr ? static_cast<unsigned>(::atoi(other)) : kSeconds * programs_a_processor());
  }
  void OnTestEnd(const ::testing::TestInfo&) override { ::alarm(0); }
};

// gtest_main runs after this, and keeps the listener.
[[maybe_unused]] const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new CaseLimit);
  return true;
}();

}  // namespace
}  // namespace ration
