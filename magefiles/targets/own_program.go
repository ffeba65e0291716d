package targets

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/magefile/mage/mg"
)

// listing is set in the environment of a program that is asked for its own targets, so that
// Main does not interfere.
const listing = "HOMELAB_LISTING"

// askOwnProgram asks this program, as built by Mage, for a target of another package, and for the names of all targets. If
// the program does not answer, there are none.
func askOwnProgram(word string) (v *Verb, names []string) {
	names = parseList(mageOutput("-l"))
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, word) })
	if i < 0 {
		return nil, names
	}
	return parseHelp(names[i], mageOutput("-h", names[i])), names
}

// mageOutput runs this program and returns what Mage prints.
func mageOutput(args ...string) string {
	program, err := os.Executable()
	if err != nil {
		return ""
	}
	cmd := exec.CommandContext(context.Background(), program, args...) // it only prints, and ends
	cmd.Env = append(os.Environ(), listing+"=1", mg.EnableColorEnv+"=false")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// parseList returns the names in the output of mage -l.
func parseList(text string) []string {
	var out []string
	_, text, _ = strings.Cut(text, "Targets:\n")
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "  "); ok {
			if words := strings.Fields(name); len(words) > 0 {
				out = append(out, strings.TrimSuffix(words[0], "*"))
			}
		}
	}
	return out
}

// flagLine matches a flag in the output of mage -h, on its own line or on that of the target.
const flagLine = `-(\w+)=<([\w.]+)>\]?(?:  +(.*))?`

// parseHelp reads the output of mage -h for a target.
func parseHelp(name, text string) *Verb {
	v := &Verb{Name: name}
	doc, text, _ := strings.Cut(text, "Usage:\n")
	words := strings.Fields(doc)
	if len(words) > 1 && strings.HasSuffix(strings.ToLower(":"+name), ":"+strings.ToLower(words[0])) {
		words = words[1:] // the function's name
	}
	v.Doc = strings.Join(words, " ")
	_, usage, _ := strings.Cut(text, strings.ToLower(name))
	usage, _, _ = strings.Cut(usage, "\n")
	for word := range strings.FieldsSeq(usage) {
		if strings.HasPrefix(word, "<") {
			v.words++
		}
	}
	for _, m := range regexp.MustCompile(flagLine).FindAllStringSubmatch(text, -1) {
		f := flagOf(m[1], strings.TrimSpace(m[3]), m[2])
		if i := slices.IndexFunc(v.Flags, func(was Flag) bool { return was.Name == f.Name }); i >= 0 {
			v.Flags[i] = f
		} else {
			v.Flags = append(v.Flags, f)
		}
	}
	return v
}
