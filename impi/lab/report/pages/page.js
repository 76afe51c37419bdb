"use strict";
// Filters of the page of a run, kept in the part of the address behind #. Without scripts all is shown.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
// Asked each time: what serves a run that is under way sends the page anew.
const controls = () => all("[data-filter]");
const marked = () => all("[data-id]");
const state = () => new URLSearchParams(location.hash.slice(1));

function wanted() {
  const now = state();
  const words = (now.get("find") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const results = now.has("result") ? now.get("result").split(",") : null;
  const [vendor, topology] = [now.get("vendor"), now.get("topology")];
  return (element) => {
    const id = element.dataset.id, [, parties, where] = id.split("/");
    return words.every((word) => id.toLowerCase().includes(word)) && (!results || results.includes(element.dataset.result)) &&
      (!vendor || parties.split("+").includes(vendor)) && (!topology || where === topology);
  };
}

function fitMatrix() {
  for (const table of all(".matrix")) {
    const rows = all("tbody tr", table), used = new Set();
    for (const row of rows) {
      const cells = all("td", row);
      cells.forEach((cell, i) => cell.firstElementChild && !cell.firstElementChild.hidden && used.add(i));
    }
    for (const row of rows) {
      const cells = all("td", row);
      row.hidden = !cells.some((cell) => cell.firstElementChild && !cell.firstElementChild.hidden);
      cells.forEach((cell, i) => { cell.hidden = !used.has(i); });
    }
    const [groups, heads] = [all("thead tr:first-child th[data-span]", table), all("thead tr:last-child th", table)];
    heads.forEach((head, i) => { head.hidden = !used.has(i); });
    let at = 0;
    for (const group of groups) {
      const span = Number(group.dataset.span), left = heads.slice(at, at + span).filter((head) => !head.hidden).length;
      group.hidden = left === 0;
      group.colSpan = left || 1;
      at += span;
    }
    table.closest("section").hidden = used.size === 0;
  }
}

function show() {
  const now = state(), is = wanted(), seen = new Set();
  const results = now.has("result") ? now.get("result").split(",") : null;
  for (const control of controls()) {
    if (control.type === "checkbox") control.checked = !results || results.includes(control.value);
    else control.value = now.get(control.dataset.filter) ?? "";
  }
  for (const element of marked()) {
    element.hidden = !is(element);
    if (!element.hidden) seen.add(element.dataset.id);
  }
  document.getElementById("every").hidden = !now.size;
  for (const more of all("[data-more]")) more.open = now.size > 0;
  for (const part of all("[data-part]")) part.hidden = !all("[data-id]", part).some((element) => !element.hidden);
  fitMatrix();
  document.getElementById("count").textContent = `${seen.size} of ${new Set(marked().map((element) => element.dataset.id)).size} cells`;
}

function choose() {
  const now = new URLSearchParams(), boxes = controls().filter((control) => control.type === "checkbox");
  for (const control of controls()) if (control.type !== "checkbox" && control.value) now.set(control.dataset.filter, control.value);
  if (!boxes.every((box) => box.checked)) now.set("result", boxes.filter((box) => box.checked).map((box) => box.value).join(","));
  history.replaceState(null, "", now.size ? `#${now}` : location.pathname + location.search);
  show();
}

// Arrows walk in the matrix.
function walk(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const cell = event.target.closest?.(".matrix td");
  if (!step || !cell) return;
  event.preventDefault();
  const rows = all("tr", cell.closest("tbody"));
  let [row, column] = [rows.indexOf(cell.parentElement), cell.cellIndex];
  for (;;) {
    row += step[0]; column += step[1];
    const next = rows[row]?.cells[column];
    if (!next || column === 0) return;
    const link = next.querySelector("a:not([hidden])");
    if (link && !next.hidden && !rows[row].hidden) { link.focus(); return; }
  }
}

document.addEventListener("input", (event) => event.target.matches("[data-filter]") && choose());
document.addEventListener("keydown", walk);
for (const button of all("button[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.previousElementSibling.textContent);
    button.textContent = "copied";
  });
}
if (controls().length) { addEventListener("hashchange", show); show(); }

// The page of a run that is under way (impilab serve) is asked for again; the reader's place in it stays.
const PAUSE_MS = 2000;
const nameOf = (details) => details.firstElementChild.textContent.replace(/\d+/, "");
let seen = "";

function placeOf({ dataset, type, value }) {
  if (dataset.id) return `a[data-id="${CSS.escape(dataset.id)}"]`;
  return dataset.filter && `[data-filter="${dataset.filter}"]${type === "checkbox" ? `[value="${value}"]` : ""}`;
}

function take(next) {
  const place = placeOf(document.activeElement), open = new Set(all("details[open]").map(nameOf));
  const left = document.querySelector(".wide")?.scrollLeft;
  document.title = next.title;
  for (const part of ["header", "main"]) document.querySelector(part).replaceChildren(...next.querySelector(part).childNodes);
  show();
  for (const details of all("details")) details.open ||= open.has(nameOf(details));
  document.querySelector(".wide")?.scrollTo({ left });
  if (place) document.querySelector(place)?.focus({ preventScroll: true });
}

async function follow() {
  const live = document.querySelector("[data-live]");
  if (!live) return;
  try {
    const answer = await fetch(location.pathname, { cache: "no-cache" });
    const tag = answer.headers.get("etag");
    // Between two lines of results, a page may not be readable: the next look has it.
    if (answer.ok && tag !== seen) take(new DOMParser().parseFromString(await answer.text(), "text/html"));
    if (answer.ok) seen = tag;
  } catch {
    live.textContent = "The server of this page has ended.";
    return;
  }
  setTimeout(follow, PAUSE_MS);
}

follow();
