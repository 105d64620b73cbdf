// The page of the HTML file: one recording, everything inside, nothing asked of anybody.

import { render } from "preact";
import { useState } from "preact/hooks";
import { embeddedSource, type Embedded } from "./recording/source";
import { RecordingView, type Looked } from "./recording/view";
import { usePreferences } from "./state/preferences";
import { t } from "./text";
import { Settings } from "./ui/settings";
import "./style/app.css";

function Page({ embedded }: { embedded: Embedded }) {
  usePreferences();
  const [looked, setLooked] = useState<Looked>({ from: null, to: null, at: embedded.at_seconds, gpu: null, with: embedded.other?.name ?? null });
  document.title = `${embedded.name} · ration`;
  return (
    <>
      <header class="top"><span class="brand">ration</span><span class="host">{embedded.name}</span></header>
      <main id="main">
        <h1>{embedded.name}</h1>
        <RecordingView source={embeddedSource(embedded)} looked={looked} change={(part) => setLooked((before) => ({ ...before, ...part }))} />
      </main>
      <footer class="foot"><Settings /><span class="faint">ration {embedded.version} · {t("recording.offline")}</span></footer>
    </>
  );
}

const root = document.getElementById("app"), data = document.getElementById("recording");
if (root && data?.textContent) {
  root.replaceChildren();
  root.classList.add("offline");
  render(<Page embedded={JSON.parse(data.textContent) as Embedded} />, root);
}
