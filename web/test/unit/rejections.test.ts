// The Chinese of rejections: of all that the daemon may answer to what this dashboard asks, and of what helps.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { routes } from "../../mock/answers";
import type { Problem } from "../../src/api/types";
import { helpInChinese, isCommand, rejectionInChinese, rejections } from "../../src/text/rejections";
import { alwaysPossible, operationOf } from "../contract/interface";

test("each rejection that a path of the dashboard may answer has its Chinese, and no other", () => {
  const possible = Object.keys(routes).flatMap((route) => Object.values(operationOf(route)?.responses ?? {}).flatMap((response) => response["x-problems"] ?? []));
  assert.ok(possible.length > 40);
  assert.deepEqual(Object.keys(rejections).sort(), [...new Set([...possible, ...alwaysPossible])].sort());
  for (const [id, sentences] of Object.entries(rejections)) for (const sentence of sentences) assert.ok(/\p{Script=Han}/u.test(sentence) || isCommand(sentence), id);
});

test("a rejection of a newer daemon has no Chinese, and a command stays as it is", () => {
  const problem = (id: string, fix: string): Problem => ({ status: 400, title: "Bad request", id, fix });
  assert.equal(rejectionInChinese(problem("E1102", "")), "无法识别这个大小");
  assert.equal(rejectionInChinese(problem("E9999", "")), undefined);
  assert.equal(helpInChinese(problem("E1102", "Sizes look like 4GiB.")), "请写 4GiB、512MiB、50% 或 max-1GiB");
  assert.equal(helpInChinese(problem("E1304", "ration explain --gpu 0")), "ration explain --gpu 0");
  assert.equal(helpInChinese(problem("E9999", "Wait.")), "Wait.");
});

test("the Chinese manual begins where the page says", () => {
  assert.match(readFileSync("../docs/site.py", "utf8"), /"README\.zh\.md": "zh\/index\.md"/);
});
