-- What `--gpu-mem=4GiB` of srun, sbatch and salloc means to Slurm's scheduler: gres/shard, counted in MiB of one GPU.
-- slurm.conf: CliFilterPlugins=cli_filter/lua, and this file beside slurm.conf. It runs as the user: what no user may
-- get around is in job_submit.lua.

local function reject(text)
  slurm.log_error("ration: %s", text)
  return slurm.ERROR
end

-- As src/adapters/slurm/spank.cpp has checked it: whole, with a unit.
local function mib(size)
  local number, unit = string.match(size, "^(%d+)([MGT])i?B?$")
  local factor = ({M = 1, G = 1024, T = 1048576})[unit]
  return factor and tonumber(number) * factor
end

function slurm_cli_setup_defaults(options, early_pass)
  return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
  local typed = options["spank"] and options["spank"]["ration"] or {}
  local memory, guarantee = typed["gpu-mem"], typed["gpu-mem-guarantee"]
  if not memory or memory == "" then
    if guarantee and guarantee ~= "" then
      return reject("--gpu-mem-guarantee is a part of --gpu-mem, which is not given. Add --gpu-mem=" .. guarantee)
    end
    return slurm.SUCCESS
  end
  local wanted = mib(memory)
  if not wanted then
    return reject("--gpu-mem " .. memory .. ": not a size. Type --gpu-mem=4GiB or 512MiB")
  end
  if guarantee and guarantee ~= "" and mib(guarantee) and mib(guarantee) > wanted then
    return reject("--gpu-mem-guarantee " .. guarantee .. " is more than --gpu-mem " .. memory)
  end
  for _, other in ipairs({"gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"}) do
    local present = options[other]
    if present and present ~= "" and (other ~= "gres" or string.find(present, "gpu") or string.find(present, "shard")) then
      return reject("--gpu-mem and --" .. other .. "=" .. present .. " exclude one another: a share of a GPU, or whole GPUs")
    end
  end
  local share = "shard:" .. string.format("%d", wanted)
  options["gres"] = options["gres"] and options["gres"] ~= "" and options["gres"] .. "," .. share or share
  return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
  return slurm.SUCCESS
end
