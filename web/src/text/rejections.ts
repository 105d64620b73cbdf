// Rejections of the daemon in Chinese, by their ids (`ration help errors` has the English): what is meant, and what helps. A test
// holds every id against what openapi.json says of the paths that this dashboard asks.

import type { Problem } from "../api/types";

export const rejections: Record<string, readonly [string, string]> = {
  E1101: ["大小缺少单位", "请写 4096MiB、4GiB 或 50%"],
  E1102: ["无法识别这个大小", "请写 4GiB、512MiB、50% 或 max-1GiB"],
  E1103: ["大小不能写成小数，例如 0.5", "请写 50%（占 GPU）或 512MiB"],
  E1104: ["超过 GPU 或租户所能给的容量", "请写更小的大小，或 max"],
  E1105: ["小于显存的一个分配粒度（2 MiB）", "请给出大于一个 CUDA 上下文的大小：1GiB"],
  E1106: ["无法识别这个时长", "请写 500ms、30s、5m 或 2h"],
  E1304: ["已承诺的保底显存之外，余下的不够这一保底显存", "请降低保底显存；ration explain --gpu 列出已承诺的部分"],
  E1305: ["保底显存高于自身的上限", "请提高上限或降低保底显存"],
  E1407: ["没有此 GPU", "ration ps 会列出它们"],
  E1409: ["名称无效", "名称最多 59 个字符，不含空格、逗号、双引号、斜杠和控制字符"],
  E1411: ["无法更改账本", "ration doctor --only books"],
  E1420: ["没有要更改的内容", "请给出上限或保底显存"],
  E1429: ["无法理解此筛选条件", "例如 used>4GiB & denied>0、tenant~=nlp、governed==no、idle>30m"],
  E1500: ["守护进程处理请求时出错，这是一个缺陷；没有任何更改", "请查看守护进程的日志"],
  E1502: ["你无权执行此操作", "请联系 root 或 ration 组的成员，或输入管理员令牌"],
  E1503: ["其间已被他人更改", "请查看现在的值，然后重试"],
  E1510: ["这不是 HTTP/1.1 请求", "请重新加载页面"],
  E1511: ["没有此路径", "守护进程可能是另一版本：请重新加载页面"],
  E1512: ["此路径不接受该方法", "守护进程可能是另一版本：请重新加载页面"],
  E1513: ["守护进程不以此主机名应答", "请使用启动时给出的地址"],
  E1514: ["请求来自其他来源的页面", "请打开守护进程自己的仪表盘"],
  E1515: ["更改请求的正文不是 JSON", "请重新加载页面"],
  E1516: ["请求过大", "请写得短一些"],
  E1517: ["同时的客户端或请求过多", "请几秒后重试"],
  E1518: ["令牌错误，或链接已被使用", "ration dashboard 会打印新链接"],
  E1519: ["请求未能及时完整送达", "请重试"],
  E1521: ["无法理解请求的正文", "请重新加载页面"],
  E1523: ["守护进程不知道这个请求来自哪个用户", "请在 ration 的套接字上发送，或使用命令行：ration fits SIZE"],
  E1526: ["没有此租约", "它可能已经启动或结束"],
  E1527: ["无法理解请求的参数", "请检查地址"],
  E1531: ["无法写入守护进程的状态", "请腾出磁盘空间，或使用 ration serve --state"],
  E1546: ["它已挂起或正在挂起；要恢复的，则并未挂起", "请查看其状态：ration ps"],
  E1547: ["目前无法挂起此工作负载", "请腾出主机内存，或改为回收：ration trim"],
  E1801: ["没有此名称的工作负载、进程或租户", "请查看运行中的：ration ps"],
  E1802: ["有多个同名的工作负载在运行", "请写 USER/NAME、TENANT/NAME 或运行编号：ration ps"],
  E1811: ["该文件不是运行记录，或无法读取", "请重新记录：ration record"],
  E1816: ["运行记录由另一版本的 ration 写入", "请用该版本打开"],
  E1830: ["守护进程没有此名称的运行记录", "请查看运行记录列表"],
  E1911: ["数据库由更新的 ration 写入", "请更新 ration"],
  E1912: ["无法使用数据库", "请检查文件夹的所有者和剩余空间"],
  E1914: ["该月尚未结束，不能结账", "请等到该月结束"],
  E1915: ["该月已结账", "结账后其数据不再改变"],
  E1916: ["无法回答这个关于过去的问题", "请检查时间范围、分组和价格"],
  E1917: ["没有该事件、拒绝或运行的记录", "请查看事件列表"],
};

export const isCommand = (fix: string): boolean => /^ration [a-z][^.,:]*$/.test(fix);

/** The meaning of the error's number in Chinese, for a sentence of the daemon without an id. */
export const rejectionInChinese = (problem: Problem): string | undefined => rejections[problem.id ?? ""]?.[0];

/** What helps; a command is the same in every language. */
export const helpInChinese = (problem: Problem): string => (isCommand(problem.fix ?? "") ? problem.fix : rejections[problem.id ?? ""]?.[1]) ?? problem.fix ?? "";
