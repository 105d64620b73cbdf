import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs, SseParser, type Message } from "../../src/api/sse";

const whole = (text: string): Message[] => new SseParser().push(text);

test("named messages with numbers", () => {
  assert.deepEqual(whole('event: event\nid: 7\ndata: {"a":1}\n\n'), [{ event: "event", data: '{"a":1}', id: "7" }]);
});

test("comments keep the line open and mean nothing", () => assert.deepEqual(whole(": here\n\n"), []));

test("data on several lines, a blank after the colon is one only", () => {
  assert.deepEqual(whole("data: a\ndata:  b\ndata\n\n"), [{ event: "message", data: "a\n b\n", id: null }]);
});

test("an id holds until the next one", () => {
  assert.deepEqual(whole("id: 1\ndata: a\n\ndata: b\n\n").map((message) => message.id), ["1", "1"]);
});

test("retry is remembered, what is not a number is not", () => {
  const parser = new SseParser();
  parser.push("retry: soon\n");
  assert.equal(parser.retryMs, null);
  parser.push("retry: 250\n");
  assert.equal(parser.retryMs, 250);
});

test("an unfinished message is not given out", () => assert.deepEqual(whole("data: a\n"), []));

test("the same messages however the bytes are cut and lines end", () => {
  const lines = ["event: snapshot", "data: {", "data: }", "", ": c", "", "id: 5", "event: event", "data: x: y", "", ""];
  let seed = 7;
  const next = (limit: number) => (seed = (seed * 48271) % 2147483647) % limit;
  const expected = whole(lines.join("\n"));
  assert.equal(expected.length, 2);
  for (const end of ["\n", "\r\n", "\r"]) {
    for (let round = 0; round < 200; round += 1) {
      const text = lines.join(end), parser = new SseParser(), found: Message[] = [];
      for (let at = 0; at < text.length; ) {
        const size = 1 + next(6);
        found.push(...parser.push(text.slice(at, at + size)));
        at += size;
      }
      assert.deepEqual(found, expected, JSON.stringify(end));
    }
  }
});

test("coming back takes longer each time, up to a limit", () => {
  assert.deepEqual([0, 1, 2, 20].map((attempt) => backoffMs(attempt, 0)), [500, 1000, 2000, 15000]);
  assert.equal(backoffMs(0, 1), 625);
});
