// Whether everybody can use a page, as far as a program can tell: axe-core's rules.

import { strict as assert } from "node:assert";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/// The page has no violation of a serious or critical impact.
export async function accessible(page, name) {
  // Through the debugger, because the page's own policy lets no script of ours in.
  await page.evaluate(AXE);
  const { violations, passes } = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  assert.ok(passes.length > 5, `${name}: axe looked at next to nothing`);
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = serious.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(told, [], name);
}
