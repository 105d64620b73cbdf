import assert from "node:assert/strict";
import { test } from "node:test";
import { World } from "../../mock/world";
import { isRoutine } from "../../src/logic/events";

test("limits that the daemon moved by itself are routine; that a promise was lost is not, nor what a person set", () => {
  const world = new World();
  assert.equal(isRoutine(world.add("rebalanced", "nlp/train may hold 6.00 GiB instead of 8.00 GiB", { old: "8589934592", new: "6442450944" })), true);
  assert.equal(isRoutine(world.add("rebalanced", "nlp/train is back without its guarantee of 8.00 GiB: 3.00 GiB are left", {})), false);
  assert.equal(isRoutine(world.add("resized", "nlp/train: limit 8.00 GiB → 6.00 GiB on GPU 0, by ops", { old: "8589934592", new: "6442450944" })), false);
});
