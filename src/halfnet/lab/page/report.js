"use strict";

// --- Tooltips and rows that light up ---------------------------------------------------------

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("aria-hidden", "true"); // what has a tooltip says the same to a screen reader
document.body.append(tip);
let shown = null;

/** Put the tooltip above what it belongs to, or below if there is no room. */
function place() {
  if (!shown) return;
  const gap = 8;
  const of = shown.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const left = of.left + (of.width - own.width) / 2;
  const right = document.documentElement.clientWidth - own.width - gap;
  const top = of.top - own.height - gap;
  tip.style.left = `${Math.max(gap, Math.min(left, right))}px`;
  tip.style.top = `${top < gap ? of.bottom + gap : top}px`;
}

function show(element) {
  shown = element;
  tip.classList.toggle("shown", Boolean(element));
  if (!element) return;
  tip.textContent = element.dataset.tip;
  place();
}

function lightUp(row) {
  for (const element of document.querySelectorAll(".lit")) element.classList.remove("lit");
  if (!row) return;
  const same = document.querySelectorAll(`[data-row="${CSS.escape(row.dataset.row)}"]`);
  for (const element of same) element.classList.add("lit");
}

function clear() {
  show(null);
  lightUp(null);
}

// A touch ends with no pointer over anything, and what it showed stays until the next one.
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, ({ target }) => {
    show(target.closest("[data-tip]"));
    lightUp(target.closest("[data-row]"));
  });
}
document.addEventListener("focusout", clear);
document.documentElement.addEventListener("pointerleave", ({ pointerType }) => {
  if (pointerType === "mouse") clear();
});
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") clear();
});
document.addEventListener("scroll", place, { capture: true, passive: true });

// --- Sorting ---------------------------------------------------------------------------------

const NEXT = { none: "ascending", ascending: "descending", descending: "none" };

/** Compare two cells: as numbers if both are, else as text; what is missing comes last. */
function compare(a, b, sign) {
  if (a === "–" || b === "–") return (a === "–") - (b === "–");
  const [x, y] = [a, b].map((text) => parseFloat(text.replaceAll(",", "").replace("−", "-")));
  if (Number.isNaN(x) || Number.isNaN(y)) return sign * a.localeCompare(b, "en");
  return sign * (x - y);
}

function sort(table, head) {
  const body = table.tBodies[0];
  const order = NEXT[head.getAttribute("aria-sort") ?? "none"];
  for (const other of table.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  const rows = [...body.rows].sort((a, b) => a.dataset.place - b.dataset.place);
  if (order !== "none") {
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const text = (row) => row.cells[head.dataset.column].textContent;
    rows.sort((a, b) => compare(text(a), text(b), sign));
  }
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.rows")) {
  [...table.tBodies[0].rows].forEach((row, i) => (row.dataset.place = i));
  for (const head of table.querySelectorAll("[data-column]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head));
    head.append(button);
  }
}

// --- Light and dark --------------------------------------------------------------------------

const preference = matchMedia("(prefers-color-scheme: dark)");
const theme = document.getElementById("theme");

function other() {
  const now = document.documentElement.dataset.theme ?? (preference.matches ? "dark" : "light");
  return now === "dark" ? "light" : "dark";
}

function nameTheme() {
  theme.textContent = other() === "dark" ? "Dark" : "Light";
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = other();
  nameTheme();
});
preference.addEventListener("change", nameTheme);
nameTheme();
theme.hidden = false;
