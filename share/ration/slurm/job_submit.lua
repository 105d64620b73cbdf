-- What slurmctld rejects of shares of GPUs, whoever asks and by whatever client. slurm.conf: JobSubmitPlugins=lua, and
-- this file beside slurm.conf. `ration snippet slurm --node` prints the line of the largest GPU, in MiB.

-- The most that one GPU of this cluster has. Slurm queues what is larger for ever.
largest_gpu_mib = largest_gpu_mib or 144384

local function reject(text)
  slurm.log_user("ration: %s", text)
  return slurm.ERROR
end

local fields = {"tres_per_node", "tres_per_job", "tres_per_task", "tres_per_socket"}

local function check(job)
  local shares, gpus = nil, false
  for _, field in ipairs(fields) do
    for resource in string.gmatch(job[field] or "", "[^,]+") do
      local name = string.gsub(resource, "^gres[:/]", "")
      if string.match(name, "^gpu$") or string.match(name, "^gpu[:=]") then
        gpus = true
      elseif string.match(name, "^shard$") or string.match(name, "^shard[:=]") then
        if field ~= "tres_per_node" then
          return reject("a share of a GPU is asked for by node: --gpu-mem=4GiB")
        end
        local amount = string.match(name, "[:=]([^:=]*)$")
        if not amount then
          return reject("--gres=shard without an amount is 1 MiB. Type --gpu-mem=4GiB")
        end
        if not string.match(amount, "^%d+$") then
          return reject("--gres=" .. name .. ": shards are counted in MiB, and Slurm multiplies by a unit once more. Type --gpu-mem=4GiB")
        end
        shares = (shares or 0) + tonumber(amount)
      end
    end
  end
  if shares and gpus then
    return reject("whole GPUs (--gres=gpu, --gpus) and a share of one (--gpu-mem, --gres=shard) exclude one another")
  end
  if shares and shares > largest_gpu_mib then
    return reject(string.format("%d MiB are more than one GPU of this cluster has (%d MiB), and a share is of one GPU. Type --gpu-mem=%dMiB or less, or --gres=gpu:N",
                                shares, largest_gpu_mib, largest_gpu_mib))
  end
  return slurm.SUCCESS
end

function slurm_job_submit(job, partitions, uid)
  return check(job)
end

function slurm_job_modify(job, record, partitions, uid)
  return check(job)
end

return slurm.SUCCESS
