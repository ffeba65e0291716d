package fault

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cps-gpu/homelab/sim/guest"
)

// ParseRule reads a rule from a line of words, as people write and logs show it:
//
//	POST /nodes/*/qemu/*/clone 500 "can't lock file … - got timeout" times=2
//	PUT /nodes/pve1/qemu/101/config drop after
//	mutating ** delay=40s skip=3
//	* /nodes/*/qemu/*/status/start task="start failed: QEMU exited with code 1" times=all
//	POST /nodes/*/qemu/*/status/start guest=NeverBoots
//
// First comes the method, or "*" for any, or "mutating" for all but reading; then
// the path, in which * is one part of a path and ** any rest, or ~ and a regular
// expression; then, in any order, what happens: a status with its text in quotes,
// or a word for each field of [Rule]. Quotes are Go's.
func ParseRule(line string) (Rule, error) {
	words, err := ruleWords(line)
	if err != nil {
		return Rule{}, err
	}
	if len(words) < 3 {
		return Rule{}, fmt.Errorf("fault %q: write a method, a path and what happens, as in: POST /nodes/*/qemu/*/clone 500 \"got timeout\"", line)
	}
	var r Rule
	switch m := words[0].value; m {
	case "*":
	case "mutating":
		r.Mutating = true
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
		r.Method = m
	default:
		return Rule{}, fmt.Errorf("fault: %q is not a method: write GET, POST, PUT, DELETE, mutating or *", m)
	}
	if r.Path, err = rulePath(words[1].value); err != nil {
		return Rule{}, err
	}
	for _, w := range words[2:] {
		if err := r.word(w); err != nil {
			return Rule{}, err
		}
	}
	return r, r.sound()
}

// sound refuses rules without an effect, and such as contradict themselves.
func (r Rule) sound() error {
	effects := 0
	for _, set := range []bool{r.Drop, r.Status != 0, r.Data != nil} {
		if set {
			effects++
		}
	}
	task := r.TaskError != "" || r.TaskWarnings != 0 || r.TaskDelay != 0
	switch {
	case effects > 1:
		return fmt.Errorf("fault: only one of drop, a status and data can be the answer")
	case (r.Message != "" || r.Errors != nil || r.Body != nil) && r.Status == 0:
		return fmt.Errorf("fault: a text needs a status before it, as in 500 \"got timeout\"")
	case r.After && effects == 0 && r.TaskError == "":
		return fmt.Errorf("fault: after says that the work is done all the same: drop, a status, data or task= must say what is lost")
	case effects == 0 && !task && r.Delay == 0 && r.Guest == nil:
		return fmt.Errorf("fault: what is to happen? Write drop, a status such as 500, delay=2s, task=\"…\", warnings=1 or guest=NeverBoots")
	}
	return nil
}

// ruleWord is one word: plain or quoted, with a key before = or without.
type ruleWord struct {
	key, value string
	quoted     bool
}

// ruleWords splits at blanks outside of quotes.
func ruleWords(line string) ([]ruleWord, error) {
	var out []ruleWord
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		w := ruleWord{}
		end := strings.IndexAny(rest, " \t\"=")
		if end >= 0 && rest[end] == '=' && !strings.HasPrefix(rest, "~") && !strings.HasPrefix(rest, "/") {
			w.key, rest = rest[:end], rest[end+1:]
		}
		if quote := strings.TrimPrefix(rest, "~"); strings.HasPrefix(quote, `"`) {
			prefix, err := strconv.QuotedPrefix(quote)
			if err != nil {
				return nil, fmt.Errorf("fault: a quote is not closed: %s", rest)
			}
			text, err := strconv.Unquote(prefix)
			if err != nil {
				return nil, fmt.Errorf("fault: %s: %w", prefix, err)
			}
			tilde := rest[:len(rest)-len(quote)]
			w.value, w.quoted, rest = tilde+text, tilde == "", quote[len(prefix):]
		} else {
			w.value, rest, _ = strings.Cut(rest, " ")
		}
		out = append(out, w)
	}
	return out, nil
}

// rulePath makes a regular expression of a path with stars.
func rulePath(text string) (string, error) {
	if expr, ok := strings.CutPrefix(text, "~"); ok {
		if _, err := regexp.Compile("^(?:" + expr + ")$"); err != nil {
			return "", fmt.Errorf("fault: %w", err)
		}
		return expr, nil
	}
	if text != "*" && text != "**" && !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "**/") {
		return "", fmt.Errorf("fault: %q is not a path: it begins with / as in /nodes/*/qemu/*/clone, or is ** for any", text)
	}
	if text == "*" || text == "**" {
		return "", nil
	}
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("fault: %q is not a path: it is not UTF-8", text)
	}
	return strings.NewReplacer(`\*\*`, `.*`, `\*`, `[^/]+`).Replace(regexp.QuoteMeta(text)), nil
}

