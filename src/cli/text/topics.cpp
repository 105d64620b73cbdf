#include <fmt/format.h>

#include "cli/text/reference.hpp"
#include "config/printer.hpp"
#include "config/variables.hpp"

namespace ration::cli {
namespace {

std::string variables_text() {
  std::string text = "Variables that ration reads:\n\n";
  for (const auto& variable : config::variables())
    text += std::string("  ") + variable.name + "\n      " + variable.meaning + "\n";
  return text +
         "\nVariables that ration run sets for the program (`ration env` prints them): LD_PRELOAD, RATION_BOOK,\n"
         "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER=PCI_BUS_ID and, with --require-enforced, LD_AUDIT.\n"
         "ration run also sets the following three, unless they are set already to a value that the framework reads\n"
         "(TensorFlow ignores TF_FORCE_GPU_ALLOW_GROWTH=1): TF_FORCE_GPU_ALLOW_GROWTH=true,\n"
         "XLA_PYTHON_CLIENT_PREALLOCATE=false and TF_DEVICE_MIN_SYS_MEMORY_IN_MB=128. With --framework-hints off,\n"
         "ration run does not set these three variables.\n"
         "TF_DEVICE_MIN_SYS_MEMORY_IN_MB is the memory that TensorFlow leaves unused; TensorFlow's own default is 225\n"
         "to 1,800 MiB. While this variable is set, TensorFlow ignores per_process_gpu_memory_fraction, unless the\n"
         "program imports ration.\n"
         "Colour: NO_COLOR, CLICOLOR_FORCE, TERM=dumb.\n";
}

std::string configuration_text() {
  std::string text =
      config::layers_text() + "\nration config init writes a first file; man ration.toml is the reference.\n";
  for (const auto& section : config::reference()) {
    text += "\n" + section.header + "   " + section.meaning + "\n";
    for (const auto& key : section.keys) text += fmt::format("  {:<20} {}\n", key.name, key.meaning);
  }
  return text + "\n" + config::rules_text();
}

std::string errors_text() {
  std::string text =
      "Every error has a number. Its message says what failed, how much memory is concerned, who holds it, and\n"
      "what to type.\n\n";
  for (const ErrorText& error : error_texts())
    text += std::string("  ") + error.id + "  " + error.meaning + "\n         " + error.fix + "\n";
  return text;
}

}  // namespace

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all{
      {"units", "sizes as people write them",
       "  4GiB 4G 4g 512MiB 512M   binary: G is GiB, M is MiB, K is KiB, as in docker and systemd\n"
       "  8GB 512MB                decimal: 10^9, 10^6\n"
       "  50%                      half of the GPU's total memory, however much is free; inside a program that\n"
       "                           runs under a limit, ration.limit('50%') is half of that limit\n"
       "  50%free                  half of the memory that is free now\n"
       "  max  max-1GiB            all of the GPU; all but 1 GiB\n"
       "  unlimited                no limit: memory is only counted\n\n"
       "A number without a unit is an error, because each program reads such a number in its own way: TensorFlow\n"
       "as MiB, PyTorch as a fraction, others as bytes.\n"
       "A limit is rounded down to a multiple of the GPU's granule of 2 MiB. Printed sizes have three digits.\n"
       "--units si prints GB in place of GiB; --units bytes prints exact bytes, as JSON does.\n"},
      {"limit", "what a limit is",
       "The most bytes of one GPU that the processes of a workload can hold together. A request for more is\n"
       "denied: the call fails as on a full GPU (CUDA_ERROR_OUT_OF_MEMORY). The program sees the limit as the\n"
       "size of the GPU.\n\n"
       "  ration run --limit 4GiB -- python train.py   starts a program under a limit\n"
       "  ration set train --limit 6GiB                changes the limit while the program runs; also +1GiB, -1GiB\n"
       "  ration why train                             says which request was denied, and what to type\n\n"
       "The limit in force may be lower for a while, because a tenant's limit, a policy or the guarantee of another\n"
       "workload leaves less room: ration ps says why. The program then still sees a GPU of the size that was\n"
       "granted, but with less free memory.\n"
       "If less than the limit is available at the start, ration run says how much is missing, and for whom this\n"
       "memory is kept. With --require-limit, ration run then does not start the program.\n"
       "A limit promises no memory. A guarantee promises memory: ration help guarantee.\n"},
      {"guarantee", "what a guarantee is",
       "Bytes of one GPU that are kept for a workload or a tenant. While the daemon runs, no other workload is\n"
       "granted these bytes, even if they are not used. Without the daemon, they are kept only among the runs of the\n"
       "same user.\n"
       "The sum of guarantees, slices and memory that is kept free never exceeds the memory of the GPU. A guarantee\n"
       "or slice that does not fit is rejected at once.\n\n"
       "  ration run --guarantee 4GiB --limit 8GiB -- …   promises 4 GiB and allows 8 GiB\n"
       "  ration set train --guarantee 2GiB               changes the guarantee; 0 removes the guarantee\n"
       "  ration top                                      shows each GPU's free memory, and how much of it is kept\n\n"
       "A guarantee is enforced against governed programs only: a program without a limit can still allocate the\n"
       "guaranteed memory.\n"},
      {"tenant", "what a tenant is",
       "The person, team or service that a workload is charged to. [[tenant]] in ration.toml gives a tenant a\n"
       "limit and a guarantee for all of its workloads on a GPU, a priority and a price.\n"
       "ration run --tenant chooses the tenant of a workload. Without this option, the workload gets the first\n"
       "tenant in ration.toml whose key 'match' fits the workload. If no tenant fits, the workload gets a tenant\n"
       "with the user's name. Without a daemon, all workloads belong to one user, and their tenant is 'default'.\n\n"
       "  ration ps --tenant nlp                 shows the workloads of a tenant\n"
       "  ration set nlp --limit 20GiB           changes the limit of a tenant\n"
       "  ration report --by tenant              shows what each tenant used\n"},
      {"out-of-memory", "what to do when a program is out of memory",
       "  ration why                            shows which request was denied, who held what, and what to type\n"
       "  ration ps                             shows who holds memory now; UNGOVERNED means: not under a limit\n"
       "  ration set train --limit 6GiB         sets a larger limit while the program runs\n"
       "  ration run --wait --limit 6GiB -- …   waits until 6 GiB are free\n"
       "  ration trim NAME                      asks another workload to give back unused memory\n"
       "  ration record --deep -o train.rec -- python train.py   records a run, for the two commands below:\n"
       "  ration inspect train.rec              shows what the peak consisted of, and what grows\n"
       "  ration whatif train.rec               shows the smallest limit that is enough, also with other settings\n\n"
       "Without --deep, the recording of PyTorch, TensorFlow or JAX has no tensors, so whatif knows no other "
       "settings.\n"
       "ration why does not know the requests that TensorFlow and JAX deny themselves: all above the total that they\n"
       "saw at their start. Restart such a program with a larger limit; ration set does not help it.\n"
       "cuBLAS and cuDNN report the same failure as CUBLAS_STATUS_ALLOC_FAILED or CUDNN_STATUS_ALLOC_FAILED.\n"
       "`Killed` and exit code 137 concern the memory of the host, not of the GPU.\n"
       "More: ration docs --text out-of-memory\n"},
      {"tensorflow", "limits for TensorFlow",
       "  ration run --limit 4GiB -- python train.py\n\n"
       "TensorFlow sees a GPU of 4 GiB and starts with little memory, because ration run sets\n"
       "TF_FORCE_GPU_ALLOW_GROWTH=true unless this variable is true or false already. TensorFlow's own calls work\n"
       "within that limit:\n\n"
       "  set_memory_growth                               not needed under ration run\n"
       "  LogicalDeviceConfiguration(memory_limit=2048)   a part of the limit: a size of TensorFlow's pool, in MiB\n"
       "  set_visible_devices                             or: ration run --gpu 1\n"
       "  per_process_gpu_memory_fraction                 no effect under ration run; use --limit 40%\n\n"
       "TensorFlow itself denies each request above the limit that it saw at its start. ration why does not know "
       "these\n"
       "requests, and a larger limit needs a restart of the program: ration run --limit 6GiB -- python train.py\n\n"
       "`import ration.tf as tf` in place of `import tensorflow as tf` adds tf.config.experimental.set_memory_limit,\n"
       "which can be called at any time. With ration run --tensorboard FOLDER, TensorBoard shows the program's\n"
       "memory beside the loss.\n"
       "Every name of tf.config: ration docs --text tensorflow\n"},
      {"pytorch", "limits for PyTorch",
       "  ration run --limit 4GiB -- python train.py\n\n"
       "torch.cuda.mem_get_info() reports a GPU of 4 GiB, and a tensor that does not fit raises\n"
       "torch.OutOfMemoryError. PyTorch's cache, contexts, workspaces and NCCL count towards the limit;\n"
       "set_per_process_memory_fraction counts only the cache.\n\n"
       "  PYTORCH_ALLOC_CONF=expandable_segments:True     leaves fewer gaps if sizes vary\n"
       "  PYTORCH_ALLOC_CONF=backend:cudaMallocAsync      gives back unused memory if others need it (ration trim)\n"
       "  ration.torch.use()                              allocates from ration's pool, which grows and shrinks\n\n"
       "Figures: ration docs --text pytorch\n"},
      {"tensorboard", "a program's memory in TensorBoard",
       "  ration run --limit 4GiB --tensorboard runs -- python train.py\n"
       "  tensorboard --logdir runs\n\n"
       "TensorBoard then shows use, limit, peak and denials of each GPU while the program runs. They are scalars of\n"
       "the run ration/NAME-1, beside the scalars of the program itself. The program needs no change and no\n"
       "TensorFlow.\n"
       "TensorBoard's page Profile can show what was in memory at the peak of a recording:\n\n"
       "  ration record -o train.rec -- python train.py\n"
       "  ration export train.rec --format xspace -o runs/\n\n"
       "More: ration docs --text scenarios/tensorboard\n"},
      {"exit-codes", "what the exit codes mean",
       "  0    done; the check passed\n"
       "  1    the operation failed, and the message says why\n"
       "  2    wrong usage, or a configuration that cannot be used\n"
       "  3    not found; nothing matched; no GPU\n"
       "  4    does not fit now (fits, whatif, split, set, guarantees), or was not confirmed (set, stop)\n"
       "  5    not permitted to this user\n"
       "  6    the limit could not be enforced on this program, which was not started\n\n"
       "ration run ends with the program's own exit code, or with 128 + the number of the signal that killed the\n"
       "program. If the program did not run, ration run ends with a number from the table above or from this one:\n\n"
       "  124  the time of --wait passed\n"
       "  125  ration itself failed\n"
       "  126  the program is not executable\n"
       "  127  the program was not found\n\n"
       "ration doctor ends with 0 if no check failed, else with 1; with --strict a warning is a failure, too.\n"},
      {"env", "environment variables", variables_text()},
      {"config", "the configuration file", configuration_text()},
      {"simulated", "what the simulated GPU can do, and what it cannot do",
       "ration run --sim replaces NVIDIA's driver with a simulated driver. If the program's environment has a\n"
       "CUDA runtime (12 or 13), simulated libraries also replace that runtime, cuBLAS, cuBLASLt, cuDNN, cuFFT,\n"
       "cuSOLVER's dense part, cuSPARSE, cuRAND and NCCL.\n\n"
       "As on a real GPU: devices, properties, everything about memory, the contents of copies and fills,\n"
       "streams, events, graphs, sharing, the data that NCCL moves between the ranks of one machine, denials.\n"
       "Not computed: the results of kernels, of the mathematics libraries and of NCCL's reductions. Memory\n"
       "keeps its old content (zeros when new), so losses, accuracies and sampled values mean nothing. A program\n"
       "that branches on such a value always takes the same branch.\n"
       "Assumed: the sizes of workspaces. cuBLAS: 4 MiB per handle, 32 MiB if the compute capability is 9 or more.\n"
       "cuDNN: 8 MiB per plan. cuFFT: the size of the data, or 8 times this size for large prime factors.\n"
       "cuSOLVER and cuSPARSE: the size of the matrices.\n"
       "Missing: textures and other rare calls; the error of such a call contains the name of the function.\n"
       "Cannot start: libraries that contain NVIDIA's CUDA runtime (CuPy, XGBoost, cuda.bindings.runtime), since\n"
       "this runtime asks the driver for private functions; a line on standard error names the library.\n"
       "Some functions do not work, because they need values that a kernel would compute: generate() of vLLM's\n"
       "second model runner never ends (set VLLM_USE_V2_MODEL_RUNNER=0); TensorBoard's files have no scalars;\n"
       "torch.distributed with NCCL as its only backend cannot send lists of objects (EOFError, UnpicklingError;\n"
       "use init_process_group('cpu:gloo,cuda:nccl')). The whole list: ration docs --text frameworks\n\n"
       "Each program finds the CUDA version that it asks for, even if bash, torchrun or uv starts the program.\n"
       "--sim-cuda 12 or 13 simulates that version for all programs; --sim-cuda none simulates no CUDA runtime.\n"
       "Without ration run:   eval \"$(ration sim env --sim=T4:16GiB)\"   simulates a GPU for what this shell "
       "starts.\n"},
      {"enforcement", "how a limit is enforced, and what escapes it",
       "The guard is a pair of libraries with the driver's own names (libcuda.so.1, libnvidia-ml.so.1). They are\n"
       "preloaded into the program and into every process that it starts.\n"
       "Every call of a driver function that allocates device memory goes through the guard, however the program\n"
       "finds the function. The limit itself is in the book, not in the environment.\n\n"
       "The guard passes calls on to the driver that the program would load without the guard. ration searches\n"
       "for this driver in the same places as the dynamic linker: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH,\n"
       "/etc/ld.so.cache, the linker's own folders; then in the folders of Debian (nvidia/current), Jetson\n"
       "(nvidia, tegra), WSL 2, NixOS and GKE. If the program opens a driver by a path, the guard uses that driver,\n"
       "unless it is a stub of the CUDA toolkit. ration doctor --only gpu.files lists the files that were found.\n\n"
       "Every program that the workload starts gets the guard and the book again, even if its launcher changes\n"
       "LD_PRELOAD or the environment. With --allow-ungoverned, such a launcher can start programs without the\n"
       "guard.\n"
       "The guard cannot stop: statically linked, set-uid and musl programs; a program that starts others with a\n"
       "system call of its own and leaves LD_PRELOAD or RATION_BOOK out; a program that itself reads the driver's\n"
       "symbol tables or calls the kernel driver; processes that were not started by the workload.\n"
       "ration run does not start a program that would escape (ssh, srun, a tmux whose server runs already), unless\n"
       "--allow-ungoverned is given. It does start a static program, because most static programs load no driver,\n"
       "and the programs that a static program starts get the guard.\n"
       "If a script starts ssh, srun or the like, ration ps shows that launcher beside the workload. A process that\n"
       "escapes later is UNGOVERNED in ration ps, and ration run prints its pid when the program ends.\n"
       "With --require-enforced the dynamic linker asks the guard which library to open, and which function to\n"
       "use (LD_AUDIT). The limit is then enforced on three more kinds of programs: a program that would find a\n"
       "driver before the guard; a program that is linked with a driver by path; and a program that asks dlsym()\n"
       "for libc's dlopen() or dlmopen(), and opens a driver with this function. Without --require-enforced, the\n"
       "memory of such a program is in no book, and the daemon reports the program as not governed.\n"
       "--require-enforced has a price: a program does not start if it is linked with libraries that need more\n"
       "than 3 KiB of static thread-local memory. GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536 raises\n"
       "this size.\n"
       "The guard also cannot stop a program that writes into its own book, because the book is a file of the\n"
       "program's user. The daemon restores the limit at its next tick and records a violation, but the program\n"
       "keeps the memory that it allocated in between.\n"
       "If the driver itself enforces the limit (release 615 and newer), the driver stops such programs, too.\n"
       "A guarantee is enforced against governed programs only: programs without a limit can still allocate any\n"
       "free memory.\n\n"
       "A later driver can have functions that ration does not know. They work, but the memory that they allocate\n"
       "does not count towards the limit. If the name of such a function suggests memory, the guard notes the first\n"
       "call, and ration ps, ration doctor and the metric ration_unlisted_functions show the function.\n"
       "The driver itself allocates some memory: local memory of kernels, code of unknown size, contexts of\n"
       "private functions. The daemon finds this memory by comparing the book with the driver's figures, and shows\n"
       "it in the workload's row; from then on this memory counts towards the limit. Without a daemon this memory\n"
       "does not count. Stacks, and the code and global variables of cubins, are charged when the program asks\n"
       "for them.\n"
       "Managed memory (cudaMallocManaged, TF_FORCE_UNIFIED_MEMORY): the part that may be on the GPU counts; the\n"
       "rest stays in host memory. When other memory needs the room, more managed memory moves to the host.\n"
       "--managed charge counts every byte, --managed ignore counts none. Managed memory is charged on the GPU\n"
       "on which it was allocated; the limit is not enforced if a kernel of another GPU touches this memory.\n"
       "nvidia-smi under ration run: NVML's public functions give nvidia-smi the figures of the workload (the limit\n"
       "as the total, the workload's memory as used). Since release 535, nvidia-smi reads the list of processes and\n"
       "some figures from a private table of NVML. No library can replace this table, so the list and these figures\n"
       "are those of the whole machine.\n"},
      {"containers", "limits for containers",
       "The daemon (as root) writes a file into /var/run/cdi. The file describes each tenant and each slice of this\n"
       "node as a device. With one option, beside the option for NVIDIA's device, an engine puts a container under a\n"
       "limit:\n\n"
       "  docker run --device nvidia.com/gpu=0 --device ration.sh/tenant=nlp IMAGE\n"
       "  podman run --device nvidia.com/gpu=0 --device ration.sh/gpu=0.2 IMAGE     a slice, for one container\n"
       "  ration inject docker --limit 4GiB -- run --gpus all IMAGE                 a limit for this container\n"
       "  ration inject compose --limit 4GiB -- -f compose.yaml up                  services of a compose file\n"
       "  ration inject oci BUNDLE --limit 4GiB                                     config.json of runc, crun, ctr\n\n"
       "Docker 25 and newer, Podman 4, containerd 1.7 and CRI-O read these descriptions (the Container Device\n"
       "Interface). Other engines need --without-cdi.\n"
       "The container gets the guard, its book, and /etc/ld.so.preload, which the container's own root cannot\n"
       "change without CAP_SYS_ADMIN.\n"
       "The limit is in no environment variable.\n"
       "The container does not start if it is clear before the start that the limit could not be enforced: without\n"
       "the daemon, with musl, with a glibc older than 2.17.\n"
       "The limit is not enforced on the following programs. They are shown as UNGOVERNED when they hold memory of a\n"
       "GPU: a statically linked program; a program that unmounts the guard (this needs --privileged, CAP_SYS_ADMIN,\n"
       "or a user namespace, which Podman's seccomp profile allows and Docker's does not); a program that enters\n"
       "another root (chroot) or uses a copy of the driver or of the dynamic linker; a container inside a container.\n"
       "A program that writes into its own book may hold more than its limit: the daemon then counts the whole\n"
       "limit as held, and ration ps shows BOOK ALTERED.\n"
       "With [defaults] ungoverned = \"terminate\" in ration.toml, the daemon ends processes that escape.\n"
       "ration ps shows a container with the name that the engine gave it; the image and the engine are labels.\n"},
      {"kubernetes", "limits for pods of Kubernetes",
       "A pod claims an amount of GPU memory (Dynamic Resource Allocation, Kubernetes 1.34 and newer). Kubernetes\n"
       "then chooses a node for the pod, and a GPU that has so much memory left.\n\n"
       "  kubectl apply -k share/ration/kubernetes           installs ration on every node (also a Helm chart)\n"
       "  ration snippet kubernetes IMAGE --limit 4GiB       prints an example of a pod with a claim\n\n"
       "The daemon on each node enforces the limits; pods keep their limits while the daemon is replaced.\n"
       "To try it in a cluster of one machine: ration docs --text kubernetes\n"},
      {"slurm", "limits for jobs of Slurm",
       "Slurm allocates shares of GPUs to jobs and accounts for them (gres/shard, in MiB of one GPU). On the node,\n"
       "ration enforces each share as a limit:\n\n"
       "  srun --gpu-mem=4GiB python train.py\n"
       "  sbatch --gpu-mem=4GiB --gpu-mem-guarantee=2GiB job.sh\n"
       "  ration snippet slurm --node NAME     prints the lines that Slurm's configuration needs for this machine\n"
       "  ration report --slurm JOB            shows what a job was granted and used here; agrees with sacct\n\n"
       "The daemon runs as root on each node. Slurm loads ration's plugin (ration_spank.so, compiled from\n"
       "share/ration/slurm/ration_spank.cpp with the headers of that Slurm) and finds cli_filter.lua and\n"
       "job_submit.lua beside slurm.conf. All steps of a job on a node are one workload, slurm-JOB, charged to\n"
       "the user of the job. The job's tasks have the guard, /etc/ld.so.preload and their book in a mount\n"
       "namespace of their own, so that no environment variable affects them.\n"
       "A job with a share does not start if its limit could not be enforced: without the daemon, without\n"
       "PrologFlags=Alloc,Contain, without cli_filter.lua.\n"
       "The limit is not enforced on static programs that contain CUDA, on programs in user namespaces or in\n"
       "containers that a job starts, and on programs started over ssh. Such a process is UNGOVERNED in ration ps\n"
       "when it holds memory of a GPU.\n"},
      {"schema", "JSON output",
       "ration help schema VERB prints the JSON schema of ration VERB -o json; the daemon's answers over HTTP also\n"
       "have schemas.\n"
       "Every document has the fields schema, time, host, source, data and warnings. Bytes are integers in\n"
       "fields named *_bytes.\n"
       "An unknown value is null, and <field>_na gives the reason.\n"
       "A new version can add fields, but never renames a field or changes the type of a field. When a command\n"
       "fails, the document has the field error: {id, message, fix, exit_code}.\n"},
      {"errors", "the errors and what to do", errors_text()},
  };
  return all;
}

}  // namespace ration::cli
