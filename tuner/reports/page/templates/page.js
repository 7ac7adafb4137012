
"use strict";
(function () {
  const units = { us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, MiB: 1048576, GiB: 1073741824, TiB: 1099511627776 };
  const create = (name, properties) => Object.assign(document.createElement(name), properties);

  // Sorting: by the number a cell begins with, in its unit; else by the text as people sort it.
  function amount(cell) {
    const match = /^[^\w+-]*([+-]?[\d.]+(?:e[+-]?\d+)?)\s*([A-Za-z]+)?/.exec(cell);
    return match ? parseFloat(match[1]) * (units[match[2]] || 1) : null;
  }
  function sort(header) {
    const row = header.parentNode, body = row.closest("table").tBodies[0], column = header.cellIndex;
    const numeric = header.classList.contains("n");
    const was = header.getAttribute("aria-sort");
    const up = was === "none" ? !numeric || header.dataset.low === "1" : was === "descending";
    for (const other of row.cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = Array.from(body.rows, (one) => {
      const text = one.cells[column].textContent.trim();
      return { one, text, value: numeric ? amount(text) : null };
    });
    keyed.sort((a, b) => {
      if (!numeric) return (up ? 1 : -1) * a.text.localeCompare(b.text, "en", { numeric: true });
      if (a.value === null || b.value === null) return (a.value === null) - (b.value === null);
      return up ? a.value - b.value : b.value - a.value;
    });
    for (const { one } of keyed) body.append(one);
  }

  // Copying: tab-separated, which spreadsheets and mail take as a table; no cell begins a formula.
  function separated(table) {
    const plain = (cell) => {
      const text = cell.textContent.trim();
      return !cell.classList.contains("n") && /^[=+\-@]./.test(text) ? "'" + text : text;
    };
    return Array.from(table.rows, (row) => Array.from(row.cells, plain).join("\t")).join("\n");
  }
  async function copy(button, table) {
    const text = separated(table);
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = create("textarea", { value: text });
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    button.textContent = done ? "Copied" : "Select the table and copy it";
    setTimeout(() => { button.textContent = "Copy as a table"; }, 2000);
  }

  // What a mark tells: as a tip that follows the pointer, or the finger.
  const tips = new WeakMap();
  const tip = create("div", { id: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  function show(event) {
    const mark = event.target.closest && event.target.closest(".tip");
    tip.hidden = !mark || !tips.has(mark);
    if (tip.hidden) return;
    tip.textContent = tips.get(mark);
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 8 ? above : event.clientY + 18) + "px";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  function enhance(main) {
    for (const header of main.querySelectorAll("thead th")) {
      const button = create("button", { type: "button", textContent: header.textContent });
      if (["rank", "block", "processes", "threads"].includes(header.textContent)) header.dataset.low = "1";
      header.textContent = "";
      header.append(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(header));
    }
    for (const table of main.querySelectorAll("table")) {
      const button = create("button", { type: "button", className: "tool", textContent: "Copy as a table" });
      button.addEventListener("click", () => copy(button, table));
      table.parentNode.after(button);
    }
    for (const chart of main.querySelectorAll("svg.chart")) {
      const told = Array.from(chart.querySelectorAll(":scope > title, :scope > desc"));
      chart.setAttribute("aria-label", told.map((one) => one.textContent).join(". "));
      chart.removeAttribute("aria-labelledby");
      for (const one of told) one.remove();
      for (const title of chart.querySelectorAll(".tip > title")) {
        tips.set(title.parentNode, title.textContent);
        title.remove();
      }
    }
  }
  enhance(document);

  // Light, dark, or as the system has it; remembered where the browser lets us.
  const root = document.documentElement, kept = "tuner-theme";
  const themes = ["auto", "light", "dark"];
  let theme = "auto";
  try { theme = localStorage.getItem(kept) || "auto"; } catch { /* not in this browser */ }
  const button = create("button", { type: "button", className: "tool theme" });
  function set(name) {
    theme = themes.includes(name) ? name : "auto";
    if (theme === "auto") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
    try { localStorage.setItem(kept, theme); } catch { /* likewise */ }
  }
  button.addEventListener("click", () => set(themes[(themes.indexOf(theme) + 1) % themes.length]));
  set(theme);
  document.querySelector("header").append(button);

  // Served while a study runs: what runs is asked for every few seconds, the rest once it has changed, for as
  // long as somebody answers. Whoever reads keeps the place, the order of tables and what is unfolded.
  const every = Number(document.body.dataset.live || 0);
  let shown = "", tag = "";
  function now(facts) {
    const section = document.getElementById("now");
    const values = section ? section.querySelectorAll("dd") : [], told = section ? section.querySelectorAll("p") : [];
    if (values.length !== facts.rows.length) return;
    facts.rows.forEach(([, value], index) => { values[index].textContent = value; });
    facts.told.forEach((sentence, index) => { if (told[index]) told[index].textContent = sentence; });
  }
  function replace(main, fresh) {
    const opened = new Set(Array.from(main.querySelectorAll("details[open] > summary"), (one) => one.textContent));
    for (const one of fresh.querySelectorAll("details > summary")) one.parentNode.open = opened.has(one.textContent);
    const headers = "table[id] th[aria-sort]:not([aria-sort=none])";
    const sorted = Array.from(main.querySelectorAll(headers), (one) => [one.closest("table").id, one]);
    const left = Array.from(main.querySelectorAll(".scroll"), (one) => [one.scrollLeft, one.scrollTop]);
    const place = scrollY, focusable = "a[href], button, summary, [tabindex]";
    const focused = Array.from(main.querySelectorAll(focusable)).indexOf(document.activeElement);
    tip.hidden = true;
    main.replaceWith(fresh);
    enhance(fresh);
    for (const [id, one] of sorted) {
      const table = document.getElementById(id), header = table && table.tHead.rows[0].cells[one.cellIndex];
      for (let n = 0; header && n < 2 && header.getAttribute("aria-sort") !== one.getAttribute("aria-sort"); n++) sort(header);
    }
    fresh.querySelectorAll(".scroll").forEach((one, index) => {
      if (left[index]) [one.scrollLeft, one.scrollTop] = left[index];
    });
    const again = fresh.querySelectorAll(focusable)[focused];
    if (again) again.focus({ preventScroll: true });
    scrollTo({ top: place, behavior: "instant" });
  }
  async function renew() {
    try {
      const facts = await (await fetch(location.pathname + "/now", { cache: "no-store" })).json();
      now(facts);
      const main = document.querySelector("main");
      if (facts.version !== shown && !String(getSelection())) { // what somebody copies stays
        const answer = await fetch(location.pathname, { cache: "no-cache" }); // 304 where it is known
        if (answer.ok && tag !== answer.headers.get("ETag")) {
          tag = answer.headers.get("ETag");
          replace(main, new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main"));
          now(facts);
        }
        if (tag === `"${facts.version}"`) shown = facts.version; // else it is being made anew
      }
    } catch { /* nobody answers: what is shown stays */ }
    setTimeout(renew, 1000 * every);
  }
  if (every) setTimeout(renew, 1000 * every);
})();
