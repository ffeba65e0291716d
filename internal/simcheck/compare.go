package simcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// keysOnly are values that are not compared, only that they are there.
var keysOnly = regexp.MustCompile(`^(pid|pstart|starttime|endtime|ctime|used|avail|total|used_fraction|repoid|netin|netout|uptime|mem|memhost|cpu|` +
	`vendor_name|device_name|subsystem_vendor_name|subsystem_device_name|content|tokenid|nics|digest|qmpstatus|pressure.*|t)$`)

// ofTheDay are pieces of values that differ from run to run.
var ofTheDay = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`UPID:[^"\s]*`), "UPID"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "SHA256"},
	{regexp.MustCompile(`\b[0-9a-f]{40}\b`), "SHA1"},
	{regexp.MustCompile(`pveupload-[0-9a-f]{32}`), "UPLOAD"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`BC:24:11(:[0-9A-F]{2}){3}`), "MAC"},
	{regexp.MustCompile(`creation-qemu=[0-9.]+,ctime=\d+`), "META"},
	{regexp.MustCompile(`PVE:[^"]*|[0-9A-F]{8}:[A-Za-z0-9+/]{5,}`), "TICKET"},
}

func same(s string) string {
	for _, v := range ofTheDay {
		s = v.pattern.ReplaceAllString(s, v.with)
	}
	return s
}

// compare says what is different between a recorded answer and ours.
func compare(e, got exchange) []string {
	if want, have := fmt.Sprint(e.Status, " ", same(e.Reason)), fmt.Sprint(got.Status, " ", same(got.Reason)); want != have {
		return []string{fmt.Sprintf("recorded %q, here %q", want, have)}
	}
	if e.Body == "" || got.Body == "" {
		if e.Body != got.Body {
			return []string{fmt.Sprintf("recorded body %q, here %q", e.Body, got.Body)}
		}
		return nil
	}
	var want, have any
	if json.Unmarshal([]byte(same(e.Body)), &want) != nil || json.Unmarshal([]byte(same(got.Body)), &have) != nil {
		return []string{"a body is no JSON"}
	}
	d := &differ{}
	switch {
	case strings.HasSuffix(e.Path, "/log?limit=0"): // who prints what while it works is not compared
		d.values("last line", lastLine(want), lastLine(have))
	case strings.Contains(e.Path, "/tasks?"), e.Path == "/cluster/tasks": // how many there were is not comparable
		d.values("entry", firstEntry(want), firstEntry(have))
	default:
		d.values("", want, have)
	}
	return d.found
}

func lastLine(log any) any {
	lines, _ := log.(map[string]any)["data"].([]any)
	if len(lines) == 0 {
		return nil
	}
	line, _ := lines[len(lines)-1].(map[string]any)
	return line["t"]
}

// firstEntry is the first of a list with its values blanked: its keys alone.
func firstEntry(list any) any {
	entries, _ := list.(map[string]any)["data"].([]any)
	if len(entries) == 0 {
		return nil
	}
	entry, _ := entries[0].(map[string]any)
	return slices.Sorted(maps.Keys(entry))
}

// differ collects differences.
type differ struct{ found []string }

func (d *differ) say(format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

func (d *differ) values(path string, want, have any) {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			d.say("%s: recorded an object, here %v", path, have)
			return
		}
		d.objects(path, want, have)
	case []any:
		have, _ := have.([]any)
		d.lists(path, want, have)
	default:
		if fmt.Sprint(want) != fmt.Sprint(have) {
			d.say("%s: recorded %v, here %v", path, want, have)
		}
	}
}

func (d *differ) objects(path string, want, have map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		got, there := have[k]
		switch {
		case !there:
			d.say("%s.%s: recorded, and not here", path, k)
		case !keysOnly.MatchString(k):
			d.values(path+"."+k, want[k], got)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(have)) {
		if _, there := want[k]; !there {
			d.say("%s.%s: here, and not recorded", path, k)
		}
	}
}

// lists are compared without regard to order, which Perl leaves to chance.
func (d *differ) lists(path string, want, have []any) {
	id := func(v any) string {
		m, _ := v.(map[string]any)
		for _, k := range []string{"id", "key", "volid", "storage", "vmid"} {
			if x, ok := m[k]; ok {
				return fmt.Sprint(x)
			}
		}
		return fmt.Sprint(v)
	}
	byID := func(a, b any) int { return strings.Compare(id(a), id(b)) }
	slices.SortFunc(want, byID)
	slices.SortFunc(have, byID)
	if len(want) != len(have) {
		d.say("%s: recorded %d entries, here %d", path, len(want), len(have))
		return
	}
	for i := range want {
		d.values(path+"["+id(want[i])+"]", want[i], have[i])
	}
}
