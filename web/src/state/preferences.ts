// What a person chose for this browser: theme, language, single-key shortcuts. Nothing else is kept.

import { useEffect, useState } from "preact/hooks";

export type Theme = "auto" | "light" | "dark";
export type Language = "en" | "zh-CN";
export interface Preferences {
  theme: Theme;
  language: Language;
  shortcuts: boolean;
}

const key = "ration.preferences";

function load(): Preferences {
  const preferred: Language = navigator.language.toLowerCase().startsWith("zh") ? "zh-CN" : "en";
  const standard: Preferences = { theme: "auto", language: preferred, shortcuts: true };
  try {
    return { ...standard, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Preferences>) };
  } catch {
    return standard;
  }
}

let preferences = load();
const listeners = new Set<() => void>();

function apply(): void {
  const root = document.documentElement;
  root.lang = preferences.language;
  if (preferences.theme === "auto") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", preferences.theme);
}
apply();

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
darkScheme.addEventListener("change", () => listeners.forEach((listener) => listener()));

export const readPreferences = (): Preferences => preferences;
export const isDark = (): boolean => preferences.theme === "dark" || (preferences.theme === "auto" && darkScheme.matches);

export function setPreferences(changes: Partial<Preferences>): void {
  preferences = { ...preferences, ...changes };
  try {
    localStorage.setItem(key, JSON.stringify(preferences));
  } catch {
    // A page in a frame, such as a notebook's, may keep nothing: the choice holds as long as it is open.
  }
  apply();
  listeners.forEach((listener) => listener());
}

/** Renders again when a preference or the system's colour scheme changes. */
export function usePreferences(): Preferences & { dark: boolean } {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return { ...preferences, dark: isDark() };
}
