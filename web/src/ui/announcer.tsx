// Speaks denials to screen readers: politely, one sentence in five seconds at most, several counted together.

import { useEffect, useRef, useState } from "preact/hooks";
import type { NodeEvent } from "../api/types";
import { lastEventId, readState, useStore } from "../state/store";
import { saidText, t } from "../text";

const pauseMs = 5000;

export function sentence(denials: NodeEvent[]): string {
  const last = denials[denials.length - 1];
  if (!last) return "";
  const text = saidText(last);
  return denials.length === 1 ? text : t("announce.many", { count: denials.length, text });
}

export function Announcer() {
  const last = useStore(lastEventId);
  const [said, setSaid] = useState("");
  // What was there before this page looked is not news.
  const spoken = useRef<number | null>(null);
  const saidAt = useRef(0);
  useEffect(() => {
    if (last === null) return undefined;
    if (spoken.current === null) {
      spoken.current = last;
      return undefined;
    }
    const timer = setTimeout(() => {
      const news = readState().events.filter((event) => event.id > (spoken.current ?? 0) && event.type === "denied");
      spoken.current = lastEventId();
      if (news.length === 0) return;
      saidAt.current = Date.now();
      setSaid(sentence(news));
    }, Math.max(0, saidAt.current + pauseMs - Date.now()));
    return () => clearTimeout(timer);
  }, [last]);
  return <div class="hidden" aria-live="polite" aria-atomic="true" data-announcer>{said}</div>;
}
