// What the daemon says, in Chinese: by the ids of its messages (src/base/message_table.hpp has the English of the same ids
// and the same arguments, and a test compares them).

import { fill, type Language, type Said } from "./message";

export const messages: Record<string, string> = {
  // Workloads come and go.
  "workload.started": "{workload} 已启动，上限 {limits_bytes}",
  "workload.ended": "{workload} 已结束（退出码 {status}），峰值 {peak_bytes}",
  "workload.ended_unseen": "{workload} 已结束（未说明结果），峰值 {peak_bytes}",
  // Requests that were denied, or waited.
  "request.denied": "{workload} 申请 {requested_bytes} 被拒绝：已持有 {used_bytes}，上限 {limit_bytes}",
  "request.denied_held_back": "{workload} 申请 {requested_bytes} 被拒绝：已持有 {used_bytes}，当时上限 {configured_bytes} 中可用 {limit_bytes}",
  "request.denied_function": "{workload} 调用 {function} 被拒绝：{reason!}",
  "request.waited": "{workload} 等待约 {waited_wait_seconds} 后得到了 {requested_bytes}：已持有 {used_bytes}，上限 {limit_bytes}[（{within_seconds} 内 {count} 次等待中的最近一次）]",
  // Limits.
  "limit.changed": "{workload}：[GPU {gpu} 的]{changes}，操作者 {by}[；正在收缩，超出 {over_bytes}]",
  "limit.change": "上限 {before_bytes} → {after_bytes}",
  "guarantee.change": "保障 {before_bytes} → {after_bytes}",
  "tenant.limit_changed": "租户 {tenant}：上限 {before!} → {after!}，操作者 {by}{over}",
  "tenant.guarantee_changed": "租户 {tenant}：保障 {before!} → {after!}，操作者 {by}{over}",
  "tenant.over": "；GPU {gpu} 上超出 {over_bytes}",
  "limit.moved": "{workload} 现在可持有 {after_bytes}（原为 {before_bytes}）[：{reason!}][（{within_seconds} 内 {count} 次变化中的最近一次）]",
  "limit.moved_at_once": "{workload} 现在可持有 {after_bytes}（原为 {before_bytes}）[：{reason!}]（{count} 次变化中的最近一次）",
  "limit.shrinking": "{workload} 持有 {used_bytes}，超出上限 {limit_bytes} 达 {over_bytes}：回到上限以下之前不会再分配；其中 {pools_bytes} 在驱动的池中，{contexts_bytes} 是上下文，其余正在使用",
  "limit.shrinking_moves": "{workload} 持有 {used_bytes}，超出上限 {limit_bytes} 达 {over_bytes}：下一次申请会把同样多的托管内存移到主机",
  "limit.under_again": "{workload} 已回到上限以下",
  "guarantee.lost": "{workload} 已恢复，但失去了 {guarantee_bytes} 的保障：{reason!}",
  "guarantee.impossible": "{workload} 自称有 {guarantee_bytes} 的保障：{reason!}它没有保障",
  "tenant.soft_limit": "租户 {tenant} 在 GPU {gpu} 上持有 {used_bytes}：超过其上限 {limit_bytes} 的 {share_percent}%",
  // Idle, suspended, back.
  "idle.told": "{workload}：{reason!}",
  "idle.trims": "{workload}：{reason!}；已要求其归还未使用的部分",
  "idle.suspends": "{workload}：{reason!}；正在挂起",
  "idle.not_suspended": "{workload}：{reason!}；未挂起：{problem!}",
  "trim.gave_back": "{workload} 归还了 {before_bytes} 中的 {returned_bytes}",
  "trim.gave_nothing": "{workload} 的 {before_bytes} 没有归还：全部在使用，或其中没有配合的程序",
  "suspension.begins": "{workload} 正在挂起",
  "suspension.gives_way": "{workload} 正在挂起：GPU {gpu} 上有 {count} 个工作负载持有内存并等待更多；它的 {freed_bytes} 让等待更久的 {other} 继续",
  "suspension.cannot_give_way": "{workload} 与 {other} 互相等待对方的内存，未能挂起：{reason!}",
  "suspension.done": "{workload} 已挂起：其 {moved_bytes} 在主机内存中，直到它再次工作",
  "suspension.failed": "{workload} 未挂起：{reason!}",
  "resumption.asked": "{workload} 要求回到其设备：{reason!}",
  "resumption.done": "{workload} 已回到其设备",
  "resumption.done_elsewhere": "{workload} 已回到其设备：由他人恢复",
  "resumption.failed": "{workload} 尚不能恢复：{reason!}",
  "resumption.gave_way": "它为 {other} 让路，仍在等待",
  "resumption.requested": "{by} 请求恢复",
  // Who breaks a rule, and what nobody governs.
  "limit.put_back": "{workload}：守护进程未运行期间，上限被设为 {found_bytes}；已改回 {owned_bytes}",
  "guarantee.put_back": "{workload}：守护进程未运行期间，保障被设为 {found_bytes}；已改回 {owned_bytes}",
  "limit.tampered": "{workload} 自行将上限改为 {found_bytes}；已改回 {owned_bytes}",
  "guarantee.tampered": "{workload} 自行将保障改为 {found_bytes}；已改回 {owned_bytes}",
  "book.altered": "{workload}[（容器 {container}）]的账面被改动：{what!}；结束之前，按其占满全部可用量计算",
  "book.grown": "{workload} 把账面加长到 {size_bytes}；已截回",
  "book.beside": "{workload} 的 pid {pid} 按驱动使用 {driver_bytes}，按其账面为 {book_bytes}",
  "book.wrong_tenant": "{workload} 的账面称属于租户 {named}，而 {user} 不属于它：计入 {tenant}",
  "ungoverned.found": "进程 {pid}（{command}，{user}）在 GPU {gpu} 上持有 {used_bytes}，{why!}[：{origin!}]",
  "ungoverned.found_untold": "进程 {pid}（{command}，{user}）在 GPU {gpu} 上持有 n/a（{untold!}），{why!}[：{origin!}]",
  "ungoverned.hidden": "一个未通过 ration 启动的进程持有内存",
  "ungoverned.no_limit": "进程 {pid}（{command}，{user}）在 GPU {gpu} 上不受限制[：将在 {grace_seconds} 后结束它]",
  "ungoverned.signalled": "进程 {pid}（{command}，{user}）不受限制：已发送 {signal}",
  "ungoverned.cannot_end": "进程 {pid}（{command}，{user}）不受限制，且此守护进程的用户无法结束它",
  "process.container": "容器 {container}",
  "process.without_guard": "由工作负载 {workload} 启动，但未加载守护层",
  "process.book_removed": "它的账本 {book} 在运行期间被删除，没有别的账本为它记账",
  "process.outside": "未通过 ration 启动",
  "orphaned.closed": "GPU {gpu} 的 {orphaned_bytes} 正在使用，而驱动未列出任何使用它们的进程；{file} 未被任何进程打开",
  "orphaned.open": "GPU {gpu} 的 {orphaned_bytes} 正在使用，而驱动未列出任何使用它们的进程；{file} 被 {openers} 打开",
  "orphaned.opener": "进程 {pid}（{command}，状态 {state}）",
  // What cannot be enforced.
  "book.unreadable": "无法读取账面：{reason!}",
  "limit.unwritable": "无法写入上限：{book}",
  "driver.no_limits": "驱动不执行上限，由守护层执行：{reason!}",
  // The queue.
  "lease.waits": "{tenant} 的 {lease} 在等待 {requested_bytes}：{reason!}",
  "lease.granted": "{tenant} 的 {lease} 可在 GPU {gpus} 上启动[{passed!}]",
  // The configuration.
  "configuration.broken": "{place}：{problem!}；{fix}",
  "configuration.rejected": "新配置被拒绝：{reason!}",
  "configuration.unchanged": "已重新读取配置：没有变化",
  "configuration.changed": "配置已更改：{changes}",
  "schedule.set": "{by} 设置了时间表 {schedule}（{days} {hours}：{limits}）",
  "schedule.removed": "{by} 删除了时间表 {schedule}",
  "claim.granted": "申请 {claim} 获得了 {parts}",
  "claim.part": "GPU {gpu} 的 {granted_bytes}",
  "claim.returned": "申请 {claim} 已归还",
  "alert.raised": "{about!}：触发（{rule}）",
  "alert.cleared": "{about!}：解除（{rule}）",
  // The daemon and its records.
  "daemon.started": "守护进程已启动（ration {version}，pid {pid}）",
  "daemon.ended": "守护进程已结束",
  "daemon.unreachable": "守护进程无法访问：{reason!}",
  "devices.lost": "无法查询设备：{reason!}",
  "accounts.gap": "约 {gap_seconds} 无人记录：账目中的缺口，不计入任何人",
  "accounts.clock_back": "时钟被拨回约 {back_seconds}：到达原时间之前不记录",
  "events.flood": "{user} 一分钟内的 {count} 条事件未记录：{kinds}",
  "events.lost": "{from} 至 {to} 的 {count} 条事件已丢失：历史无法写入，且已有 {kept} 条更早的事件在等待",
};

