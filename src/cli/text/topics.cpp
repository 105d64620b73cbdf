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
         "CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER=PCI_BUS_ID and, with --require-enforced, LD_AUDIT. Unless they are\n"
         "set already, also TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_PREALLOCATE=false and\n"
         "TF_DEVICE_MIN_SYS_MEMORY_IN_MB=128 (memory that TensorFlow leaves unused; its own default is 225 to\n"
         "1,800 MiB). With that last variable TensorFlow ignores per_process_gpu_memory_fraction, unless the program\n"
         "imports ration. --framework-hints off leaves these three as they are.\n"
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
  std::string text = "Every error has a number and says what failed, how much, who holds it, and what to type.\n\n";
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
       "  50%                      half of the GPU's total, however much is free\n"
       "  50%free                  half of what is free now\n"
       "  max  max-1GiB            all of the GPU; all but 1 GiB\n"
       "  unlimited                no limit: memory is only counted\n\n"
       "A bare number is an error, because TensorFlow reads it as MiB, PyTorch as a fraction and others as\n"
       "bytes.\n"
       "A limit is rounded down to the GPU's granule of 2 MiB. Printed sizes have three digits, which --units\n"
       "changes to si or bytes. JSON has exact bytes.\n"},
      {"limit", "what a limit is",
       "The most bytes of one GPU that the processes of a workload can hold together. A request for more is\n"
       "denied: the call fails as on a full GPU (CUDA_ERROR_OUT_OF_MEMORY). The program sees the limit as the\n"
       "size of the GPU.\n\n"
       "  ration run --limit 4GiB -- python train.py   starts a program under a limit\n"
       "  ration set train --limit 6GiB                changes it while the program runs; also +1GiB, -1GiB\n"
       "  ration why train                             says which request was denied, and what to type\n\n"
       "The limit in force may be lower for a while, where a tenant's limit, a policy or another's guarantee\n"
       "needs the room: ration ps says why. The program then still sees a GPU of the size that was granted, with\n"
       "less free memory. Before the start, ration run says how much less that is and for whom the rest is kept;\n"
       "in that case --require-limit does not start the program.\n"
       "A limit promises nothing. A guarantee does: ration help guarantee.\n"},
      {"guarantee", "what a guarantee is",
       "Bytes of one GPU that are kept for a workload or a tenant. While the daemon runs, no other workload is\n"
       "granted them, used or not.\n"
       "Guarantees, slices and the memory that is kept free together never exceed the memory of the GPU; a guarantee\n"
       "or slice that does not fit is rejected at once.\n\n"
       "  ration run --guarantee 4GiB --limit 8GiB -- …   promises 4 GiB and allows 8\n"
       "  ration set train --guarantee 2GiB               changes the guarantee; 0 ends it\n"
       "  ration explain --gpu 0                          shows the guarantees on a GPU\n\n"
       "A guarantee holds against governed programs only: a program without a limit can still take the memory.\n"},
      {"tenant", "what a tenant is",
       "The person, team or service that a workload is charged to. [[tenant]] in ration.toml gives a tenant a\n"
       "limit and a guarantee for all of its workloads on a GPU, a priority and a price. A workload's tenant is\n"
       "the one whose match fits it, or the one that ration run --tenant names. Without either, the tenant is\n"
       "the user's name; without a daemon it is 'default', since all workloads are then one user's.\n\n"
       "  ration ps --tenant nlp                 shows the workloads of a tenant\n"
       "  ration set nlp --limit 20GiB           changes its limit\n"
       "  ration report --by tenant              shows what each tenant used\n"},
      {"out-of-memory", "it says out of memory: what now?",
       "  ration why                            which request was denied, who held what, and what to type\n"
       "  ration ps                             who holds the GPU now; UNGOVERNED is not under a limit\n"
       "  ration set train --limit 6GiB         a larger limit while the program runs\n"
       "  ration run --wait --limit 6GiB -- …   waits until that much is free\n"
       "  ration trim NAME                      makes a neighbour give back what it does not use\n"
       "  ration record -o train.rec -- python train.py   records a run; then, of its file:\n"
       "  ration inspect train.rec              what the peak consisted of, and what grows\n"
       "  ration whatif train.rec               the smallest limit, and whether other settings need less\n\n"
       "cuBLAS and cuDNN report the same as CUBLAS_STATUS_ALLOC_FAILED or CUDNN_STATUS_ALLOC_FAILED. `Killed` and\n"
       "exit code 137 are about the memory of the host, not of the GPU.\n"
       "docs/out-of-memory.md has more.\n"},
      {"tensorflow", "limits for TensorFlow",
       "  ration run --limit 4GiB -- python train.py\n\n"
       "TensorFlow sees a GPU of 4 GiB and begins small, since ration run sets TF_FORCE_GPU_ALLOW_GROWTH=true\n"
       "unless it is set. Its own calls work below that limit:\n\n"
       "  set_memory_growth                               not needed under ration run\n"
       "  LogicalDeviceConfiguration(memory_limit=2048)   parts of the limit, in MiB of TensorFlow's pool\n"
       "  set_visible_devices                             or: ration run --gpu 1\n"
       "  per_process_gpu_memory_fraction                 a share of the limit; ration help env says when not\n\n"
       "`import ration.tf as tf` in place of `import tensorflow as tf` adds tf.config.experimental.set_memory_limit,\n"
       "which can be called at any time. ration run --tensorboard FOLDER writes memory beside the loss.\n"
       "docs/tensorflow.md has every name of tf.config.\n"},
      {"pytorch", "limits for PyTorch",
       "  ration run --limit 4GiB -- python train.py\n\n"
       "torch.cuda.mem_get_info() tells a GPU of 4 GiB, and a tensor beyond it raises torch.OutOfMemoryError.\n"
       "The limit counts PyTorch's cache, contexts, workspaces and NCCL; set_per_process_memory_fraction counts the\n"
       "cache alone.\n\n"
       "  PYTORCH_ALLOC_CONF=expandable_segments:True     fewer gaps where sizes vary\n"
       "  PYTORCH_ALLOC_CONF=backend:cudaMallocAsync      gives back what it does not use (ration trim, a neighbour)\n"
       "  ration.torch.use()                              tensors from ration's pool, which grows and shrinks\n\n"
       "docs/pytorch.md has figures.\n"},
      {"exit-codes", "what the exit codes mean",
       "  0    done; the check passed\n"
       "  1    the operation failed, and the message says why\n"
       "  2    wrong usage, or a configuration that cannot be used\n"
       "  3    not found; nothing matched; no GPU\n"
       "  4    does not fit now (fits, whatif, split, set, guarantees), or was not confirmed (set, stop)\n"
       "  5    not permitted to this user\n"
       "  6    the limit would not hold for this program, which was not started\n\n"
       "ration run ends with the program's own code, or with 128 + the signal that killed it. Where the program\n"
       "did not run, it ends with a number of the table above or with one of these:\n\n"
       "  124  the time of --wait passed\n"
       "  125  ration itself failed\n"
       "  126  the program is not executable\n"
       "  127  the program was not found\n\n"
       "ration doctor ends with 0 if no check failed, else with 1; with --strict a warning counts as a failure.\n"},
      {"env", "environment variables", variables_text()},
      {"config", "the configuration file", configuration_text()},
      {"simulated", "what the simulated GPU does, and what it does not",
       "ration run --sim puts a simulated driver in front of NVIDIA's and, where the program's environment has a\n"
       "CUDA runtime (12 or 13), a simulated runtime and stand-ins for cuBLAS, cuBLASLt, cuDNN, cuFFT,\n"
       "cuSOLVER's dense part, cuSPARSE, cuRAND and NCCL.\n\n"
       "As on a real GPU: devices, properties, everything about memory, the contents of copies and fills,\n"
       "streams, events, graphs, sharing, the data that NCCL moves between the ranks of one machine, denials.\n"
       "Not computed: the results of kernels, of the mathematics libraries and of NCCL's reductions. Memory\n"
       "keeps its old content (zeros when new), so losses, accuracies and sampled values mean nothing; a program\n"
       "that branches on them always takes the same branch.\n"
       "Assumed: the workspaces of cuBLAS (4 MiB a handle, 32 MiB from compute capability 9 on), of cuDNN (8 MiB\n"
       "a plan), of cuFFT (the size of its data, 8 times that for large prime factors), of cuSOLVER and cuSPARSE\n"
       "(the size of their matrices).\n"
       "Missing: textures and other rare calls; their errors name the function.\n"
       "Cannot start: libraries that contain NVIDIA's CUDA runtime (CuPy, XGBoost, cuda.bindings.runtime), since\n"
       "they ask the driver for private functions; a line on standard error names the library.\n"
       "Does not work, because it depends on a value that a kernel would compute: generate() of vLLM's second\n"
       "model runner never ends (set VLLM_USE_V2_MODEL_RUNNER=0); TensorBoard's files have no scalars;\n"
       "torch.distributed's object lists over NCCL alone fail with EOFError or UnpicklingError (start it with\n"
       "init_process_group('cpu:gloo,cuda:nccl')). docs/frameworks.md has the whole list.\n\n"
       "Each program finds the CUDA version that it asks for, also when bash, torchrun or uv starts it.\n"
       "--sim-cuda 12 or 13 gives all of them that version, none gives no runtime. ration sim env simulates a\n"
       "GPU without ration run.\n"},
      {"enforcement", "how a limit is enforced, and what escapes it",
       "The guard is a pair of libraries with the driver's own names (libcuda.so.1, libnvidia-ml.so.1),\n"
       "preloaded into the program and everything it starts.\n"
       "Every function of the driver that takes device memory goes through it, however the program finds it.\n"
       "The limit itself lies in the book, not in the environment.\n\n"
       "Behind the guard is the driver that the program would load without it. ration looks for it as the\n"
       "dynamic linker does: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, /etc/ld.so.cache, the linker's own folders;\n"
       "then where Debian (nvidia/current), Jetson (nvidia, tegra), WSL 2, NixOS and GKE put it. A driver that\n"
       "the program opens by its path is used; a stub of the CUDA toolkit is not. ration doctor --only gpu.files\n"
       "names the files that were found.\n\n"
       "A program that the workload starts gets the guard and the book again, whatever LD_PRELOAD or environment\n"
       "its launcher gave it, unless --allow-ungoverned is given.\n"
       "The guard cannot stop: statically linked, set-uid and musl programs; a program that starts others by a\n"
       "system call of its own without LD_PRELOAD or RATION_BOOK, reads the driver's symbol tables itself or\n"
       "talks to the kernel driver; processes started outside. ration run does not start a program that\n"
       "would escape (ssh, srun, a tmux whose server runs already), unless --allow-ungoverned is given. It\n"
       "does start a static program: as a rule such a program loads no driver, and what it starts gets the guard.\n"
       "If a script starts ssh, srun or the like, ration ps names that launcher beside the workload. A process that\n"
       "escapes later is UNGOVERNED in ration ps, and ration run names it when the program ends.\n"
       "With --require-enforced the dynamic linker also asks the guard (LD_AUDIT). The guard then also holds a\n"
       "program that would find a driver before it finds the guard, that is linked with a driver by path, or that\n"
       "opens one with a dlopen() or dlmopen() that it took from libc by dlsym(). Without that option the memory\n"
       "of such a program is in no book, and the daemon reports the program as not governed.\n"
       "The price: a program that is linked with libraries of more than 3 KiB of static thread-local memory does\n"
       "not start; raise that size with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=65536.\n"
       "Nor can the guard stop a program that writes its own book, which is a file of its user: the daemon\n"
       "restores the limit at its next tick and records a violation, but memory taken in between stays taken.\n"
       "Where the driver itself holds the limit (from release 615 on: docs/node.md), it holds these programs, too.\n"
       "A guarantee is kept from other guarantees and slices only: programs without a limit can still take any\n"
       "free memory.\n\n"
       "A function of a later driver that ration does not know works, but the memory that it takes is not held.\n"
       "If its name suggests memory, the first call is noted:\n"
       "ration ps, ration doctor and the metric ration_unlisted_functions show it.\n"
       "The driver takes some memory by itself: local memory of kernels, code of unknown size, contexts of\n"
       "private functions. The daemon finds it by comparing the book with the driver's figures, and shows it in\n"
       "the workload's row; from then on it counts towards the limit. Without a daemon it is not held. Stacks, and\n"
       "the code and global variables of cubins, are charged when the program asks for them.\n"
       "Managed memory (cudaMallocManaged, TF_FORCE_UNIFIED_MEMORY): the part that may be on the GPU counts; the\n"
       "rest stays in host memory, and more moves there when other memory needs the room. --managed charge\n"
       "counts every byte, --managed ignore counts none. Managed memory is charged on the GPU on which it was\n"
       "taken; a kernel of another GPU that touches it is not held.\n"
       "nvidia-smi under ration run: NVML's public functions show it the workload (the limit as the total, the\n"
       "workload's memory as used). Since release 535 it reads the list of processes, and some figures, through\n"
       "a private table of NVML that no library can stand in front of; these show the whole machine.\n"},
      {"containers", "limits for containers",
       "The daemon (as root) describes each tenant and each slice of this node to container engines as a device,\n"
       "in /var/run/cdi. One option of the engine, beside NVIDIA's, puts a container under the limit:\n\n"
       "  docker run --device nvidia.com/gpu=0 --device ration.sh/tenant=nlp IMAGE\n"
       "  podman run --device nvidia.com/gpu=0 --device ration.sh/gpu=0.2 IMAGE     a slice, for one container\n"
       "  ration inject docker --limit 4GiB -- run --gpus all IMAGE                 a limit of its own\n"
       "  ration inject compose --limit 4GiB -- -f compose.yaml up                  services of a compose file\n"
       "  ration inject oci BUNDLE --limit 4GiB                                     config.json of runc, crun, ctr\n\n"
       "Docker 25 and newer, Podman 4, containerd 1.7 and CRI-O read these descriptions (the Container Device\n"
       "Interface). Other engines need --without-cdi.\n"
       "The container gets the guard, its book, and /etc/ld.so.preload, which the container's own root cannot\n"
       "change without CAP_SYS_ADMIN.\n"
       "No variable holds the limit.\n"
       "The container does not start where it is known beforehand that the limit would not hold: without the\n"
       "daemon, with musl, with a glibc older than 2.17.\n"
       "Not held, and shown as UNGOVERNED where it takes memory of a GPU: a statically linked program; a program\n"
       "that unmounts the guard (--privileged, CAP_SYS_ADMIN, or a user namespace where the engine's seccomp\n"
       "profile allows one, as Podman's does and Docker's does not); a program that enters another root (chroot)\n"
       "or uses a copy of the driver or of the dynamic linker; a container inside a container.\n"
       "A program that writes into its own book may hold more: the daemon counts all that its limit allows as\n"
       "held, and ration ps shows BOOK ALTERED.\n"
       "[defaults] ungoverned = \"terminate\" in ration.toml ends processes that escape.\n"
       "ration ps gives a container the name that its engine gives it; the image and the engine are labels.\n"},
      {"kubernetes", "limits for pods of Kubernetes",
       "A pod claims an amount of GPU memory (Dynamic Resource Allocation, Kubernetes 1.34 and newer), and\n"
       "Kubernetes places it:\n\n"
       "  kubectl apply -k share/ration/kubernetes           ration on every node; also a Helm chart\n"
       "  ration snippet kubernetes IMAGE --limit 4GiB       a pod with a claim, to begin with\n\n"
       "The daemon on each node holds the limits; pods keep them while it is replaced.\n"
       "docs/scenarios/kubernetes.md begins with a cluster of one machine.\n"},
      {"slurm", "limits for jobs of Slurm",
       "Slurm places shares of GPUs and accounts for them (gres/shard, in MiB of one GPU); ration makes each\n"
       "share a limit on the node:\n\n"
       "  srun --gpu-mem=4GiB python train.py\n"
       "  sbatch --gpu-mem=4GiB --gpu-mem-guarantee=2GiB job.sh\n"
       "  ration snippet slurm --node NAME     prints the lines that Slurm's configuration needs for this machine\n"
       "  ration report --slurm JOB            shows what a job was granted here and used; agrees with sacct\n\n"
       "The daemon runs as root on each node. Slurm loads ration's plugin (ration_spank.so, compiled from\n"
       "share/ration/slurm/ration_spank.cpp with the headers of that Slurm) and finds cli_filter.lua and\n"
       "job_submit.lua beside slurm.conf. All steps of a job on a node are one workload, slurm-JOB, charged to\n"
       "the user of the job. The job's tasks have the guard, /etc/ld.so.preload and their book in a mount\n"
       "namespace of their own, so that no variable changes them.\n"
       "A job with a share does not start where its limit would not hold: without the daemon, without\n"
       "PrologFlags=Alloc,Contain, without cli_filter.lua.\n"
       "Not held: static programs that contain CUDA, user namespaces, containers that a job starts, ssh to the\n"
       "node. Such a process is UNGOVERNED in ration ps where it takes memory of a GPU.\n"},
      {"schema", "JSON output",
       "ration help schema VERB prints the JSON schema of ration VERB -o json; the answers of the daemon have\n"
       "schemas as well.\n"
       "Every document has the fields schema, time, host, source, data and warnings. Bytes are integers in\n"
       "fields named *_bytes.\n"
       "An unknown value is null, and <field>_na gives the reason.\n"
       "A version may add fields; it never renames one or changes its type. When a command fails, the document\n"
       "has error {id, message, fix, exit_code}.\n"},
      {"errors", "the errors and what to do", errors_text()},
  };
  return all;
}

}  // namespace ration::cli
