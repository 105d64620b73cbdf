// The SPANK plugin: adds `--gpu-mem` and `--gpu-mem-guarantee` to srun, sbatch and salloc, and calls `ration job-hook`,
// which makes a job's book and puts each task under it. The plugin itself decides nothing. Slurm loads it
// (plugstack.conf) into these commands and into the keeper of every step, slurmstepd, so it uses only libc and Slurm's
// own functions. Promise: a task of a job with a share of a GPU starts under the job's book, or not at all.
//
//   required /usr/lib/ration/ration_spank.so [ration=/usr/bin/ration] [--OPTION of ration]... [VARIABLE=VALUE]...
extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>

// Declared extern, because without it a constant of C++ is visible in this file alone.
extern const char plugin_name[], plugin_type[];
extern const unsigned int plugin_version, spank_plugin_version;
SPANK_PLUGIN(ration, 1)
}

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMaxWords = 64;
constexpr std::size_t kMaxText = 4096;

/// The words of a command, each in memory of its own; words beyond the bound are dropped.
struct Words {
  char* all[kMaxWords + 1] = {};
  int count = 0;

  Words() = default;
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  ~Words() {
    for (int each = 0; each < count; ++each) std::free(all[each]);
  }
  void add(const char* text) {
    if (count < kMaxWords) all[count++] = ::strdup(text);
  }
  void add(const char* key, const char* value) {
    char text[kMaxText];
    std::snprintf(text, sizeof text, "%s=%s", key, value == nullptr ? "" : value);
    add(text);
  }
  void add(const char* key, unsigned long number) {
    char text[32];
    std::snprintf(text, sizeof text, "%lu", number);
    add(key, text);
  }
};

/// The variable that carries the guarantee from Slurm's commands to the prolog of a node. In the prolog its name is
/// SPANK_RATION_GUARANTEE.
constexpr const char* kGuarantee = "RATION_GUARANTEE";

char asked[64], asked_guarantee[64];  // in MiB
char program[kMaxText] = "/usr/bin/ration";

/// Reads the line of plugstack.conf: the path of ration, its options, and environment variables for it.
void read_arguments(int count, char** words, Words& options, Words& variables) {
  for (int each = 0; each < count; ++each) {
    if (std::strncmp(words[each], "ration=", 7) == 0)
      std::snprintf(program, sizeof program, "%s", words[each] + 7);
    else if (std::strncmp(words[each], "--", 2) == 0)
      options.add(words[each]);
    else if (std::strchr(words[each], '=') != nullptr)
      variables.add(words[each]);
  }
}

/// Parses a whole number with a unit to MiB, as ration parses sizes; 0 if invalid. The plugin cannot link ration's own
/// parser.
unsigned long long mib_of(const char* text) {
  if (text == nullptr || std::isdigit(static_cast<unsigned char>(*text)) == 0) return 0;
  char* unit = nullptr;
  errno = 0;
  unsigned long long mib = std::strtoull(text, &unit, 10);
  if (errno != 0 || mib > (1ULL << 30)) return 0;
  switch (*unit) {
    case 'T':
      mib <<= 10;
      [[fallthrough]];
    case 'G':
      mib <<= 10;
      [[fallthrough]];
    case 'M':
      ++unit;
      break;
    default:
      return 0;  // ambiguous: some programs mean MiB, others bytes
  }
  return *unit == '\0' || std::strcmp(unit, "iB") == 0 ? mib : 0;
}

int take(const char* option, const char* text, char (&into)[64]) {
  const unsigned long long mib = mib_of(text);
  if (mib == 0) {
    slurm_error("ration: --%s %s: not a size. Type a whole number with a unit: --%s=4GiB or 512MiB [E1102]", option,
                text == nullptr ? "" : text, option);
    return ESPANK_BAD_ARG;
  }
  std::snprintf(into, sizeof into, "%llu", mib);
  return 0;
}

int take_memory(int, const char* text, int) { return take("gpu-mem", text, asked); }
int take_guarantee(int, const char* text, int) { return take("gpu-mem-guarantee", text, asked_guarantee); }

