// The wish of the plan page: kept in the URL in the words of the command line, so that both are the same thing.

import type { PlanWish } from "../api/types";
import { shellWord } from "./export";

export interface TenantWish {
  tenant: string;
  guarantee: string;
  limit: string;
  count: string;
}

export interface Wish {
  gpus: string;
  tenants: TenantWish[];
  spread: boolean;
}

/** `nlp=16GiB:30GiB*2` and back. */
export function writeTenant(wish: TenantWish): string {
  const count = wish.count.trim();
  return `${wish.tenant.trim()}=${wish.guarantee.trim()}${wish.limit.trim() ? `:${wish.limit.trim()}` : ""}${count && count !== "1" ? `*${count}` : ""}`;
}

export function readTenant(text: string): TenantWish {
  const match = /^([^=]*)=([^:*]*)(?::([^*]*))?(?:\*(.*))?$/.exec(text);
  return { tenant: match?.[1] ?? text, guarantee: match?.[2] ?? "", limit: match?.[3] ?? "", count: match?.[4] ?? "1" };
}

const complete = (wish: TenantWish): boolean => wish.tenant.trim() !== "" && wish.guarantee.trim() !== "";

export function commandOf(wish: Wish): string {
  const gpus = wish.gpus.trim() ? wish.gpus.trim().split(/\s+/).map((gpu) => ` --gpu ${shellWord(gpu)}`).join("") : "";
  return `ration plan${gpus}${wish.tenants.filter(complete).map((tenant) => ` --tenant ${shellWord(writeTenant(tenant))}`).join("")}${wish.spread ? " --spread" : ""}`;
}

/** What is sent: without devices named, those of this node are meant. */
export function bodyOf(wish: Wish): PlanWish {
  return {
    gpus: wish.gpus.trim() === "" ? [] : wish.gpus.trim().split(/\s+/),
    tenants: wish.tenants.filter(complete).map((tenant) => ({
      tenant: tenant.tenant.trim(), guarantee: tenant.guarantee.trim(), limit: tenant.limit.trim() || null, count: Math.max(1, Math.floor(Number(tenant.count)) || 1),
    })),
    spread: wish.spread,
  };
}
