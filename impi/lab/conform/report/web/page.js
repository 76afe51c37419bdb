"use strict";
const find = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const rows = all("li[data-test]");
const byTest = new Map(rows.map((row) => [row.dataset.test, row]));
const verdicts = new Map();
let run = 0, seen = 0, running = false, open = "";

function paint(element, verdict, text = verdict) {
  element.className = "verdict " + verdict.replaceAll(" ", "-");
  element.textContent = text;
}

function ofClause(section) {
  const found = new Set(all("li", section).map((row) => verdicts.get(row.dataset.test)));
  return ["broken", "not decidable", "holds", "not tested"].find((verdict) => found.has(verdict)) ?? "";
}

function sum(section) {
  const mark = find(".sum", section), verdict = ofClause(section);
  paint(mark, verdict);
  mark.classList.add("sum");
}

function count() {
  const chosen = rows.filter((row) => find("input", row).checked).length;
  find("#chosen").textContent = `${chosen} test${chosen === 1 ? "" : "s"}`;
  find("#start").disabled = running || chosen === 0;
  for (const section of all("section")) {
    const boxes = all("li input", section);
    const group = find(".group", section);
    group.checked = boxes.some((box) => box.checked);
    group.indeterminate = group.checked && !boxes.every((box) => box.checked);
  }
}

function show() {
  const text = find("#filter").value.trim(), setup = find("#setup").value;
  for (const row of rows) {
    row.hidden = !row.dataset.test.includes(text) || (setup !== "" && row.dataset.setup !== setup);
  }
  for (const section of all("section")) {
    section.hidden = all("li", section).every((row) => row.hidden);
    find("details", section).open = !section.hidden && (text !== "" || setup !== "");
  }
}

function choose(row, on) { find("input", row).checked = on && !row.hidden; }

async function openTest(name) {
  open = name;
  for (const row of rows) row.classList.toggle("open", row.dataset.test === name);
  const answer = await fetch("test/" + name);
  if (open !== name) return;
  find("#conversation").textContent = await answer.text();
  // On a phone it is below the tests.
  if (matchMedia("(max-width: 50em)").matches) find("#conversation").scrollIntoView();
}

function state(news) {
  running = news.running;
  find("#stop").disabled = !running;
  find("#progress").max = Math.max(news.chosen, 1);
  find("#progress").value = news.ended;
  find("#reports").hidden = news.ended === 0;
  const counts = {};
  for (const verdict of verdicts.values()) counts[verdict] = (counts[verdict] ?? 0) + 1;
  find("#counts").textContent = Object.entries(counts).map(([verdict, n]) => `${n} ${verdict}`).join(", ");
  find("#now").textContent = running ? news.now : news.trouble;
  find("#now").classList.toggle("trouble", !running && news.trouble !== "");
  const row = running ? byTest.get(news.now) : undefined;
  for (const other of all(".running")) if (!row?.contains(other)) paint(other, verdicts.get(other.closest("li").dataset.test) ?? "");
  if (row && !verdicts.has(news.now)) paint(find(".verdict", row), "running", "...");
  count();
}

async function look() {
  try {
    const news = await (await fetch(`news?run=${run}&since=${seen}`)).json();
    if (news.run !== run) {
      verdicts.clear();
      for (const row of rows) paint(find(".verdict", row), "");
      for (const section of all("section")) sum(section);
      [run, seen] = [news.run, 0];
    }
    for (const outcome of news.outcomes) {
      verdicts.set(outcome.test, outcome.verdict);
      const row = byTest.get(outcome.test), mark = find(".verdict", row), section = row.closest("section");
      paint(mark, outcome.verdict);
      row.title = outcome.why;
      sum(section);
      if (outcome.verdict === "broken") find("details", section).open = true;
      if (outcome.test === open) openTest(open);
    }
    seen = news.ended;
    state(news);
  } catch (error) {
    find("#now").textContent = "the tester has ended";
    find("#now").classList.add("trouble");
  }
  setTimeout(look, running ? 300 : 1000);
}

find("#tests").addEventListener("click", (event) => {
  const row = event.target.closest("li");
  if (event.target.matches(".name")) openTest(row.dataset.test);
  if (event.target.matches(".group")) {
    for (const each of all("li", event.target.closest("section"))) choose(each, event.target.checked);
  }
  count();
});
for (const button of all("[data-choose]")) {
  button.addEventListener("click", () => {
    const wish = button.dataset.choose;
    for (const row of rows) choose(row, wish === "all" || (wish === "broken" && verdicts.get(row.dataset.test) === "broken"));
    count();
  });
}
find("#filter").addEventListener("input", show);
find("#setup").addEventListener("change", () => {
  show();
  for (const row of rows) choose(row, true);
  count();
});
find("#stop").addEventListener("click", () => fetch("stop", { method: "POST" }));
find("#run").addEventListener("submit", async (event) => {
  event.preventDefault();
  find("#start").disabled = true;
  const tests = rows.filter((row) => find("input", row).checked).map((row) => row.dataset.test);
  const wish = { tests, procs: Number(find("#procs").value) };
  const answer = await fetch("start", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(wish),
  });
  if (answer.ok) return;
  find("#now").textContent = await answer.text();
  find("#now").classList.add("trouble");
  count();
});
count();
look();
