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
// Judge does not interfere.
const listing = "HOMELAB_LISTING"

// itself asks this program, as built by Mage, for a target, and for the names of all targets.
// The answer includes every package that the magefile imports, whose source may not be on this
// machine. If the program does not answer, there are none.
func itself(word string) (t target, ok bool, names []string) {
	names = listed(ask("-l"))
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, word) })
	if i < 0 {
		return target{}, false, names
	}
	return described(names[i], ask("-h", names[i])), true, names
}

// ask runs this program and returns what Mage prints.
func ask(args ...string) string {
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

// listed returns the names in the output of mage -l.
func listed(text string) []string {
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

// described reads the output of mage -h for a target.
func described(name, text string) target {
	t := target{name: name}
	doc, text, _ := strings.Cut(text, "Usage:\n")
	t.doc = strings.Join(strings.Fields(doc), " ")
	_, line, _ := strings.Cut(text, strings.ToLower(name))
	line, _, _ = strings.Cut(line, "\n")
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "<") {
			t.words++
		}
	}
	for _, m := range regexp.MustCompile(flagLine).FindAllStringSubmatch(text, -1) {
		o := option{name: strings.ToLower(m[1]), kind: m[2], help: strings.TrimSpace(m[3])}
		if i := slices.IndexFunc(t.flags, func(was option) bool { return was.name == o.name }); i >= 0 {
			t.flags[i] = o
		} else {
			t.flags = append(t.flags, o)
		}
	}
	return t
}
