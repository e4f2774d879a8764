// How a mechanism and a kind of operation look. The colour tells the class of a mechanism, its mark
// and dash tell it from others of the class, so that nothing rests on colour alone. The colours
// themselves are in style.css, for light and dark.
import type {SymbolType} from "@observablehq/plot";
import type {Mechanism} from "./record";

export interface Look {
  color: string;
  symbol: SymbolType;
  dash: string;
}

const classes = ["exact", "low rank", "kernel", "memory", "fixed pattern", "content + position", "recurrence",
                 "learnable pattern"];
const symbols: SymbolType[] = ["circle", "square", "triangle", "diamond", "star", "wye", "cross"];
const dashes = ["none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2"];

export function looks(mechanisms: Mechanism[]): Map<string, Look> {
  const seen = new Map<string, number>();
  return new Map(mechanisms.map((mechanism) => {
    const family = classes.indexOf(mechanism.class);
    const place = seen.get(mechanism.class) ?? 0;
    seen.set(mechanism.class, place + 1);
    const look = {
      color: `var(--class-${family < 0 ? "other" : family})`,
      symbol: symbols[(place + Math.max(family, 0)) % symbols.length]!,
      dash: dashes[place % dashes.length]!,
    };
    return [mechanism.name, look];
  }));
}

// In the order in which bars are stacked.
const kinds = ["matmul", "softmax", "mask", "feature", "hash", "sort", "gather", "activation", "norm", "add", "rotary",
               "dropout", "optimizer", "other"];

export const kindOrder = (kind: string): number => (kinds.includes(kind) ? kinds.indexOf(kind) : kinds.length);

export const kindColor = (kind: string): string => `var(--kind-${kinds.includes(kind) ? kind : "other"})`;

export const kindSymbol = (kind: string): SymbolType => symbols[kindOrder(kind) % symbols.length]!;
