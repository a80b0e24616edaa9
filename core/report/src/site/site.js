// Search, families, order, contents, Markdown. Pages show everything without it.
"use strict";
{
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const make = (tag, text, more) => Object.assign(document.createElement(tag), { textContent: text }, more);
  const button = (text, onclick) => make("button", text, { type: "button", onclick });
  const state = new URLSearchParams(location.search);

  // Rows of tables and marks of plots, each with the name of its case.
  const marks = all(":is(tr, .problem, .spot)[data-f]").map((mark) => {
    const cell = mark.cells?.[0] ?? mark.querySelector(".name");
    const key = mark.ariaLabel?.split(": ")[0] ?? (cell.querySelector("small") ?? cell).textContent;
    return { mark, key, name: `${key} ${cell?.textContent}`.toLowerCase() };
  });
  const families = [...new Set(marks.map(({ mark }) => mark.dataset.f))];
  const tables = all(":not(.doc) > .wide table").map((table) => ({ table, body: table.tBodies[0], heads: [...table.rows[0].cells] }));
  for (const of of tables) of.rows = [...of.body.rows];
  const tally = make("output");
  const chips = families.map((family) => button(family, () => set("family", state.get("family") === family ? "" : family)));

  function set(key, value) {
    if (value) state.set(key, value);
    else state.delete(key);
    history.replaceState(null, "", (state.size ? `?${state}` : location.pathname) + location.hash);
    filter();
    sort();
  }

  // A closed part opens while it has a match.
  function filter() {
    const words = (state.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const family = families.find((family) => family === state.get("family"));
    const filtered = words.length || family;
    for (const { mark, name } of marks) {
      const kept = (!family || mark.dataset.f === family) && words.every((word) => name.includes(word));
      mark.toggleAttribute("hidden", !kept);
    }
    for (const part of all("details.family")) {
      const found = part.querySelector("[data-f]:not([hidden])");
      part.hidden = filtered && !found;
      if (filtered ? !part.open : part.found) part.open = part.found = Boolean(filtered);
    }
    const cases = (of) => new Set(of.map(({ key }) => key)).size;
    const left = marks.filter(({ mark }) => !mark.hasAttribute("hidden"));
    tally.textContent = filtered ? `${cases(left)} of ${cases(marks)} cases` : "";
    for (const chip of chips) chip.ariaPressed = chip.textContent === family;
  }

  // The text of a cell without its second line and its remarks.
  const text = (cell) => [...cell.childNodes].map((node) => (/small|sup/i.test(node.nodeName) ? "" : node.textContent)).join("");

  // The number that a text begins with, without its unit's prefix; without one, the largest.
  function number(text) {
    const [, digits, prefix] = /^[±<+\s]*([\d.]+)\s*(?:([nµmkMGTP])(?=s\b|B|FLOP|OP))?/.exec(text) ?? [];
    return digits ? digits * 1000 ** ("nµm kMGTP".indexOf(prefix ?? " ") - 3) : Infinity;
  }

  // Sorts by a column: the first by name, others by number.
  function sort() {
    const [, down, title] = /^(-?)(.*)/.exec(state.get("sort") ?? "");
    const sign = down ? -1 : 1;
    for (const { body, heads, rows } of tables) {
      const at = heads.findIndex((head) => head.textContent === title);
      heads.forEach((head, i) => (head.ariaSort = i === at ? (down ? "descending" : "ascending") : null));
      const keyed = rows.map((row) => {
        const key = at < 0 ? "" : text(row.cells[at]);
        return { row, key, value: at > 0 ? number(key) : 0 };
      });
      const order = (a, b) => {
        if (a.value !== b.value) return isFinite(a.value - b.value) ? sign * (a.value - b.value) : a.value - b.value;
        return sign * a.key.localeCompare(b.key, "en", { numeric: true });
      };
      body.append(...(at < 0 ? keyed : keyed.sort(order)).map(({ row }) => row));
    }
  }

  function markdown({ table, heads }) {
    const cell = (cell) => (cell.querySelector("a + small") ?? cell).innerText.trim().replace(/\s+/g, " ").replaceAll("|", "\\|").replaceAll("<", "&lt;");
    const lines = [...table.rows].filter((row) => !row.hidden).map((row) => `| ${[...row.cells].map(cell).join(" | ")} |`);
    lines.splice(1, 0, `|${heads.map(() => " --- |").join("")}`);
    return lines.join("\n");
  }

  for (const of of tables) {
    for (const head of of.heads) {
      const title = head.textContent;
      const next = () => ({ [title]: `-${title}`, [`-${title}`]: "" })[state.get("sort")] ?? title;
      head.replaceChildren(button(title, () => set("sort", next())));
    }
    // A clipboard exists at secure addresses alone.
    const copy = button("Copy as Markdown", async () => {
      await navigator.clipboard.writeText(markdown(of));
      copy.textContent = "Copied";
    });
    copy.className = "copy";
    if (navigator.clipboard) of.table.parentElement.after(copy);
  }

  const tools = document.querySelector(".tools");
  if (tools) {
    const search = make("input", "", { type: "search", placeholder: "attention f16", ariaLabel: "Search cases", value: state.get("q") ?? "" });
    search.oninput = () => set("q", search.value.trim());
    tools.append(search, ...(chips.length > 1 ? chips : []), tally);
    const list = make("ul");
    for (const head of all("main h2, details.family > summary")) {
      head.id ||= head.textContent.split(":")[0].toLowerCase().replace(/[^a-z0-9]+/g, "-");
      const item = make("li");
      item.append(make("a", head.textContent, { href: `#${head.id}` }));
      list.append(item);
    }
    const contents = make("details");
    contents.append(make("summary", "Contents"), list);
    if (list.children.length > 2) tools.append(contents);
  }

  // Opens the parts around the target of the address.
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) if (part.localName === "details") part.open = true;
    target?.scrollIntoView();
  }

  filter();
  sort();
  onhashchange = reveal;
  if (location.hash) reveal();
}
