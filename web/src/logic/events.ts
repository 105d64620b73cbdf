// What of the events is shown unasked.

import type { NodeEvent } from "../api/types";

/** A limit that the daemon moved by itself, as it does all day: nobody has to know. */
export const isRoutine = (event: NodeEvent): boolean => event.type === "rebalanced" && event.old !== null;