// pathText is rulePath backwards, where there is a way.
func pathText(expr string) string {
	if expr == "" {
		return "**"
	}
	glob := strings.NewReplacer(`[^/]+`, "*", `.*`, "**", `\`, "").Replace(expr)
	if again, err := rulePath(glob); err == nil && again == expr && !strings.ContainsAny(glob, " \t\"") {
		return glob
	}
	return "~" + strconv.Quote(expr)
}

// word reads one word of what happens.
func (r *Rule) word(w ruleWord) (err error) {
	if w.key != "" {
		return r.pair(w.key, w.value)
	}
	if w.quoted {
		r.Message = w.value
		return nil
	}
	switch w.value {
	case "drop":
		r.Drop = true
	case "after":
		r.After = true
	default:
		n, err := strconv.Atoi(w.value)
		if err != nil || n < 100 || n > 599 {
			return fmt.Errorf("fault: %q means nothing here: write drop, after, a status from 100 to 599, a text in quotes, or one of %s", w.value, strings.Join(ruleKeys(), "=, ")+"=")
		}
		r.Status = n
	}
	return nil
}

func ruleKeys() []string {
	return []string{"skip", "times", "delay", "error.PARAMETER", "body", "data", "task", "warnings", "task-delay", "guest"}
}

func (r *Rule) pair(key, value string) (err error) {
	count := func(least int) (n int) {
		if n, err = strconv.Atoi(value); err != nil || n < least {
			err = fmt.Errorf("fault: %s=%s: write a number from %d", key, value, least)
		}
		return n
	}
	span := func() (d time.Duration) {
		if d, err = time.ParseDuration(value); err != nil || d < 0 {
			err = fmt.Errorf("fault: %s=%s: write a time such as 2s or 1m", key, value)
		}
		return d
	}
	switch parameter, isError := strings.CutPrefix(key, "error."); {
	case isError && parameter != "":
		if r.Errors == nil {
			r.Errors = map[string]string{}
		}
		r.Errors[parameter] = value
	case key == "skip":
		r.Skip = count(0)
	case key == "times" && value == "all":
		r.Times = -1
	case key == "times":
		r.Times = count(1)
	case key == "delay":
		r.Delay = span()
	case key == "body":
		r.Body = &value
	case key == "data":
		if r.Data = json.RawMessage(value); !json.Valid(r.Data) {
			err = fmt.Errorf("fault: data=%s is not JSON", value)
		}
	case key == "task":
		r.TaskError = value
	case key == "warnings":
		r.TaskWarnings = count(1)
	case key == "task-delay":
		r.TaskDelay = span()
	case key == "guest":
		r.Guest, err = guestFaults(r.Guest, value)
	default:
		err = fmt.Errorf("fault: there is no %s=: write one of %s", key, strings.Join(ruleKeys(), "=, ")+"=")
	}
	return err
}

// guestFaultNames are what can be wrong with a guest.
func guestFaultNames(f *guest.Faults) map[string]*bool {
	return map[string]*bool{
		"AgentNeverAnswers": &f.AgentNeverAnswers, "DriverFailsToLoad": &f.DriverFailsToLoad, "CUDAFails": &f.CUDAFails, "ModuleDoesNotBuild": &f.ModuleDoesNotBuild,
		"MIGModeSticks": &f.MIGModeSticks, "DiskFull": &f.DiskFull, "ClockAhead": &f.ClockAhead,
		"ComputesWrong": &f.ComputesWrong, "ThrottlesOnLoad": &f.ThrottlesOnLoad,
		"XidUnderLoad": &f.XidUnderLoad, "SlowLink": &f.SlowLink,
		"NodeNeverReady": &f.NodeNeverReady, "SSHRefuses": &f.SSHRefuses, "NeverBoots": &f.NeverBoots,
	}
}

func guestFaults(have *guest.Faults, value string) (*guest.Faults, error) {
	f := guest.Faults{}
	if have != nil {
		f = *have
	}
	names := guestFaultNames(&f)
	for name := range strings.SplitSeq(value, ",") {
		if names[name] == nil {
			return nil, fmt.Errorf("fault: guest=%s: there are %s", name, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		*names[name] = true
	}
	return &f, nil
}

// String writes the rule as [ParseRule] reads it, but for When, which has no words.
func (r Rule) String() string {
	method := r.Method
	switch {
	case method == "" && r.Mutating:
		method = "mutating"
	case method == "":
		method = "*"
	}
	out := []string{method, pathText(r.Path)}
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	add(r.Drop, "drop")
	add(r.Status != 0, "%d", r.Status)
	add(r.Message != "", "%q", r.Message)
	for _, k := range slices.Sorted(maps.Keys(r.Errors)) {
		add(true, "error.%s=%q", k, r.Errors[k])
	}
	if r.Body != nil {
		add(true, "body=%q", *r.Body)
	}
	add(r.Data != nil, "data=%q", string(r.Data))
	add(r.After, "after")
	add(r.TaskError != "", "task=%q", r.TaskError)
	add(r.TaskWarnings != 0, "warnings=%d", r.TaskWarnings)
	add(r.TaskDelay != 0, "task-delay=%s", r.TaskDelay)
	add(r.Delay != 0, "delay=%s", r.Delay)
	if r.Guest != nil {
		f := *r.Guest
		var set []string
		for name, is := range guestFaultNames(&f) {
			if *is {
				set = append(set, name)
			}
		}
		slices.Sort(set)
		add(len(set) > 0, "guest=%s", strings.Join(set, ","))
	}
	add(r.Skip != 0, "skip=%d", r.Skip)
	add(r.Times < 0, "times=all")
	add(r.Times > 1, "times=%d", r.Times)
	return strings.Join(out, " ")
}
