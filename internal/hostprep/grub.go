package hostprep

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// GRUB's variables that end up on the command line of every normal entry (grub-mkconfig, 10_linux).
const (
	grubDefault = "GRUB_CMDLINE_LINUX_DEFAULT"
	grubAlways  = "GRUB_CMDLINE_LINUX"
)

// assignment is one line of /etc/default/grub that sets a variable to a single value: unquoted, or
// in single or double quotes.
type assignment struct {
	name  string
	from  int // where the value starts, inside its quotes
	to    int
	quote string // ', " or empty
}

var assigns = regexp.MustCompile(`(?m)^[ \t]*(?:export[ \t]+)?(GRUB_CMDLINE_LINUX(?:_DEFAULT)?)(\+?=)`)

// grubFile is a file that grub-mkconfig reads with the shell's "." command. It is an arbitrary
// script, of which parseGrub understands only plain assignments.
type grubFile struct {
	path, text string
	sets       []assignment
}

// parseGrub finds the assignments of the command lines. An error names the line that is not safe to
// change.
func parseGrub(path, text string) (grubFile, error) {
	f := grubFile{path: path, text: text}
	for _, m := range assigns.FindAllStringSubmatchIndex(text, -1) {
		a := assignment{name: text[m[2]:m[3]], from: m[1]}
		line := 1 + strings.Count(text[:m[0]], "\n")
		bad := func(why string) error {
			return fmt.Errorf("%s:%d: %s %s: write it on one line as %s=\"…\", or change it yourself", path, line, a.name, why, a.name)
		}
		if text[m[4]:m[5]] == "+=" {
			return f, bad("is added to with +=")
		}
		rest := text[a.from:]
		end := len(rest)
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			end = i
		}
		if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
			a.quote = rest[:1]
			a.from++
			i := closing(rest[1:], rest[0])
			if i < 0 || strings.Contains(rest[1:1+i], "\n") {
				return f, bad("spans several lines")
			}
			a.to = a.from + i
			rest = rest[i+2 : max(end, i+2)]
		} else {
			i := strings.IndexAny(rest[:end], " \t;")
			if i < 0 {
				i = end
			}
			a.to = a.from + i
			rest = rest[i:end]
		}
		if strings.ContainsAny(text[a.from:a.to], "`") || strings.Contains(text[a.from:a.to], "$(") {
			return f, bad("is the output of a command")
		}
		if a.quote == "" && strings.ContainsAny(text[a.from:a.to], "\\'\"&|()<>") {
			return f, bad("is assembled from several pieces")
		}
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
			return f, bad("is followed by more than a comment")
		}
		f.sets = append(f.sets, a)
	}
	return f, nil
}

// closing returns the position of the closing quote.
func closing(s string, quote byte) int {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote == '"':
			i++
		case s[i] == quote:
			return i
		}
	}
	return -1
}

func (f grubFile) value(a assignment) string { return f.text[a.from:a.to] }

// expand replaces references to the variable in its own value, and reports whether there are any.
func (a assignment) expand(value, before string) (string, bool) {
	if a.quote == "'" {
		return value, false
	}
	ref := regexp.MustCompile(`\$(\{` + a.name + `\}|` + a.name + `\b)`)
	return ref.ReplaceAllLiteralString(value, before), ref.MatchString(value)
}

// grubConfig is all of GRUB's settings, in the order in which GRUB reads them.
type grubConfig []grubFile

// effective returns the command line that boot entries get.
func (g grubConfig) effective() cmdline {
	values := map[string]string{}
	for _, f := range g {
		for _, a := range f.sets {
			values[a.name], _ = a.expand(f.value(a), values[a.name])
		}
	}
	return parseCmdline(values[grubAlways] + " " + values[grubDefault])
}

// edit returns the changes that are needed. It removes unwanted options wherever they are. It adds
// missing ones to the last assignment that replaces the options, rather than extends them.
func (g grubConfig) edit(o options) []FileChange {
	missing := options{want: o.missing(g.effective())}.want
	at, of := g.target()
	var out []FileChange
	for i, f := range g {
		text := f.text
		for j, a := range slices.Backward(f.sets) {
			change := options{refuse: o.refuse}
			if i == at && j == of {
				change.want = missing
			}
			v := f.value(a)
			if after := change.edit(v); after != v {
				if a.quote == "" {
					after = `"` + after + `"`
				}
				text = text[:a.from] + after + text[a.to:]
			}
		}
		if i == 0 && at < 0 && len(missing) > 0 {
			if text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
			text += grubDefault + `="` + strings.Join(missing, " ") + "\"\n"
		}
		if text != f.text {
			out = append(out, FileChange{Path: f.path, Before: f.text, After: text})
		}
	}
	return out
}

// target returns the file and the assignment that replaces the options; -1 for none.
func (g grubConfig) target() (file, set int) {
	for i, f := range slices.Backward(g) {
		for j, a := range slices.Backward(f.sets) {
			if _, adds := a.expand(f.value(a), ""); a.name == grubDefault && !adds {
				return i, j
			}
		}
	}
	return -1, -1
}
