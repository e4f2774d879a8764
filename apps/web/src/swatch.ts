// A piece of a curve, for lists of mechanisms.
import {escaped} from "./format";
import type {Look} from "./palette";

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

export const keyOf = (name: string, look: Look): string => `<span class="key">${swatch(look)}${escaped(name)}</span>`;
