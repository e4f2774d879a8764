// Debian's Chromium, headless, without any of its own talk to the network.
import {existsSync} from "node:fs";
import {chromium} from "playwright-core";

export const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";

export async function launch() {
  if (!existsSync(browserPath)) {
    throw new Error(`no browser at ${browserPath}; install the package chromium, or name one in CHROMIUM`);
  }
  return chromium.launch({
    executablePath: browserPath,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
           "--disable-component-update", "--disable-sync", "--font-render-hinting=none"],
  });
}
