// Starts the dashboard. The numbers that the daemon wrote into the page stay visible until fresher ones are here.

import { render } from "preact";
import { App } from "./app";
import { connect, logInByLink } from "./state/store";
import "./style/app.css";

async function start(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) return;
  await logInByLink();
  await connect();
  root.replaceChildren();
  render(<App />, root);
}

void start();
