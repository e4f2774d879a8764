// What the reader has chosen. Charts draw from it and are told when it changes.
import type {Record} from "./record";

export interface State {
  chosen: Set<string>;
  axes: "log" | "linear";
  length: number;
  error: "output" | "gradient";
  bars: "seconds" | "share";
  scale: "absolute" | "relative";
  theme: "light" | "dark";
}

export class Store {
  readonly state: State;
  private readonly listeners: (() => void)[] = [];

  constructor(record: Record) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.state = {
      chosen: new Set(record.mechanisms.map((m) => m.name)),
      axes: "log",
      length: fullestLength(record),
      error: "output",
      bars: "seconds",
      scale: "absolute",
      theme: remembered() ?? (dark ? "dark" : "light"),
    };
  }

  change(part: Partial<State>): void {
    Object.assign(this.state, part);
    for (const listener of this.listeners) listener();
  }

  listen(listener: () => void): void {
    this.listeners.push(listener);
  }
}

// Of `lengths`, the nearest to `length` by ratio.
export function nearest(lengths: number[], length: number): number {
  const far = (n: number): number => Math.abs(Math.log(n / length));
  return [...lengths].sort((a, b) => far(a) - far(b))[0] ?? length;
}

// The longest at which most mechanisms were measured.
function fullestLength(record: Record): number {
  const measured = (n: number) => record.points.filter((p) => p.length === n && p.time?.measured != null).length;
  const most = Math.max(0, ...record.lengths.map(measured));
  return record.lengths.filter((n) => measured(n) >= 0.8 * most).at(-1) ?? 0;
}

const key = "longspan-theme";

// A browser may refuse a page from the file system its memory.
function remembered(): State["theme"] | null {
  try {
    const theme = localStorage.getItem(key);
    return theme === "light" || theme === "dark" ? theme : null;
  } catch {
    return null;
  }
}

export function remember(theme: State["theme"]): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    // The choice then lasts as long as the page is open.
  }
}
