package hostprep

import (
	"slices"
	"strings"
)

// cmdline is a kernel command line, split as the kernel does: at spaces outside double quotes.
type cmdline []string

func parseCmdline(s string) cmdline {
	var out cmdline
	var word strings.Builder
	quoted := false
	end := func() {
		if word.Len() > 0 {
			out = append(out, word.String())
			word.Reset()
		}
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted = !quoted
			word.WriteRune(r)
		case !quoted && (r == ' ' || r == '\t' || r == '\n' || r == '\r'):
			end()
		default:
			word.WriteRune(r)
		}
	}
	end()
	return out
}

func (c cmdline) has(option string) bool { return slices.Contains(c, option) }

// hasKey reports whether the command line has any value for key.
func (c cmdline) hasKey(key string) bool {
	return slices.ContainsFunc(c, func(o string) bool { return strings.HasPrefix(o, key+"=") })
}

// options are the wanted and the unwanted options of a command line.
type options struct {
	want   []string // must be present
	refuse []string // must be absent
	why    []string
}

// missing returns the wanted options that c lacks.
func (o options) missing(c cmdline) []string {
	return slices.DeleteFunc(slices.Clone(o.want), c.has)
}

// unwantedOptions returns the options of c that must be absent.
func (o options) unwantedOptions(c cmdline) []string {
	var out []string
	for _, x := range c {
		if slices.Contains(o.refuse, x) {
			out = append(out, x)
		}
	}
	return out
}

func (o options) areSet(c cmdline) bool { return len(o.missing(c))+len(o.unwantedOptions(c)) == 0 }

// manualEdit says how to edit c by hand.
func (o options) manualEdit(c cmdline) string {
	var out []string
	if add := o.missing(c); len(add) > 0 {
		out = append(out, "add "+strings.Join(add, " "))
	}
	if off := o.unwantedOptions(c); len(off) > 0 {
		out = append(out, "take out "+strings.Join(off, " "))
	}
	return strings.Join(out, ", ")
}

// edit returns the text of a command line without the unwanted options, and with the missing ones
// added at its end. The rest stays as written.
func (o options) edit(text string) string {
	c := parseCmdline(text)
	for _, bad := range o.unwantedOptions(c) {
		text = removeWord(text, bad)
	}
	for _, option := range o.missing(c) {
		if text != "" && !strings.HasSuffix(text, " ") {
			text += " "
		}
		text += option
	}
	return text
}

// removeWord removes a word from a text, with the spaces before it.
func removeWord(text, word string) string {
	for from := 0; from <= len(text); {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return text
		}
		i += from
		j := i + len(word)
		if (i == 0 || isBlank(text[i-1])) && (j == len(text) || isBlank(text[j])) {
			for i > 0 && isBlank(text[i-1]) {
				i--
			}
			if i == 0 {
				for j < len(text) && isBlank(text[j]) {
					j++
				}
			}
			text, from = text[:i]+text[j:], i
			continue
		}
		from = j
	}
	return text
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' }
