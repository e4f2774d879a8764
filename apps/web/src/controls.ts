// Buttons that choose: groups of toggles that say with aria-pressed what is chosen.
import {count, escaped, lengthTick} from "./format";
import {highlight} from "./hover";
import type {Look} from "./palette";
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

const symbolPaths: {[name: string]: string} = {
  circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", square: "M-3.6-3.6h7.2v7.2h-7.2z", triangle: "M0-4.6L4.4 3.4H-4.4z",
  diamond: "M0-5.2L3.2 0L0 5.2L-3.2 0z", cross: "M-1.5-4.4h3v2.9h2.9v3h-2.9v2.9h-3v-2.9h-2.9v-3h2.9z",
  star: "M0-5.2L1.3-1.7L5-1.6L2.1.7L3.1 4.3L0 2.2L-3.1 4.3L-2.1.7L-5-1.6L-1.3-1.7z",
  wye: "M-1.4 1L-4.6-.9L-3.2-3.4L0-1.6L3.2-3.4L4.6-.9L1.4 1V4.6H-1.4z",
};

export function swatch(look: Look): string {
  return `<svg class="swatch" viewBox="0 0 34 12" width="34" height="12" aria-hidden="true">` +
         `<line x1="1" x2="33" y1="6" y2="6" stroke="${look.color}" stroke-width="1.8" stroke-dasharray="${look.dash}"/>` +
         `<path d="${symbolPaths[String(look.symbol)]}" transform="translate(17 6)" fill="${look.color}"/></svg>`;
}

function toggle(store: Store, name: string, look: Look): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "mechanism";
  button.dataset.mechanism = name;
  button.innerHTML = `${swatch(look)}<span>${escaped(name)}</span>`;
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
      const button = toggle(store, name, looks.get(name)!);
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