// What the daemon says as a text alone, in the words of its sources and in Chinese: events, reasons, findings. It says them in English
// everywhere (terminal, history, alerts), so a sentence is recognised by its words, and told again with what it was filled
// with. A test holds the English against the sources: none is missing, none is left over.
//
// `{}` is what the daemon fills in; in the Chinese by its number, `{2!}` where it is a sentence itself. One that begins
// with a space or a semicolon follows another one.

export const sentences: [string, string][] = [
  // What was refused, and who waited.
  ["{} held {} of its limit {}, and {} more would not fit", "{1} 已持有 {2}，上限 {3}，再加 {4} 就放不下"],
  ["all {} entries of the guard's table behind {} were in use: see limits-of-enforcement.md", "{2} 背后的守护表共 {1} 项，已全部占用：见 limits-of-enforcement.md"],
  ["in the program: free some of what {} gave before it asks for more", "在程序中：先释放一些由 {1} 得到的内存，再申请更多"],
  ["{}: that part of {} held {} of its share {}, and {} more would not fit", "{1}：{2} 的这一部分已持有 {3}，份额 {4}，再加 {5} 就放不下"],
  ["{} held {} and might hold {} of its limit {} at that moment: {}", "{1} 已持有 {2}，其上限为 {4}，当时只可持有 {3}：{5!}"],
  ["the GPU itself was full; the limit would have allowed it", "GPU 本身已满；上限本来允许"],
  ["the GPU itself was full: {} were free; the limit would have allowed {}", "GPU 本身已满：空闲 {1}；上限本来允许 {2}"],
  ["the request was for a GPU that was not granted to {}", "申请的 GPU 未分配给 {1}"],
  ["GPU {} was not granted to {}", "GPU {1} 未分配给 {2}"],
  ["the book could not be used", "账面无法使用"],
  ["; of others {} holds most: {}", "；其他程序中 {1!} 持有最多：{2}"],
  ["pid {}, ungoverned", "进程 {1}（未受管）"],
  ["the GPU was full: {} were free", "GPU 已满：空闲 {1}"],
  // Limits.
  ["limit", "上限"],
  ["guarantee", "保障"],
  ["none", "无"],
  ["{} holds {}, {} more than its limit {}: its next request moves as much of its managed memory to the host",
    "{1} 持有 {2}，超出上限 {4} 达 {3}：下一次申请会把同样多的托管内存移到主机"],
  ["as configured", "按配置"],
  ["its tenant's limit", "受其租户上限限制"],
  ["must free memory that is guaranteed to {}", "须归还保障给 {1} 的部分"],
  ["must free memory that is sliced or kept free", "须归还已切片或保持空闲的部分"],
  ["the rest is guaranteed to others, reserved, or in use", "其余已保障给他人、被预留或正在使用"],
  ["kept for {}", "为 {1} 保留"],
  ["{} has {} by the policy at {}", "按 {3} 处的策略，{1} 有 {2}"],
  ["the policy at {} gives {}", "{1} 处的策略给出 {2}"],
  ["{} cannot be promised to {}: GPU {} has {}, of which {}.", "无法向 {2} 保障 {1}：GPU {3} 有 {4}，其中{5!}。"],
  ["{} of GPU {} may not be reserved for {}: it is guaranteed {} there{}.", "GPU {2} 的 {1} 不得为 {3} 保留：它在该处的保障为 {4}{5!}。"],
  [", of which {} is taken", "，其中 {1} 已占用"],
  ["nothing else is promised", "没有其他保障"],
  ["promised already: {}", "已保障：{1!}"],
  ["{}, {} are sliced or kept free", "{1!}，{2} 已切片或保持空闲"],
  ["{} are sliced or kept free", "{1} 已切片或保持空闲"],
  ["{}, {} to what else runs of {}", "{1!}，{2} 给 {3} 的其他程序"],
  ["{} to what else runs of {}", "{1} 给 {2} 的其他程序"],
  ["{} uses {}, {} more than that: nothing is taken away, more is denied until it is under.", "{1} 使用 {2}，比它多 {3}：不会收回，但回到其下之前不再分配。"],
  ["It may hold {} at this moment: {}.", "目前可持有 {1}：{2!}。"],
  ["a GPU that is not here", "不在此机器上的 GPU"],
  ["{} has {} free: {} cannot be reached at this moment.", "{1!} 空闲 {2}：目前达不到 {3}。"],
  ["The next allocation on {} sees {}.", "{1!} 上的下一次分配将看到 {2}。"],
  ["{} containers share the {} of claim {}", "{1} 个容器共用申请 {3} 的 {2}"],
  ["schedule of {}", "{1} 的时间表"],
  // Rest, suspension, return.
  ["{}/{}: no memory taken or given back and no computing for {}", "{1}/{2}：{3} 内没有申请或归还内存，也没有计算"],
  ["{}/{}: no memory taken or given back for {}; whether it computes is not known", "{1}/{2}：{3} 内没有申请或归还内存；是否在计算未知"],
  [", so it is not suspended", "，因此不挂起"],
  [", and it holds nothing", "，且不持有内存"],
  ["it gave way to {} and still waits", "它为 {1} 让路，仍在等待"],
  ["{} asked for it", "{1} 请求恢复"],
  ["to come back to its device ({}): {}", "等待回到其设备（{1!}）：{2!}"],
  ["it may have worked while no daemon ran", "不知道其间是否工作过"],
  ["an earlier attempt failed", "此前未能恢复"],
  ["its program works again", "其程序再次工作"],
  ["one of its threads woke, so it may work again", "其一个线程有了动静，可能再次工作"],
  ["pid {} of {} is not visible from here as a process of {}.", "从这里看不到 {2} 的 pid {1} 属于 {3}。"],
  ["{} uses no device yet.", "{1} 尚未使用设备。"],
  ["{} is suspended, or on its way, already.", "{1} 已挂起或正在挂起。"],
  ["the host has {} of memory free: too little for the {} of {}.", "主机空闲内存 {1}：不足以容纳 {3} 的 {2}。"],
  ["the book of {} cannot be changed: {}.", "无法更改 {1} 的账面：{2!}。"],
  ["{} is not known to the daemon.", "守护进程不认识 {1}。"],
  ["this driver cannot move a program's memory (cuCheckpointProcess*: driver 570 or newer).", "此驱动无法移动程序的内存（cuCheckpointProcess*：需 570 或更新的驱动）。"],
  ["the driver does not let this user {} pid {}.", "驱动不允许此用户对 pid {2} 执行 {1}。"],
  ["a driver call of pid {} did not end within {} s.", "pid {1} 的驱动调用未在 {2} 秒内结束。"],
  ["the device has no room for the memory of pid {} now.", "设备目前没有空间容纳 pid {1} 的内存。"],
  ["the driver failed with error {} to {} pid {}.", "驱动对 pid {3} 的 {2} 返回错误 {1}。"],
  ["the memory cgroup {} has {} left: the {} of {}, copied into it, would have it killed.", "内存 cgroup {1} 只剩 {2}：把 {4} 的 {3} 复制进去会使它被终止。"],
  ["the driver can no longer bring pid {} back (error 304).", "驱动不再恢复 pid {1}（错误 304）。"],
  ["pid {} of {} ({})", "{2} 的 pid {1}（{3}）"],
  ["   has it give back what it does not use", "   让它归还未使用的部分"],
  ["a device of {} is not on this machine, so what its driver moves is not known.", "{1} 的某个设备不在本机，因此不知道其驱动能迁移什么。"],
  ["it has not been seen here that driver {} moves a program's memory on GPU {} ({}) and brings it back; some drivers destroy the program.", "本机尚未验证驱动 {1} 能迁移并恢复 GPU {2}（{3}）上程序的内存；有些驱动会毁掉程序。"],
  ["   tries it with a program of its own", "   用自带的程序试验"],
  ["GPU {} ({}) is not in persistence mode, without which the driver may kill a program at its suspension.", "GPU {1}（{2}）未启用持久模式，否则驱动可能在挂起时终止程序。"],
  ["As root: nvidia-smi -i {} -pm 1, or run nvidia-persistenced", "以 root 执行：nvidia-smi -i {1} -pm 1，或运行 nvidia-persistenced"],
  ["{} has used managed memory, which no release of the driver moves: its suspension would destroy the program.", "{1} 使用过托管内存，任何版本的驱动都不能迁移：挂起会毁掉程序。"],
  ["{} has exported memory to other processes, or imported it. Drivers before release 610 destroy such a program at its suspension, and of driver {} it was not seen here that it moves it.", "{1} 向其他进程导出或导入过内存。610 之前的驱动会在挂起时毁掉这样的程序，且本机尚未验证驱动 {2} 能迁移它。"],
  ["; with driver 610 or newer 'ration doctor --try-suspend' may show that it is moved", "；驱动 610 或更新版本可用 'ration doctor --try-suspend' 验证能否迁移"],
  ["an earlier checkpoint of pid {} failed: the driver has given it up.", "pid {1} 先前的检查点失败：驱动已放弃它。"],
  ["the process that moves memory {}.", "移动内存的进程{1!}。"],
  ["was ended by signal {}", "被信号 {1} 结束"],
  ["ended without an answer", "未作回答便结束"],
  // The queue.
  ["its turn", "轮到它"],
  [", ahead of {}, which cannot start before this one ends", "，先于 {1}：后者在本任务结束前无法启动"],
  [", ahead of {}, which has room beside it", "，先于 {1}：后者仍有足够空间"],
  ["{} was removed from the queue by {}.", "{2} 将 {1} 移出了队列。"],
  ["to come back to its device: {}", "等待回到其设备：{1!}"],
  ["all are needed, and the fullest is GPU {}: {} of {} is neither held nor promised", "需要全部 GPU，其中最满的是 GPU {1}：{3} 中有 {2} 既未被占用也未被承诺"],
  ["best is GPU {}: {} of {} is neither held nor promised", "GPU {1} 最合适：{3} 中有 {2} 既未被占用也未被承诺"],
  ["without a limit", "无上限的进程"],
  ["about to start on GPU {}", "即将在 GPU {1} 上启动"],
  ["GPU {} has {} left, kept for {} which comes first", "GPU {1} 剩余 {2}，为排在前面的 {3} 保留"],
  [" and may start at any moment", "，它随时可能启动"],
  [" and may start in {}", "，它最早可在 {1} 后启动"],
  ["; this one may take {}", "；本任务可能需要 {1}"],
  ["; how long this one takes is not known", "；本任务的时长未知"],
  ["GPU {} has {} left, {} of it kept for {} (guarantees)", "GPU {1} 剩余 {2}，其中 {3} 为 {4} 保留（保障）"],
  ["more than GPU {} can give: {}", "超过 GPU {1} 能给的 {2}"],
  ["its tenant has {} left of its limit {} on GPU {}", "其租户在 GPU {3} 上的上限 {2} 还剩 {1}"],
  ["the GPU it asked for is gone", "所要求的 GPU 已不存在"],
  ["{} waits are known, {} are needed", "已知 {1} 次等待，需要 {2} 次"],
  // What nobody governs, and who breaks a rule.
  ["started by workload {}, but without the guard", "由工作负载 {1} 启动，但未加载守护层"],
  ["n/a (the driver does not say)", "n/a（驱动未说明）"],
  ["a book of {}, {}: {}", "{1} 的账面 {2}：{3!}"],
  ["its devices were changed", "其设备被更改"],
  ["a process outside the container was entered", "登记了容器之外的进程"],
  ["there are too many processes and shared memory in the books of its user", "其用户的各账面中登记的进程和共享内存过多"],
  ["its limit was changed", "其上限被更改"],
  ["its guarantee was changed", "其保证量被更改"],
  ["it was made longer", "它被加长"],
  ["the book is sound", "账面完好"],
  ["there is no such book", "没有此账面"],
  ["the book may not be opened for writing by this user", "此用户无权写入该账面"],
  ["the book is shorter than its format says", "账面比其格式规定的短"],
  ["the file is not a book of ration", "该文件不是 ration 的账面"],
  ["the book was written by another version of ration", "账面由另一版本的 ration 写入"],
  ["the book's fields contradict each other", "账面的字段互相矛盾"],
  ["there is no space left for the book", "没有空间存放账面"],
  ["a workload can have at most 16 devices", "一个工作负载最多可有 16 个设备"],
  ["the system did not allow it", "系统不允许"],
  ["the queue", "队列"],
  ["tenant {} on GPU {}", "GPU {2} 上的租户 {1}"],
  ["{} on GPU {}", "GPU {2} 上的 {1}"],
  ["{} alerts could not be sent to alerts.webhook: {}", "{1} 条告警无法发送到 alerts.webhook：{2!}"],
  ["the receiver is too slow", "接收方跟不上"],
  ["it answers with {}", "它回答 {1}"],
  // The daemon, its configuration, its records.
  ["no GPU found ({}).", "未找到 GPU（{1}）。"],
  ["{}; the address is {}", "{1}；地址为 {2}"],
  ["{}; only the socket answers", "{1}；只有套接字应答"],
  ["the history at {} was removed, and a new one begun.", "{1} 处的历史已被删除，并新建了历史。"],
  ["the history at {} was exchanged for another file: that was kept as {}, and a new one begun.", "{1} 处的历史被换成了另一个文件：该文件已保留为 {2}，并新建了历史。"],
  ["the history at {} was damaged: it was kept as {}, and a new one begun.", "{1} 处的历史已损坏：已保留为 {2}，并新建了历史。"],
  ["GPU {} keeps its slices while {} is in {}: reload again when it has ended", "{2} 还在 {3} 中，GPU {1} 保持原切片：待其结束后再重新加载"],
  ["GPU {} is whole again", "GPU {1} 已恢复为整块"],
  ["GPU {} is cut into {}", "GPU {1} 已切为 {2}"],
  ["GPU {} is not cut as the configuration says: {}", "GPU {1} 未按配置切片：{2}"],
  ["{} is damaged ({}): {} {}", "{1} 已损坏（{2!}）：{3!}{4!}"],
  ["it is a pipe", "它是一个管道"],
  ["it is a socket", "它是一个套接字"],
  ["it is a device", "它是一个设备"],
  ["it is a folder", "它是一个文件夹"],
  ["it is no file", "它不是文件"],
  ["it has more than the {} that are read of such a file", "它超过此类文件的读取上限 {1}"],
  ["it is not JSON", "不是 JSON"],
  ["it is nested too deeply", "嵌套过深"],
  ["its content is not the daemon's: {}", "内容不是守护进程所写：{1}"],
  ["it is a link", "是一个链接"],
  ["It cannot be renamed ({}).", "无法重命名（{1}）。"],
  ["It was kept as {}.", "已保留为 {1}。"],
  ["workloads of folders other than its own are governed again when one more starts there: ration ps.", "其他文件夹中的工作负载，在那里再有一个启动时才重新受管：ration ps。"],
  ["commands that waited for memory must be repeated: ration run --wait.", "等待内存者须重新申请：ration run --wait。"],
  ["limits that were changed while workloads ran are as their books say now; see ration ps.", "运行中更改过的上限现以账面为准；见 ration ps。"],
  ["tenants' limits are as configured again; repeat changes: ration set TENANT --limit SIZE.", "对租户的设置恢复为配置所写；请重新设置：ration set TENANT --limit SIZE。"],
  ["no container of a claim starts until its engine repeats the request: restart the kubelet.", "在其引擎重新请求之前，申请的容器都不会启动：请重启 kubelet。"],
  ["only the configuration's schedules apply; set others again: ration set --schedule.", "只有配置中的时间表有效；其他的请重新设置：ration set --schedule。"],
  ["{} workloads in {} folders", "{2} 个文件夹中的 {1} 个工作负载"],
  ["listens on {}", "监听 {1}"],
  ["driver {}", "驱动 {1}"],
  ["recorded", "已记录"],
  ["ok", "正常"],
  ["there is a problem, visible to tenants and operators", "存在问题，租户和管理员可见"],
  ["not told", "未说明"],
  // Why something is not known.
  ["not yours", "不属于你"],
  ["TCP clients have no user name", "通过 TCP 无法知道是谁"],
  ["not started through ration", "未通过 ration 启动"],
  ["in no container", "不在容器中"],
  ["its cgroup is unknown", "其 cgroup 未说明"],
  ["the driver does not say", "驱动未说明"],
  ["the driver did not say", "驱动未说明"],
  ["the driver cannot be queried", "无法查询驱动"],
  ["the driver does not attribute memory to this process", "驱动未说明此进程的内存"],
  ["the driver does not tell it in a container", "驱动在容器中不予说明"],
  ["the driver does not attribute memory to these processes", "驱动未说明这些进程的内存"],
  ["the driver does not say what it needs itself, or what each process holds", "驱动未说明自身所需，也未说明各进程持有多少"],
  ["the device is not on this machine", "设备不在此机器上"],
  ["usage has not grown steadily for a minute", "一分钟内用量没有持续增长"],
  ["no daemon has observed it yet", "尚无守护进程观察过它"],
  ["without NVML the processes are unknown", "没有 NVML 无法得知进程"],
  ["its entry in /proc cannot be read", "无法读取其 /proc 条目"],
  ["no limit is set for this tenant", "此租户未设上限"],
  ["the configuration does not name this tenant", "配置中没有此租户"],
  ["those of the configuration have no name", "配置中的没有名称"],
  ["{} runs are recorded, {} are needed", "已记录 {1} 次运行，需要 {2} 次"],
  ["driver and shim", "驱动与守护层"],
  // The rows of explain.
  ["allocated by the program", "程序分配"],
  ["book: tensors, and what its framework caches", "账面：张量及框架缓存"],
  ["reserved by the driver's pools", "驱动池预留"],
  ["book: in use, and free in them", "账面：池中在用与空闲"],
  ["of both, cached and free", "两者中已缓存且空闲"],
  ["in no book: torch.cuda.memory_reserved - memory_allocated, of ration's pool get_memory_info", "账面中没有：torch.cuda.memory_reserved - memory_allocated，ration 的池见 get_memory_info"],
  ["book, measured when it was made", "账面，创建时测得"],
  ["account = heap: contexts are not entered", "account = heap：不计上下文"],
  ["CUDA context", "CUDA 上下文"],
  ["not requested (code, local memory of kernels)", "未经申请（代码、内核的本地内存）"],
  ["driver minus book at several ticks; counts against the limit", "多次查看中驱动减账面；受上限约束"],
  ["not explained (newer than these ticks)", "未解释（晚于这些查看）"],
  ["over its limit of {} by {}: requests are denied until it is below", "超出上限 {1} 达 {2}：回到其下之前一律拒绝"],
  ["could be freed: the unused part of the {} in the driver's pools", "可收回：驱动池预留的 {1} 中空闲的部分"],
  ["in use: {} allocated and {} of contexts, until the program frees them or ends; a program with ration's library returns its unused memory", "阻碍：它分配的 {1} 和上下文 {2}，直到它释放或结束；使用 ration 库的程序会归还其中空闲的部分"],
  ["; its limit is held back: {}", "；其上限被压低：{1!}"],
  ["the program itself set a lower limit", "程序自己要求更少"],
  ["book, limit {}", "账面，上限 {1}"],
  ["; it claims {}, none of which is there", "；账面称 {1}，实际没有"],
  ["ungoverned: pid {} {}", "未受管：pid {1} {2}"],
  ["in use, and of no process", "在用但不属于任何进程"],
  ["driver minus its processes", "驱动减其进程"],
  ["driver's own, and not explained", "驱动自身及未解释"],
  ["driver minus the rows above, except managed", "驱动减以上各行（托管内存除外）"],
  ["managed memory that may be on the device", "可能在设备上的托管内存"],
  ["book: the driver's figures for processes leave it out", "账本：驱动的进程数字不含它"],
  ["over its limit of {} by {}: its next request moves as much of its managed memory to the host",
    "超出上限 {1} 达 {2}：下一次申请会把同样多的托管内存移到主机"],
  ["   (what does not fit stays on the host)", "   （放不下的留在主机）"],
  ["in the program: ration.share(NAME, '{}')", "在程序中：ration.share(NAME, '{1}')"],
  // Filters.
  ["the filter cannot continue with '{}'.", "筛选中多了“{1}”。"],
  ["the filter has too many parentheses within each other.", "筛选的括号嵌套过深。"],
  ["a ')' is missing in the filter.", "筛选缺少“)”。"],
  ["a '\"' is missing in the filter.", "筛选缺少引号。"],
  ["rows have no field '{}' to filter by.{} They have {}.", "没有可筛选的字段“{1}”。{2!}可用字段：{3}。"],
  [" Did you mean '{}'?", "是否指“{1}”？"],
  ["a field or a word", "字段或词语"],
  ["a value after '{}'", "“{1}”后的值"],
  ["the filter needs {} at its end.", "筛选末尾缺少{1!}。"],
  ["the filter needs {} in place of '{}'.", "筛选中“{2}”处应为{1!}。"],
  ["'{}' is a text: compare it with =, !=, ~= or !~.", "“{1}”是文本：请用 =、!=、~= 或 !~ 比较。"],
  ["'{}' is yes or no: compare it with = or !=.", "“{1}”是是或否：请用 = 或 != 比较。"],
  ["'{}' is a number: compare it with >, >=, <, <=, = or !=.", "“{1}”是数字：请用 >、>=、<、<=、= 或 != 比较。"],
  ["'{}' is yes or no, not '{}'.", "“{1}”应为是或否，而不是“{2}”。"],
  ["'{}' is a number, not '{}'.", "“{1}”应为数字，而不是“{2}”。"],
  ["a filter may have at most {} letters.", "筛选最多 {1} 个字符。"],
];

