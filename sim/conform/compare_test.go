package conform

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Classes of differences, from the gravest to the least.
const (
	notServed = "501 here"
	accepts   = "accepts"
	refuses   = "refuses"
	status    = "status"
	reason    = "text"
	outcome   = "task outcome"
	taskLog   = "task log"
	keys      = "keys"
	kinds     = "kinds"
	values    = "values"
	order     = "order"
)

var classes = []string{notServed, accepts, refuses, status, reason, outcome, taskLog, keys, kinds, values, order}

// differ collects what is different between a recorded answer and ours.
type differ struct {
	x     *excuses
	e     exchange
	found []string
	class string
}

// compare says what is different between a recorded answer and ours, and the
// gravest class of it.
func (x *excuses) compare(e, got exchange) (found []string, class string) {
	d := &differ{x: x, e: e}
	d.statusLine(got)
	if d.found != nil {
		return d.found, d.class
	}
	if e.Type != got.Type && (e.Type != "" || e.Scenario != "") {
		d.say(status, "recorded content type %q, here %q", e.Type, got.Type)
	}
	want, ok1 := parseBody(x.plain(e, e.Body))
	have, ok2 := parseBody(x.plain(e, got.Body))
	switch {
	case !ok1 || !ok2:
		if w, h := x.plain(e, e.Body), x.plain(e, got.Body); w != h {
			d.say(reason, "recorded body %q, here %q", shorten(w), shorten(h))
		}
	case logPath.MatchString(e.Path) && e.Status == 200:
		d.logs(want, have)
	default:
		d.values("", want, have)
	}
	return d.found, d.class
}

var logPath = regexp.MustCompile(`^/nodes/[^/]+/tasks/[^/]+/log($|\?)`)

func shorten(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

func parseBody(body string) (v any, isJSON bool) {
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	return v, dec.Decode(&v) == nil
}

// statusLine compares the first line of the answers. Where both refuse with the
// same status and other words, the body is left alone.
func (d *differ) statusLine(got exchange) {
	want, have := d.x.plain(d.e, d.e.Reason), d.x.plain(d.e, got.Reason)
	if d.e.Status == got.Status && want == have {
		return
	}
	line := fmt.Sprintf("recorded %d %s%s\n  here %d %s%s", d.e.Status, shorten(want), errorsOf(d.e.Body), got.Status, shorten(have), errorsOf(got.Body))
	switch {
	case got.Status == 501 && d.e.Status != 501:
		d.say(notServed, "%s", line)
	case d.e.Status >= 400 && got.Status < 400:
		d.say(accepts, "%s", line)
	case d.e.Status < 400 && got.Status >= 400:
		d.say(refuses, "%s", line)
	case d.e.Status != got.Status:
		d.say(status, "%s", line)
	default:
		d.say(reason, "%s", line)
	}
}

// errorsOf is what an answer says of its parameters.
func errorsOf(body string) string {
	var b struct{ Errors map[string]any }
	if json.Unmarshal([]byte(body), &b) != nil || b.Errors == nil {
		return ""
	}
	return fmt.Sprintf(" %q", b.Errors)
}

func (d *differ) say(class, format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf(format, args...))
	if d.class == "" || slices.Index(classes, class) < slices.Index(classes, d.class) {
		d.class = class
	}
}

// logs compares a task's log line by line, without what was there by chance.
func (d *differ) logs(want, have any) {
	lines := func(log any) (out []string) {
		m, _ := log.(map[string]any)
		list, _ := m["data"].([]any)
		for _, l := range list {
			line, _ := l.(map[string]any)
			if text := fmt.Sprint(line["t"]); find(d.x.Lines, d.e, text) == nil {
				out = append(out, text)
			}
		}
		return out
	}
	if w, h := lines(want), lines(have); !slices.Equal(w, h) {
		d.say(taskLog, "recorded %s\n  here %s", strings.Join(w, "\n    "), strings.Join(h, "\n    "))
	}
}

// kindOf is what JSON calls it.
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "list"
	}
	return "object"
}

var indexes = regexp.MustCompile(`\[[^\]]*\]`)

func (d *differ) values(path string, want, have any) {
	place := strings.TrimPrefix(indexes.ReplaceAllString(path, ""), ".")
	if kindOf(want) != kindOf(have) {
		d.say(kinds, "%s: recorded a %s (%v), here a %s (%v)", place, kindOf(want), brief(want), kindOf(have), brief(have))
		return
	}
	switch want := want.(type) {
	case map[string]any:
		d.objects(path, want, have.(map[string]any))
	case []any:
		d.lists(path, place, want, have.([]any))
	default:
		if fmt.Sprint(want) == fmt.Sprint(have) || find(d.x.Kinds, d.e, place) != nil {
			return
		}
		w, h := fmt.Sprint(want), fmt.Sprint(have)
		if inOrder(w) == inOrder(h) && find(d.x.Sets, d.e, place) != nil {
			return
		}
		class := values
		if strings.HasPrefix(place, "errors.") || place == "message" {
			class = reason
		}
		if strings.HasSuffix(place, "exitstatus") {
			class = outcome
		}
		d.say(class, "%s: recorded %q, here %q", path, w, h)
	}
}

func brief(v any) string { return shorten(fmt.Sprint(v)) }

func inOrder(list string) string {
	parts := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' || r == ';' || r == '\n' })
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

func (d *differ) objects(path string, want, have map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got, there := have[k]; there {
			d.values(path+"."+k, want[k], got)
		} else {
			d.say(keys, "%s.%s: recorded %s, and not here", path, k, brief(want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if _, there := want[k]; !there {
			d.say(keys, "%s.%s: here %s, and not recorded", path, k, brief(have[k]))
		}
	}
}

// identity is what an entry of a list is known by.
func identity(v any) string {
	m, _ := v.(map[string]any)
	var parts []string
	for _, k := range []string{"id", "upid", "key", "volid", "storage", "vmid", "name", "pos", "subdir", "path", "ugid", "roleid", "userid", "tokenid", "iface"} {
		if x, ok := m[k]; ok {
			parts = append(parts, fmt.Sprint(x))
		}
	}
	if parts == nil {
		return fmt.Sprint(v)
	}
	return strings.Join(parts, " ")
}

func (d *differ) lists(path, place string, want, have []any) {
	names := func(list []any) (out []string) {
		for _, v := range list {
			out = append(out, identity(v))
		}
		return out
	}
	w, h := names(want), names(have)
	if !slices.Equal(w, h) {
		byName := func(a, b any) int { return strings.Compare(identity(a), identity(b)) }
		want, have = slices.SortedFunc(slices.Values(want), byName), slices.SortedFunc(slices.Values(have), byName)
		same := slices.Equal(names(want), names(have))
		if same && find(d.x.Lists, d.e, place) == nil {
			d.say(order, "%s: recorded in the order %s\n  here %s", place, brief(w), brief(h))
		}
		if len(want) != len(have) {
			d.say(keys, "%s: recorded %d entries, here %d: %s", place, len(want), len(have), strings.Join(missingFrom(w, h), "; "))
			return
		}
	}
	for i := range want {
		d.values(path+"["+identity(want[i])+"]", want[i], have[i])
	}
}

// missingFrom are the entries that only one list has.
func missingFrom(want, have []string) (out []string) {
	for _, w := range want {
		if !slices.Contains(have, w) {
			out = append(out, "not here: "+shorten(w))
		}
	}
	for _, h := range have {
		if !slices.Contains(want, h) {
			out = append(out, "not recorded: "+shorten(h))
		}
	}
	return out
}
