// Theme and language.

import { setPreferences, usePreferences, type Theme } from "../state/preferences";
import { t } from "../text";
import { Choices } from "./basics";

export function Settings() {
  const preferences = usePreferences();
  const themes: Theme[] = ["auto", "light", "dark"];
  return (
    <div class="settings">
      <Choices label={t("settings.theme")} name="theme" value={preferences.theme} choices={themes.map((value) => ({ value, label: t(`settings.${value}`) }))} onChange={(theme) => setPreferences({ theme })} />
      <Choices label={t("settings.language")} name="language" value={preferences.language} choices={[{ value: "en", label: "EN" }, { value: "zh-CN", label: "中文" }]} onChange={(language) => setPreferences({ language })} />
    </div>
  );
}
