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

// listing is set in the environment of a program that is asked for its own targets: Judge
// leaves that to Mage.
const listing = "HOMELAB_LISTING"

// itself asks this program, as Mage has built it, for a target, and for the names of all. It
// knows those of every package that the magefile imports, whose source may not be on this
// machine. It knows none where it does not answer.
func itself(word string) (t target, ok bool, names []string) {
	names = listed(ask("-l"))
	i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, word) })
	if i < 0 {
		return target{}, false, names
	}
	return described(names[i], ask("-h", names[i])), true, names
}

// ask runs this program for what Mage prints.
func ask(args ...string) string {
	program, err := os.Executable()
	if err != nil {
		return ""
	}
	cmd := exec.CommandContext(context.Background(), program, args...) // it prints, and ends
	cmd.Env = append(os.Environ(), listing+"=1", mg.EnableColorEnv+"=false")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// listed are the names in what mage -l prints.
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

// flagLine is a flag in what mage -h prints, in the line of its own or in that of the target.
const flagLine = `-(\w+)=<([\w.]+)>\]?(?:  +(.*))?`

// described reads what mage -h prints of a target.
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
