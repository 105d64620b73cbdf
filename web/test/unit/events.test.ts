import assert from "node:assert/strict";
import { test } from "node:test";
import { say } from "../../mock/messages";
import { World } from "../../mock/world";
import { isRoutine, repeated } from "../../src/logic/events";

test("limits that the daemon moved by itself are routine; that a promise was lost is not, nor what a person set", () => {
  const world = new World();
  assert.equal(isRoutine(world.add("rebalanced", say("limit.moved", { workload: "nlp/train", after_bytes: 6442450944, before_bytes: 8589934592 }), { old: "8589934592", new: "6442450944" })), true);
  assert.equal(isRoutine(world.add("rebalanced", say("guarantee.lost", { workload: "nlp/train", guarantee_bytes: 8589934592, reason: "3.00 GiB are left" }), {})), false);
  assert.equal(isRoutine(world.add("resized", say("limit.changed", { workload: "nlp/train", changes: [], by: "ops" }), { old: "8589934592", new: "6442450944" })), false);
});

test("denials in a row that say the same are one line with their number; others stay apart", () => {
  const world = new World();
  const denied = (used: number, workload = "nlp/train") =>
    world.add("denied", say("request.denied", { workload, requested_bytes: 1073741824, used_bytes: used, limit_bytes: 4294967296 }), { workload });
  const events = [denied(1), denied(1), denied(1), denied(2), denied(2, "nlp/other"), world.add("resized", say("limit.changed", { workload: "nlp/train", changes: [], by: "ops" }), {}), denied(1)].reverse();
  assert.deepEqual(repeated(events).map((row) => row.ids.length), [1, 1, 1, 1, 3]);
  const last = repeated(events)[4];
  assert.deepEqual([last?.event.id, last?.times, last?.since], [events[4]?.id, 3, events[6]?.time]);
});
