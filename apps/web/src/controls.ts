// Buttons that choose: groups of toggles that say with aria-pressed what is chosen.
import {count, escaped, lengthTick} from "./format";
import {highlight} from "./hover";
import type {Look} from "./palette";
import {swatch} from "./swatch";
import type {Record} from "./record";
import {nearest, remember, type State, type Store} from "./state";
import {choices, front} from "./charts/tradeoff";

interface Option<T> {
  value: T;
  text: string;
  title?: string;
}

// One of several.
export function segmented<K extends keyof State>(store: Store, key: K, name: string, options: Option<State[K]>[],
                                                   shown = (): State[K] => store.state[key]): HTMLElement {
  const group = document.createElement("div");
  group.className = "segmented";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", name);
  group.innerHTML = `<span class="control-name" aria-hidden="true">${escaped(name)}</span>`;
  const buttons = options.map((option) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = option.text;
    button.dataset.value = String(option.value);
    if (option.title) button.setAttribute("aria-label", option.title);
    button.addEventListener("click", () => store.change({[key]: option.value} as unknown as Partial<State>));
    group.append(button);
    return button;
  });
  const show = (): void => buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(options[i]!.value === shown())));
  store.listen(show);
  show();
  return group;
}

// Only the lengths at which there is something to show; what is shown is the one nearest to the chosen.
export function lengthControl(store: Store, lengths: number[]): HTMLElement {
  const options = lengths.map((n) => ({value: n, text: lengthTick(n), title: `length ${count(n)}`}));
  return segmented(store, "length", "Length", options, () => nearest(lengths, store.state.length));
}

// Why there is nothing of a mechanism to draw; empty where there is something.
function absence(record: Record, name: string): string {
  const points = record.points.filter((p) => p.mechanism === name);
  if (points.some((p) => p.time ?? p.memory)) return "";
  return points[0]?.status ?? "left out";
}

function toggle(store: Store, name: string, look: Look, absent: string): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "mechanism";
  button.dataset.mechanism = name;
  const note = absent ? ` <small>${escaped(absent)}</small>` : "";
  button.innerHTML = `${swatch(look)}<span>${escaped(name)}${note}</span>`;
  button.addEventListener("click", () => {
    const chosen = new Set(store.state.chosen);
    if (!chosen.delete(name)) chosen.add(name);
    store.change({chosen});
  });
  const light = (group: string | null) => (): void =>
    document.querySelectorAll(".plot svg").forEach((svg) => {
      if (!group || svg.querySelector(`[data-group="${CSS.escape(group)}"]`)) highlight(svg, group);
    });
  button.addEventListener("pointerenter", light(name));
  button.addEventListener("pointerleave", light(null));
  return button;
}

function shortcut(text: string, act: () => void): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "shortcut";
  button.textContent = text;
  button.addEventListener("click", act);
  return button;
}

export function mechanismControl(store: Store, record: Record, looks: Map<string, Look>): HTMLElement {
  const box = document.createElement("div");
  box.className = "mechanisms";
  const names = record.mechanisms.map((m) => m.name);
  const shortcuts = document.createElement("div");
  shortcuts.className = "shortcuts";
  const onFront = (): Set<string> => {
    const everything = {...store.state, chosen: new Set(names)};
    return new Set(front(choices(record, everything)).map((c) => c.name));
  };
  shortcuts.append(shortcut("All", () => store.change({chosen: new Set(names)})),
                   shortcut("None", () => store.change({chosen: new Set()})),
                   shortcut("Front", () => store.change({chosen: onFront()})));
  box.append(shortcuts);
  const buttons: HTMLButtonElement[] = [];
  for (const family of new Set(record.mechanisms.map((m) => m.class))) {
    const group = document.createElement("div");
    group.className = "family";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", family);
    group.innerHTML = `<h3>${escaped(family)}</h3>`;
    for (const {name} of record.mechanisms.filter((m) => m.class === family)) {
      const button = toggle(store, name, looks.get(name)!, absence(record, name));
      buttons.push(button);
      group.append(button);
    }
    box.append(group);
  }
  const show = (): void => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(store.state.chosen.has(button.dataset.mechanism!)));
    document.getElementById("chosen-count")!.textContent = `${store.state.chosen.size} of ${names.length}`;
  };
  store.listen(show);
  show();
  return box;
}

export function themeControl(store: Store): HTMLElement {
  const show = (): void => {
    document.documentElement.dataset.theme = store.state.theme;
  };
  const group = segmented(store, "theme", "Theme", [{value: "light", text: "Light"}, {value: "dark", text: "Dark"}]);
  group.addEventListener("click", () => remember(store.state.theme));
  store.listen(show);
  show();
  return group;
}
