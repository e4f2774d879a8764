// What the page says, as numbers again.

const units = {ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4,
               "%": 0.01};

// "12.3 ms", "1 min 40 s", "1.5 GiB", "4.9 %", "65,536", "2.40e-07"
export function numberOf(text) {
  const minutes = text.match(/^(\d+) min (\d+) s/);
  if (minutes) return 60 * Number(minutes[1]) + Number(minutes[2]);
  const [, digits, unit] = text.match(/^(-?[\d,.]+(?:e[+-]?\d+)?)(?: ([a-zµ%]+))?/i) ?? [];
  return Number(digits.replaceAll(",", "")) * (unit === undefined ? 1 : units[unit]);
}

// In the page: the tip's title, the note beside it, and the first text of each row.
function readTip() {
  const tip = document.querySelector("#tip");
  if (tip.hidden) return null;
  const rows = [...tip.querySelectorAll("dl > div")].map((row) => {
    const value = row.querySelector("dd");
    return [row.querySelector("dt").textContent, value.firstChild.textContent.trim()];
  });
  return {title: tip.querySelector("strong").textContent, note: tip.querySelector("span").textContent, ...Object.fromEntries(rows)};
}

export const tipOf = (page) => page.evaluate(readTip);

// The tips after each of `count` presses of a key on a chart. The first press is the browser's own;
// the others are the same event, sent from within, because each of the browser's waits for a frame.
export async function tipsByKey(page, plot, key, count) {
  await page.locator(plot).focus();
  await page.keyboard.press(key);
  const first = await tipOf(page);
  const others = await page.evaluate(`(() => {
    ${readTip}
    const box = document.querySelector(${JSON.stringify(plot)});
    return Array.from({length: ${count - 1}}, () => {
      box.dispatchEvent(new KeyboardEvent("keydown", {key: ${JSON.stringify(key)}, bubbles: true}));
      return readTip();
    });
  })()`);
  return [first, ...others];
}

// The tips with the pointer on each of these places of the window; again the first is the browser's.
export async function tipsByPointer(page, plot, places) {
  if (places.length === 0) return [];
  await page.mouse.move(places[0].x, places[0].y);
  const first = await tipOf(page);
  const others = await page.evaluate(`(() => {
    ${readTip}
    const box = document.querySelector(${JSON.stringify(plot)});
    return ${JSON.stringify(places.slice(1))}.map(({x, y}) => {
      const at = document.elementFromPoint(x, y);
      if (!box.contains(at)) return null;
      at.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y, bubbles: true}));
      return readTip();
    });
  })()`);
  return [first, ...others];
}
