// The progress of a server that starts, and the cells of one that runs. Text of the cluster is
// only ever set as text.
"use strict"

const progress = document.querySelector("#progress")
if (progress) {
	const events = new EventSource(progress.dataset.events)
	const last = document.querySelector("#last")
	const end = text => {
		events.close()
		last.textContent = text
		last.className = "problem"
		document.querySelector("#back").hidden = false
	}
	events.onmessage = message => {
		const event = JSON.parse(message.data)
		progress.querySelector("progress").value = event.progress
		if (event.failed) return end(event.message)
		last.textContent = event.message
		const line = document.createElement("li")
		line.textContent = event.message
		progress.querySelector(".log").append(line)
		if (event.ready) {
			events.close()
			location = event.url
		}
	}
	events.onerror = () => { location = "/hub/home" }
}

const cells = document.querySelector("#cells")
if (cells) {
	let count = 0
	const fit = area => { area.rows = area.value.split("\n").length }
	const run = async cell => {
		const area = cell.querySelector("textarea")
		const [mark, out, button] = [".mark", ".out", ".run"].map(one => cell.querySelector(one))
		mark.textContent = "[*]:"
		button.disabled = true
		let text, code = 1
		try {
			const answer = await fetch(cells.dataset.run, {method: "POST", body: new URLSearchParams({code: area.value}), redirect: "manual"})
			if (answer.type == "opaqueredirect") text = "You are logged out: load the page again."
			else {
				const said = await answer.json()
				text = answer.ok ? said.output : said.message
				code = answer.ok ? said.code : 1
			}
		} catch (problem) {
			text = "The hub does not answer: " + problem.message
		}
		mark.textContent = `[${++count}]:`
		button.disabled = false
		out.textContent = text
		out.hidden = text == ""
		cell.classList.toggle("failed", code != 0)
	}
	const all = async () => {
		for (const cell of cells.querySelectorAll(".cell")) await run(cell)
	}
	cells.addEventListener("click", event => {
		if (event.target.closest(".run")) run(event.target.closest(".cell"))
	})
	cells.addEventListener("input", event => fit(event.target))
	cells.addEventListener("keydown", event => {
		if (event.key != "Enter" || !event.shiftKey) return
		event.preventDefault()
		run(event.target.closest(".cell"))
	})
	document.querySelector("#add").addEventListener("click", () => {
		cells.append(document.querySelector("#empty").content.cloneNode(true))
		cells.querySelector(".cell:last-child textarea").focus()
	})
	document.querySelector("#all").addEventListener("click", all)
}