// Registered one by one: Slurm offers the options of a table `spank_options` to srun alone.
spank_option options_of_commands[] = {
    {const_cast<char*>("gpu-mem"), const_cast<char*>("SIZE"),
     const_cast<char*>("memory of one GPU that the job can never exceed: 4GiB, 512MiB"), 1, 0, take_memory},
    {const_cast<char*>("gpu-mem-guarantee"), const_cast<char*>("SIZE"),
     const_cast<char*>("part of --gpu-mem that is kept for the job, used or not"), 1, 0, take_guarantee},
};

int machines_mounts = -1;  // the mount namespace from which this step's keeper came; -1 while it is still there

/// Runs `ration job-hook`. Stores its output in `told` and its errors in `complaint`, each cut to fit. Returns 0 on
/// success.
int run_hook(const Words& words, const Words& variables, char (&told)[kMaxText], char (&complaint)[kMaxText]) {
  told[0] = complaint[0] = '\0';
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return -1;
  if (::pipe2(err, O_CLOEXEC) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return -1;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    if (machines_mounts >= 0) ::setns(machines_mounts, CLONE_NEWNS);
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(program, words.all, variables.all);
    ::dprintf(2, "%s: %s", program, std::strerror(errno));
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  pollfd ends[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  char* texts[2] = {told, complaint};
  std::size_t had[2] = {0, 0};
  while (child > 0 && (ends[0].fd >= 0 || ends[1].fd >= 0)) {
    if (::poll(ends, 2, -1) < 0 && errno != EINTR) break;
    for (int each = 0; each < 2; ++each) {
      if (ends[each].fd < 0 || ends[each].revents == 0) continue;
      char part[512];
      const ssize_t more = ::read(ends[each].fd, part, sizeof part);
      if (more <= 0) {
        if (more < 0 && errno == EINTR) continue;
        ends[each].fd = -1;
        continue;
      }
      const std::size_t room = kMaxText - 1 - had[each];
      const std::size_t kept = static_cast<std::size_t>(more) < room ? static_cast<std::size_t>(more) : room;
      std::memcpy(texts[each] + had[each], part, kept);
      had[each] += kept;
      texts[each][had[each]] = '\0';
    }
  }
  ::close(out[0]);
  ::close(err[0]);
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  for (char* letter = complaint; *letter != '\0'; ++letter)
    if (*letter == '\n') *letter = letter[1] == '\0' ? '\0' : ' ';
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void add_beginning(Words& words, const Words& options, const char* action, unsigned long job) {
  char number[32];
  std::snprintf(number, sizeof number, "%lu", job);
  words.add("ration");
  words.add("job-hook");
  for (int each = 0; each < options.count; ++each) words.add(options.all[each]);
  words.add(action);
  words.add(number);
}

/// Adds what slurmctld knows of the job: its grant on this node, its user, partition, account and name.
bool add_facts(spank_t spank, Words& words, std::uint32_t job) {
  job_info_msg_t* known = nullptr;
  if (slurm_load_job(&known, job, SHOW_DETAIL) != SLURM_SUCCESS || known->record_count == 0) {
    slurm_error("ration: slurmctld does not report what job %u was granted: %s", job, slurm_strerror(errno));
    if (known != nullptr) slurm_free_job_info_msg(known);
    return false;
  }
  std::uint32_t node = 0;
  spank_get_item(spank, S_JOB_NODEID, &node);
  const slurm_job_info_t* found = known->job_array;
  for (std::uint32_t each = 0; each < known->record_count; ++each)
    if (known->job_array[each].job_id == job) found = &known->job_array[each];
  words.add("gres", node < found->gres_detail_cnt ? found->gres_detail_str[node] : "");
  words.add("uid", found->user_id);
  words.add("partition", found->partition);
  words.add("account", found->account);
  words.add("job_name", found->name);
  if (found->array_job_id != 0) words.add("array", found->array_job_id);
  slurm_free_job_info_msg(known);
  return true;
}

/// Writes the line once; another node that writes at the same moment may overwrite it. Returns true if no further
/// attempt is needed.
bool note_once(std::uint32_t job, std::uint32_t step, const char* node, const char* line) {
  job_info_msg_t* known = nullptr;
  if (slurm_load_job(&known, job, 0) != SLURM_SUCCESS || known->record_count == 0) {
    if (known != nullptr) slurm_free_job_info_msg(known);
    return true;
  }
  char whole[2 * kMaxText];
  // A job's script ends after its steps, on the first node.
  const char* scripts_node = known->job_array[0].batch_flag != 0 ? known->job_array[0].batch_host : nullptr;
  const bool is_last = step == SLURM_BATCH_SCRIPT || scripts_node == nullptr || std::strcmp(scripts_node, node) != 0;
  const char* present = known->job_array[0].admin_comment;
  char beginning[256];
  std::snprintf(beginning, sizeof beginning, "%.*s", static_cast<int>(std::strcspn(line, ":")) + 1, line);
  const char* own = present == nullptr ? nullptr : std::strstr(present, beginning);
  const bool is_there = own != nullptr && std::strncmp(own, line, std::strlen(line)) == 0;
  if (present == nullptr || *present == '\0')
    std::snprintf(whole, sizeof whole, "%s", line);
  else if (own == nullptr)
    std::snprintf(whole, sizeof whole, "%s; %s", present, line);
  else
    std::snprintf(whole, sizeof whole, "%.*s%s%s", static_cast<int>(own - present), present, line,
                  own + std::strcspn(own, ";"));
  slurm_free_job_info_msg(known);
  if (is_there || !is_last) return true;
  job_desc_msg_t change;
  slurm_init_job_desc_msg(&change);
  change.job_id = job;
  change.admin_comment = whole;
  if (slurm_update_job(&change) == SLURM_SUCCESS) return false;
  slurm_verbose("ration: the AdminComment of job %u was not changed: %s", job, slurm_strerror(errno));
  return true;
}

/// Writes a text to the job's AdminComment, which sacct and scontrol show; slurmctld accepts it until the job has
/// ended. Each node has a part of its own, `ration NODE: …`, between semicolons.
void note(std::uint32_t job, std::uint32_t step, const char* node, const char* text) {
  char line[kMaxText];
  std::snprintf(line, sizeof line, "%.*s", static_cast<int>(std::strcspn(text, "\n")), text);
  for (int attempt = 0; line[0] != '\0' && attempt < 8 && !note_once(job, step, node, line); ++attempt) {
  }
}

/// Calls `ration job-hook enter`, which mounts the guard and the book in a mount namespace of this thread's own.
bool enter(spank_t spank, int count, char** arguments, char (&told)[kMaxText], char (&complaint)[kMaxText]) {
  std::uint32_t job = 0;
  spank_get_item(spank, S_JOB_ID, &job);
  Words options, variables, words;
  read_arguments(count, arguments, options, variables);
  add_beginning(words, options, "enter", job);
  char share[64];
  // Slurm sets the variable for every job with a share.
  if (spank_getenv(spank, "SLURM_SHARDS_ON_NODE", share, sizeof share) == ESPANK_SUCCESS) words.add("share", share);
  if (asked[0] != '\0') words.add("asked", asked);
  if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    std::snprintf(complaint, sizeof complaint,
                  "ration: job %u cannot be put under its limit: no mount namespace: %s [E1721]", job,
                  std::strerror(errno));
    return false;
  }
  return run_hook(words, variables, told, complaint) == 0;
}

}  // namespace

extern "C" {

int slurm_spank_init(spank_t spank, int, char**) {
  for (spank_option& option : options_of_commands)
    if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
      slurm_error("ration: Slurm did not accept the option --%s", option.name);
  return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  if (spank_context() != S_CTX_REMOTE) {
    if (asked_guarantee[0] != '\0') spank_job_control_setenv(spank, kGuarantee, asked_guarantee, 1);
    return 0;
  }
  std::uint32_t job = 0, step = 0;
  spank_get_item(spank, S_JOB_ID, &job);
  spank_get_item(spank, S_JOB_STEPID, &step);
  if (step != SLURM_EXTERN_CONT) return 0;
  // The keeper of the job's first step lives as long as the job occupies this node.
  Words options, variables, words;
  read_arguments(count, arguments, options, variables);
  add_beginning(words, options, "start", job);
  if (!add_facts(spank, words, job)) return 0;  // the job's tasks find no book then and do not start
  words.add("pid", static_cast<unsigned long>(::getpid()));
  char told[kMaxText], complaint[kMaxText];
  if (run_hook(words, variables, told, complaint) != 0) slurm_error("%s", complaint);
  return 0;
}

/// Puts the forked task under the job's book, while it is still root.
int slurm_spank_task_init_privileged(spank_t spank, int count, char** arguments) {
  char told[kMaxText], complaint[kMaxText];
  if (!enter(spank, count, arguments, told, complaint)) {
    slurm_error("%s", complaint);
    return -1;
  }
  char* rest = nullptr;
  for (char* line = ::strtok_r(told, "\n", &rest); line != nullptr; line = ::strtok_r(nullptr, "\n", &rest)) {
    char* value = std::strchr(line, '=');
    if (value == nullptr) continue;
    *value++ = '\0';
    char present[kMaxText], both[2 * kMaxText];
    const bool is_list = std::strncmp(line, "LD_", 3) == 0;
    if (is_list && spank_getenv(spank, line, present, sizeof present) == ESPANK_SUCCESS && present[0] != '\0') {
      std::snprintf(both, sizeof both, "%s:%s", value, present);
      value = both;
    }
    spank_setenv(spank, line, value, 1);
  }
  return 0;
}

/// Puts the keeper under the book as well, because it runs `srun --task-epilog` itself.
int slurm_spank_task_post_fork(spank_t spank, int count, char** arguments) {
  if (machines_mounts >= 0) return 0;  // a step has many tasks, but one keeper
  const int mounts = ::open("/proc/thread-self/ns/mnt", O_RDONLY | O_CLOEXEC);
  char told[kMaxText], complaint[kMaxText];  // unused: the task has reported the problem
  const bool entered = mounts >= 0 && enter(spank, count, arguments, told, complaint);
  machines_mounts = mounts;
  if (entered) return 0;
  // An error returned here would end srun with success. Instead, this limit stops the keeper from starting any program
  // of the user.
  constexpr rlimit kNobody{0, 0};
  return ::setrlimit(RLIMIT_NPROC, &kNobody);
}

/// Notes the job's summary after the last task of a step here. Slurm calls this function before srun learns of the end,
/// so slurmctld still accepts a comment.
int slurm_spank_task_exit(spank_t spank, int count, char** arguments) {
  static std::uint32_t ended = 0;
  std::uint32_t job = 0, step = 0, tasks = 0;
  spank_get_item(spank, S_JOB_ID, &job);
  spank_get_item(spank, S_JOB_STEPID, &step);
  spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks);
  if (step == SLURM_EXTERN_CONT || ++ended != tasks) return 0;
  Words options, variables, words;
  read_arguments(count, arguments, options, variables);
  add_beginning(words, options, "summary", job);
  char name[256] = "";
  if (spank_getenv(spank, "SLURMD_NODENAME", name, sizeof name) != ESPANK_SUCCESS) ::gethostname(name, sizeof name - 1);
  words.add("node", name);
  char told[kMaxText], complaint[kMaxText];
  if (run_hook(words, variables, told, complaint) != 0)
    slurm_error("%s", complaint);
  else
    note(job, step, name, told);
  return 0;
}

/// Stores the requested guarantee for the keeper of the job's first step, because Slurm passes no options to that
/// keeper.
int slurm_spank_job_prolog(spank_t spank, int count, char** arguments) {
  std::uint32_t job = 0;
  const char* guarantee = std::getenv("SPANK_RATION_GUARANTEE");
  if (guarantee == nullptr || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return 0;
  Words options, variables, words;
  read_arguments(count, arguments, options, variables);
  add_beginning(words, options, "prepare", job);
  words.add("guarantee", guarantee);
  char told[kMaxText], complaint[kMaxText];
  if (run_hook(words, variables, told, complaint) != 0) slurm_error("%s", complaint);
  return 0;
}

int slurm_spank_job_epilog(spank_t spank, int count, char** arguments) {
  std::uint32_t job = 0;
  if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS) return 0;
  Words options, variables, words;
  read_arguments(count, arguments, options, variables);
  add_beginning(words, options, "stop", job);
  char told[kMaxText], complaint[kMaxText];
  if (run_hook(words, variables, told, complaint) != 0) slurm_error("%s", complaint);
  return 0;
}

}  // extern "C"
