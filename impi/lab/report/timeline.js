"use strict";
// The page of the cell, which shows this one, has a header of its own.
document.documentElement.classList.toggle("inner", self !== top);
const rows = [...document.querySelectorAll(".row[data-k]")];
const boxes = [...document.querySelectorAll("nav input[data-group]")];
const find = document.getElementById("find");
const count = document.getElementById("count");
function show() {
  const groups = new Set(boxes.filter((box) => box.checked).map((box) => box.dataset.group));
  const words = find.value.toLowerCase().split(/\s*,\s*/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = words.length ? row.lastChild.textContent.toLowerCase() : "";
    const on = groups.has(row.dataset.k) && words.every((word) => text.includes(word));
    row.classList.toggle("off", !on);
    shown += on;
  }
  count.textContent = `${shown} of ${rows.length} entries`;
}
boxes.forEach((box) => box.addEventListener("change", show));
find.addEventListener("input", show);
show();
