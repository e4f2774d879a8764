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

// The tip: its title, the note beside it, and the first text of each row.
export function tipOf(page) {
  return page.locator("#tip").evaluate((tip) => {
    if (tip.hidden) return null;
    const rows = [...tip.querySelectorAll("dl > div")].map((row) => {
      const value = row.querySelector("dd");
      return [row.querySelector("dt").textContent, value.firstChild.textContent.trim()];
    });
    return {title: tip.querySelector("strong").textContent, note: tip.querySelector("span").textContent, ...Object.fromEntries(rows)};
  });
}