interface Known {
  words: number;
  pattern: RegExp;
  chinese: string;
  follows: boolean;
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

// What follows another sentence is taken off first; then the one with the most words of its own: what is more general would
// take it for something else.
const known: Known[] = sentences.map(([english, chinese]) => {
  const follows = /^[ ;,]/.test(english);
  return { words: (follows ? 1e6 : 0) + english.replace(/\{\}/g, "").length, pattern: new RegExp(`^${follows ? "(.+?)" : ""}${english.split("{}").map(literal).join("(.+?)")}$`, "s"), chinese, follows };
}).sort((left, right) => right.words - left.words);

/** A sentence of the daemon in Chinese; as it is where it is not one. */
export function inChinese(text: string): string {
  for (const { pattern, chinese, follows } of known) {
    const found = pattern.exec(text);
    if (!found) continue;
    const head = found[1] ?? "", places = found.slice(follows ? 2 : 1);
    const filled = chinese.replace(/\{(\d+)(!?)\}/g, (_whole, place: string, sentence: string) => {
      const value = places[Number(place) - 1] ?? "";
      return sentence ? inChinese(value) : value;
    });
    if (!follows) return filled;
    const before = inChinese(head);
    if (before !== head) return before + filled;
  }
  return text;
}

const language: Language = { said: messageInChinese, told: inChinese, comma: "，" };

/** A message in Chinese; one without an id by its text, one whose id this page does not know as it is. */
export function messageInChinese(said: Said): string {
  if (!said.message_id) return inChinese(said.text);
  const pattern = messages[said.message_id];
  return pattern === undefined ? said.text : fill(pattern, said.arguments ?? {}, language);
}
