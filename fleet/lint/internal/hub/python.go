package hub

import (
	"path"
	"strings"

	"github.com/cps-gpu/homelab/fleet/lint/internal/python"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// Python checks the Python among values: hub.extraConfig, which the hub executes piece by piece
// (jupyterhub/files/hub/jupyterhub_config.py), and files that end in .py. Text for which later
// says yes is not final.
func (v Values) Python(later func(text string) bool) []Finding {
	f := &finder{Values: v}
	const cure = "write it as Python; python3 -m py_compile FILE says more"
	if all := v.get("hub", "extraConfig"); all.set() && all.Scalar() {
		f.add(true, all, "name each piece: extraConfig: {NAME: |", "hub.extraConfig is %s, and the hub needs a mapping of names to Python", all.Kind)
		return f.out
	}
	for _, key := range v.keys("hub", "extraConfig") {
		switch text := v.get("hub", "extraConfig", key); {
		case !text.set():
		case !text.Scalar():
			f.add(true, text, cure, "hub.extraConfig.%s is %s, and the hub needs Python as text", key, text.Kind)
		case text.Kind == yamlnode.Text && !later(text.Text):
			f.compile(text, cure, "hub.extraConfig."+key+" is not Python, and the hub does not start")
		}
	}
	for _, part := range []string{"hub", "singleuser"} {
		for _, key := range v.keys(part, "extraFiles") {
			text := v.get(part, "extraFiles", key, "stringData")
			if text.set() && path.Ext(v.get(part, "extraFiles", key, "mountPath").Str()) == ".py" && !later(text.Text) {
				f.compile(text, cure, part+".extraFiles."+key+".stringData is not Python")
			}
		}
	}
	return f.out
}

func (f *finder) compile(text value, cure, what string) {
	fault := python.Check(text.Text)
	if fault == nil {
		return
	}
	at := text
	if line, indent := lineIn(string(text.from.Text), text.at.Line, text.Text, fault.Line); line > 0 {
		at.at = yamlnode.Pos{Line: line, Col: indent + fault.Col}
	}
	f.add(true, at, cure, "%s: line %d, %s", what, fault.Line, fault.What)
}

// lineIn is the line of the file in which a line of a block is, and the block's indentation: the
// lines below the key are the block's own. 0: it is no such block.
func lineIn(file string, key int, block string, line int) (at, indent int) {
	lines := strings.Split(strings.ReplaceAll(file, "\r\n", "\n"), "\n")
	for i, text := range strings.Split(block, "\n") {
		if key+i >= len(lines) || strings.TrimSpace(lines[key+i]) != strings.TrimSpace(text) {
			return 0, 0
		}
		if i+1 == line {
			return key + line, max(0, len(lines[key+i])-len(text))
		}
	}
	return 0, 0
}
