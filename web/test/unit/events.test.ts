import assert from "node:assert/strict";
import { test } from "node:test";
import { say } from "../../mock/messages";
import { World } from "../../mock/world";
import { isRoutine } from "../../src/logic/events";

test("limits that the daemon moved by itself are routine; that a promise was lost is not, nor what a person set", () => {
  const world = new World();
  assert.equal(isRoutine(world.add("rebalanced", say("limit.moved", { workload: "nlp/train", after_bytes: 6442450944, before_bytes: 8589934592 }), { old: "8589934592", new: "6442450944" })), true);
  assert.equal(isRoutine(world.add("rebalanced", say("guarantee.lost", { workload: "nlp/train", guarantee_bytes: 8589934592, reason: "3.00 GiB are left" }), {})), false);
  assert.equal(isRoutine(world.add("resized", say("limit.changed", { workload: "nlp/train", changes: [], by: "ops" }), { old: "8589934592", new: "6442450944" })), false);
});
