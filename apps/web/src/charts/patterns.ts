// Which query sees which key, as small squares.
import {escaped, percent} from "../format";
import type {Look} from "../palette";
import type {Mechanism} from "../record";

export function patternHtml(mechanism: Mechanism, look: Look): string {
  const {rows, columns, cells} = mechanism.pattern!;
  let path = "";
  let seen = 0;
  cells.forEach((row, i) => row.forEach((cell, j) => {
    if (cell === 0) return;
    ++seen;
    path += `M${j} ${i}h1v1h-1z`;
  }));
  const share = percent(seen / (rows * columns));
  const name = escaped(mechanism.name);
  return `<figure class="pattern" data-mechanism="${name}"><svg viewBox="-0.5 -0.5 ${columns + 1} ${rows + 1}" role="img" ` +
         `aria-label="${name}: ${seen} of ${rows * columns} pairs of query and key are seen, ${share}">` +
         `<rect x="-0.5" y="-0.5" width="${columns + 1}" height="${rows + 1}" class="field"/>` +
         `<path d="${path}" fill="${look.color}"/></svg><figcaption><strong>${name}</strong> <span>${share}</span></figcaption></figure>`;
}
